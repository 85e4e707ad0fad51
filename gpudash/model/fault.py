"""Why something could not be read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from functools import partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.errors import ExitStatus
from gpudash.model.fields import Group, Index, Natural, Seconds, metric
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_state = partial(metric, Group.STATE)


class Fault(Struct, frozen=True, kw_only=True):
    """Why something could not be read, in one line for people."""

    # fmt: off
    source: Annotated[str, _state(Unit.NONE,
        "What failed: nvml, processes, topology, or document where it is cut.")]
    message: Annotated[SafeText, _state(Unit.NONE, "What failed and what to do, one line.")]
    code: Annotated[Index | None, _state(Unit.NONE,
        "NVML's return value, null for other sources.")] = None
    uuid: Annotated[str | None, _state(Unit.NONE,
        "The device it concerns, null for the host.")] = None
    # fmt: on


def unlisted_uuids(faults: Iterable[Fault]) -> set[str]:
    """Return the UUIDs of devices whose process list is unavailable: empty does not mean idle."""
    return {fault.uuid for fault in faults if fault.source == "processes" and fault.uuid}


def listing_failed(faults: Iterable[Fault]) -> bool:
    """Whether the driver failed to list the GPUs, other than by reporting that there are none."""
    codes = {fault.code for fault in faults if fault.source == "nvml" and fault.uuid is None}
    return bool(codes) and ExitStatus.NO_GPU not in codes


_reliability = partial(metric, Group.RELIABILITY)


class XidEvent(Struct, frozen=True, kw_only=True):
    """An XID error that the driver reported while gpudash was watching."""

    # fmt: off
    code: Annotated[Index | None, _reliability(Unit.NONE,
        "Number in NVIDIA's XID catalogue, null where the driver does not report it.",
        nvml="nvmlEventSetWait_v2")]
    seen_at: Annotated[Seconds, _reliability(Unit.SECOND,
        "When it was reported, the last time if more than once; Unix time.")]
    count: Annotated[Natural, _reliability(Unit.COUNT, "How many times it was reported.")] = 1
    gpu_instance_id: Annotated[Index | None, _reliability(Unit.NONE,
        "MIG GPU instance concerned, null for the whole GPU.")] = None
    before_reset: Annotated[bool, _reliability(Unit.NONE,
        "Whether the GPU was reset or its driver reloaded since, which ends it.")] = False
    # fmt: on

    def __str__(self) -> str:
        code = "unknown" if self.code is None else str(self.code)
        often = f" {self.count} times" if self.count > 1 else ""
        try:
            moment = datetime.fromtimestamp(self.seen_at, timezone.utc)
        except (ValueError, OverflowError, OSError):
            return code + often
        over = ", before its reset" if self.before_reset else ""
        return f"{code}{often} at {moment:%H:%M:%S} UTC{over}"
