"""Who has reserved a GPU with `gpudash run`, and whether it is used."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_lease = partial(metric, Group.LEASE)


class Lease(Struct, frozen=True, kw_only=True):
    """One GPU that a process holds for itself by agreement: the driver knows nothing of it."""

    # fmt: off
    uuid: Annotated[str, _lease(Unit.NONE, "The GPU.")]
    index: Annotated[int, _lease(Unit.NONE, "Its index.")]
    pid: Annotated[int | None, _lease(Unit.NONE,
        "The process that took it, null if it is in another PID namespace.")] = None
    start_ticks: Annotated[int | None, _lease(Unit.COUNT,
        "When that process started in clock ticks since boot, null if it has ended.")] = None
    create_time: Annotated[float | None, _lease(Unit.SECOND,
        "When it started, Unix time; it took the lease soon after.")] = None
    username: Annotated[SafeText | None, _lease(Unit.NONE, "Its owner.")] = None
    name: Annotated[SafeText | None, _lease(Unit.NONE,
        "Its executable, null if it has ended: a child of it holds the lease.")] = None
    is_used: Annotated[bool | None, _lease(Unit.NONE,
        "Whether it or a descendant uses the GPU, null if that cannot be seen.")] = None
    # fmt: on
