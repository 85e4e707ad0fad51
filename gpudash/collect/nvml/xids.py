"""XID errors reported by the driver: fetched when available, never waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import Any

from msgspec.structs import replace

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import RETRY_SECONDS
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.polling import Timer
from gpudash.model.fault import XidEvent

_XID = 0x8
"""nvmlEventTypeXidCriticalError."""
_UNKNOWN_XID = 999
_NO_INSTANCE = 0xFFFFFFFF
_MAX_KEPT = 16
_MAX_FETCHED = 64
_LOCK = Lock()
"""Held while events change: one GPU's thread may fetch another's."""

_Events = Counter[tuple["XidWatch", int, int]]
"""How often each XID of a watched device and a GPU instance was received."""


class XidWatch:
    """The XIDs of one GPU since it is watched, kept when the GPU is lost.

    A library may report an event in the set of another GPU, or in those of all. So each event goes
    to its device's watch among `watches`, and is expected once in each of the other sets.
    """

    def __init__(
        self,
        library: Library,
        wall_clock: Callable[[], float],
        watches: list[XidWatch],
        events: tuple[XidEvent, ...] | None = None,
    ) -> None:
        self.events = events
        """The last of each kind, the newest last; None until the driver agrees to report them."""
        self._library = library
        self._wall_clock = wall_clock
        self._watches = watches
        watches.append(self)
        self._set: Any = None
        self._handle: Any = None
        self._expected = _Events()
        """Events received from other sets since this one was last empty."""
        self._reset()

    def fetch(self, handle: Any, now: float) -> None:
        """Fetch reported events, once events are registered."""
        self._handle = handle
        if self._set is None and self._is_supported and self._timer.is_due(now):
            self._register(handle)
        if self._set is not None:
            self._take()

    def close(self) -> None:
        """Fetch the rest and free the event set: its GPU is gone, or the driver is released."""
        if self._set is not None:
            self._take()
        if self._set is not None:
            self._library.call("nvmlEventSetFree", self._set)
        self._set = None
        self._reset()

    def forget_handle(self) -> None:
        """Fetch no more events of the handle, which another GPU may get: the driver is released."""
        self._handle = None

    def mark_before_reset(self) -> None:
        """Mark earlier reports as before a reset."""
        with _LOCK:
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
            with _LOCK:
                self._set = created
                self.events = self.events or ()

    def _take(self) -> None:
        with _LOCK:
            expected, self._expected = self._expected, _Events()
        for _ in range(_MAX_FETCHED):
            event, code = self._library.call("nvmlEventSetWait_v2", self._set, 0)
            if code == codes.TIMEOUT:
                return
            if code:
                self._library.call("nvmlEventSetFree", self._set)
                self._set = None
                return
            if event.eventType & _XID:
                self._route(event, expected)
        with _LOCK:
            self._expected += expected

    def _route(self, event: Any, expected: _Events) -> None:
        """Pass an event to its device's watch, unless another set has delivered it there."""
        for watch in (self, *self._watches):
            if watch._handle is not None and self._library.is_same(event.device, watch._handle):
                break
        else:
            return
        which = watch, event.eventData, event.gpuInstanceId
        with _LOCK:
            for brought in (expected, self._expected):
                if brought[which]:
                    brought[which] -= 1
                    return
            for other in self._watches:
                if other is not self and other._set is not None:
                    other._expected[which] += 1
            watch._add(event.eventData, event.gpuInstanceId)

    def _add(self, number: int, instance: int) -> None:
        """Store an event; a repeated one only adds to its count and displaces no other."""
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
