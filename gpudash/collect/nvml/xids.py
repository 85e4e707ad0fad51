"""XID errors as the driver reports them: never waited for, only fetched when they are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import RETRY_SECONDS, Pace
from gpudash.collect.nvml.library import Library
from gpudash.model.fault import XidEvent

_XID = 0x8
"""nvmlEventTypeXidCriticalError."""
_NOT_TOLD = 999
_NO_INSTANCE = 0xFFFFFFFF
_KEPT = 16
_FETCHED_AT_ONCE = 64


class XidWatch:
    """The XIDs of one GPU since it is watched; they outlive the GPU, which may be lost by one."""

    def __init__(
        self,
        library: Library,
        wall_clock: Callable[[], float],
        events: tuple[XidEvent, ...] | None = None,
    ) -> None:
        self.events = events
        """The last of each kind, the newest last; None while the driver reports none."""
        self._library = library
        self._wall_clock = wall_clock
        self._set: Any = None
        self._start_anew()

    def fetch(self, handle: Any, now: float) -> None:
        """Take what has been reported, once the reports were asked for."""
        if self._set is None and self._is_supported and self._pace.is_due(now):
            self._register(handle)
        if self._set is not None:
            self._take()

    def close(self) -> None:
        """Take what is left and give the set back: the handle that it is for is gone."""
        if self._set is not None:
            self._take()
        if self._set is not None:
            self._library.ask("nvmlEventSetFree", self._set)
        self._set = None
        self._start_anew()

    def put_behind(self) -> None:
        """Mark what was reported so far as of before a reset."""
        if self.events:
            self.events = tuple(replace(event, before_reset=True) for event in self.events)

    def _start_anew(self) -> None:
        self._is_supported = True
        self._pace = Pace(RETRY_SECONDS)

    def _register(self, handle: Any) -> None:
        types, code = self._library.ask("nvmlDeviceGetSupportedEventTypes", handle)
        if code in codes.PERMANENT or (not code and not types & _XID):
            self._is_supported = False
        if code or not self._is_supported:
            return
        created, code = self._library.ask("nvmlEventSetCreate")
        if not code:
            _, code = self._library.ask("nvmlDeviceRegisterEvents", handle, _XID, created)
            if code:
                self._library.ask("nvmlEventSetFree", created)
        if code in codes.PERMANENT:
            self._is_supported = False
        if not code:
            self._set = created
            self.events = self.events or ()

    def _take(self) -> None:
        for _ in range(_FETCHED_AT_ONCE):
            event, code = self._library.ask("nvmlEventSetWait_v2", self._set, 0)
            if code == codes.TIMEOUT:
                return
            if code:
                self._library.ask("nvmlEventSetFree", self._set)
                self._set = None
                return
            if event.eventType & _XID:
                self._add(event)

    def _add(self, event: Any) -> None:
        """Keep an event; the same one again only counts up, so that no storm pushes others out."""
        number, instance = event.eventData, event.gpuInstanceId
        xid = XidEvent(
            code=None if number == _NOT_TOLD else number,
            seen_at=self._wall_clock(),
            gpu_instance_id=None if instance == _NO_INSTANCE else instance,
        )
        events = self.events or ()
        same = sum(event.count for event in events if _kind(event) == _kind(xid))
        others = (event for event in events if _kind(event) != _kind(xid))
        self.events = (*others, replace(xid, count=same + 1))[-_KEPT:]


def _kind(event: XidEvent) -> tuple[object, ...]:
    return event.code, event.gpu_instance_id, event.before_reset
