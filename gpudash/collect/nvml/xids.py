"""XID errors as the driver reports them: fetched when they are there, never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import RETRY_SECONDS, Timer
from gpudash.collect.nvml.library import Library
from gpudash.model.fault import XidEvent

_XID = 0x8
"""nvmlEventTypeXidCriticalError."""
_UNKNOWN_XID = 999
_NO_INSTANCE = 0xFFFFFFFF
_MAX_KEPT = 16
_MAX_FETCHED = 64


class XidWatch:
    """The XIDs of one GPU since it is watched, kept when the GPU is lost."""

    def __init__(
        self,
        library: Library,
        wall_clock: Callable[[], float],
        events: tuple[XidEvent, ...] | None = None,
    ) -> None:
        self.events = events
        """The last of each kind, the newest last; None until the driver accepts to report them."""
        self._library = library
        self._wall_clock = wall_clock
        self._set: Any = None
        self._handle: Any = None
        self._reset()

    def fetch(self, handle: Any, now: float) -> None:
        """Take what was reported, once events are registered."""
        if self._set is None and self._is_supported and self._timer.is_due(now):
            self._register(handle)
        if self._set is not None:
            self._take(handle)

    def close(self) -> None:
        """Take what is left and free the event set: the handle that it is for is gone."""
        if self._set is not None:
            self._take(self._handle)
        if self._set is not None:
            self._library.call("nvmlEventSetFree", self._set)
        self._set = None
        self._reset()

    def mark_before_reset(self) -> None:
        """Mark what was reported so far as of before a reset."""
        if self.events:
            self.events = tuple(replace(event, before_reset=True) for event in self.events)

    def _reset(self) -> None:
        self._is_supported = True
        self._timer = Timer(RETRY_SECONDS)

    def _register(self, handle: Any) -> None:
        types, code = self._library.call("nvmlDeviceGetSupportedEventTypes", handle)
        if code in codes.PERMANENT or (not code and not types & _XID):
            self._is_supported = False
        if code or not self._is_supported:
            return
        created, code = self._library.call("nvmlEventSetCreate")
        if not code:
            _, code = self._library.call("nvmlDeviceRegisterEvents", handle, _XID, created)
            if code:
                self._library.call("nvmlEventSetFree", created)
        if code in codes.PERMANENT:
            self._is_supported = False
        if not code:
            self._set, self._handle = created, handle
            self.events = self.events or ()

    def _take(self, handle: Any) -> None:
        for _ in range(_MAX_FETCHED):
            event, code = self._library.call("nvmlEventSetWait_v2", self._set, 0)
            if code == codes.TIMEOUT:
                return
            if code:
                self._library.call("nvmlEventSetFree", self._set)
                self._set = None
                return
            # Some libraries report every GPU's events to each set.
            if event.eventType & _XID and self._library.is_same(event.device, handle):
                self._add(event)

    def _add(self, event: Any) -> None:
        """Keep an event; a repeated one only counts up, so that it pushes no other out."""
        number, instance = event.eventData, event.gpuInstanceId
        xid = XidEvent(
            code=None if number == _UNKNOWN_XID else number,
            seen_at=self._wall_clock(),
            gpu_instance_id=None if instance == _NO_INSTANCE else instance,
        )
        events = self.events or ()
        same = sum(event.count for event in events if _kind(event) == _kind(xid))
        others = (event for event in events if _kind(event) != _kind(xid))
        self.events = (*others, replace(xid, count=same + 1))[-_MAX_KEPT:]


def _kind(event: XidEvent) -> tuple[object, ...]:
    return event.code, event.gpu_instance_id, event.before_reset
