"""Why something could not be read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_state = partial(metric, Group.STATE)

_NO_GPU = 6
"""NVML's return value where the driver has none."""


class Fault(Struct, frozen=True, kw_only=True):
    """Why something could not be read, in one line for people."""

    # fmt: off
    source: Annotated[str, _state(Unit.NONE, "What failed: nvml, host, processes or topology.")]
    message: Annotated[SafeText, _state(Unit.NONE, "What failed and what to do, one line.")]
    code: Annotated[int | None, _state(Unit.NONE,
        "NVML's return value, null for other sources.")] = None
    uuid: Annotated[str | None, _state(Unit.NONE,
        "The device it concerns, null for the host.")] = None
    # fmt: on


def unlisted_uuids(faults: Iterable[Fault]) -> set[str]:
    """Return the devices, by UUID, of which it is not known who is on them."""
    return {fault.uuid for fault in faults if fault.source == "processes" and fault.uuid}


def hide_gpus(faults: Iterable[Fault]) -> bool:
    """Whether the driver did not tell which GPUs there are, where none is known: maybe many."""
    told = {fault.code for fault in faults if fault.source == "nvml" and fault.uuid is None}
    return bool(told) and _NO_GPU not in told
