"""NVML's events: sets in which the XIDs of cards arrive, at whole multiples of their period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.errors import NVMLError
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.results import Record

_XID = CONSTANTS["nvmlEventTypeXidCriticalError"]
_NO_INSTANCE = 0xFFFFFFFF


class EventSet:
    """The cards whose XIDs arrive here, and until when they were fetched."""

    def __init__(self) -> None:
        self._fetched_until: dict[Gpu, float] = {}

    def register(self, gpu: Gpu, now: float) -> int:
        """Let the XIDs of a card arrive from now on."""
        self._fetched_until[gpu] = now
        return 0

    def wait(self, now: float) -> Record:
        """Return the next XID that has arrived.

        Raises NVMLError TIMEOUT where there is none: simulated time does not pass while one waits.
        """
        for gpu, since in self._fetched_until.items():
            for xid in gpu.card.xids:
                at = (since // xid.every + 1) * xid.every
                if at <= now:
                    self._fetched_until[gpu] = at
                    return Record(
                        eventType=_XID,
                        eventData=xid.code,
                        gpuInstanceId=_NO_INSTANCE,
                        computeInstanceId=_NO_INSTANCE,
                    )
        raise NVMLError(CONSTANTS["NVML_ERROR_TIMEOUT"])


EVENT_CALLS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetSupportedEventTypes": lambda gpu, now: _XID,
    "nvmlDeviceRegisterEvents": lambda gpu, now, types, into: into.register(gpu, now),
}
"""Calls about events, on the handle of a whole GPU."""
