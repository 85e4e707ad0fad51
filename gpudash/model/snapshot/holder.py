"""A process that has a GPU open without being in the driver's list."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_memory = partial(metric, Group.MEMORY)


class Holder(Struct, frozen=True, kw_only=True):
    """A process that has the node of a GPU open although the driver lists it on none."""

    # fmt: off
    pid: Annotated[int, _memory(Unit.NONE, "Process id, as /proc shows it.")]
    start_ticks: Annotated[int | None, _memory(Unit.COUNT,
        "When it started in clock ticks since boot; with the PID its identity.")] = None
    username: Annotated[SafeText | None, _memory(Unit.NONE,
        "Owner, or the uid if it has no name.")] = None
    command_line: Annotated[tuple[SafeText, ...] | None, _memory(Unit.NONE,
        "Program and arguments, cleaned of control characters.")] = None
    # fmt: on

    def __str__(self) -> str:
        program = (self.command_line or ("?",))[0].rpartition("/")[2]
        return f"{self.pid} {self.username or '?'} {program}"
