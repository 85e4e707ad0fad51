"""The tracks of everything on a host: its devices, its processes and itself."""

from __future__ import annotations

from typing import TypeVar

from gpudash.analysis.history.idleness import Idleness
from gpudash.analysis.history.metrics import (
    DEVICE_METRICS,
    HOST_METRICS,
    PROCESS_METRICS,
    device_row,
    host_row,
)
from gpudash.analysis.history.tracks import Axis, Extent, Slot, Track, Window
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot

_GONE_KEPT = 256
"""Processes and devices that are gone and still remembered, so that the past can be drawn."""

ProcessKey = tuple[int, float | None]
AnyKey = TypeVar("AnyKey", str, ProcessKey)
AnyTrack = TypeVar("AnyTrack", bound=Track)


class ProcessTrack(Track):
    """The rows of a process, since when it was seen, and when it held memory idly."""

    __slots__ = ("idleness", "seen_since")

    def __init__(self, now: float) -> None:
        super().__init__(len(PROCESS_METRICS))
        self.seen_since = now
        self.idleness = Idleness()


class Past:
    """Half an hour of numbers, whatever comes and goes."""

    def __init__(self) -> None:
        self._now = 0.0
        self._axis = Axis()
        self._host = Track(len(HOST_METRICS))
        self._devices: dict[str, Track] = {}
        self._processes: dict[ProcessKey, ProcessTrack] = {}

    def push(self, now: float, snapshot: Snapshot) -> None:
        """Add the numbers of a snapshot."""
        self._now = now
        if self._axis.advance(now):
            self._trim()
        number = self._axis.end - 1
        self._host.put(number, host_row(snapshot.host))
        for device in snapshot.devices:
            track = self._devices.get(device.key)
            if track is None:
                track = self._devices[device.key] = Track(len(DEVICE_METRICS))
            track.put(number, device_row(device))
        for process in snapshot.processes:
            self._put_process(number, process)
        _forget(self._devices, len(snapshot.devices))
        _forget(self._processes, len(snapshot.processes))

    def seal(self) -> None:
        """Let later numbers leave what is known by now as it is."""
        self._axis.seal()

    def series(
        self, key: str | ProcessKey | None, field: str, window: Window
    ) -> list[float | None]:
        """Return the peaks of a metric; see History.series."""
        track, column, slots = self._find(key, field, window)
        return track.peaks(column, slots) if track else [None] * len(slots)

    def extents(
        self, key: str | ProcessKey | None, field: str, window: Window
    ) -> list[Extent | None]:
        """Return lowest, mean and highest values of a metric; see History.extents."""
        track, column, slots = self._find(key, field, window)
        return track.extents(column, slots) if track else [None] * len(slots)

    def idle_seconds(self, key: ProcessKey, moment: float | None) -> float | None:
        """Return for how long a process has held memory idly; see History.idle_seconds."""
        track = self._processes.get(key)
        if track is None:
            return None
        return track.idleness.seconds(self._now if moment is None else moment)

    def seen_since(self, key: ProcessKey) -> float | None:
        """Return when a process was seen first."""
        track = self._processes.get(key)
        return None if track is None else track.seen_since

    def _put_process(self, number: int, process: Process) -> None:
        key = process.key
        track = self._processes.get(key)
        if track is None:
            track = self._processes[key] = ProcessTrack(self._now)
        memory, sm = process.used_gpu_memory_bytes, process.sm_utilization_percent
        track.idleness.see(self._now, memory, sm)
        track.put(number, (memory, sm, process.cpu_percent))

    def _find(
        self, key: str | ProcessKey | None, field: str, window: Window
    ) -> tuple[Track | None, int, list[Slot]]:
        track: Track | None
        metrics: tuple[str, ...]
        if key is None:
            track, metrics = self._host, HOST_METRICS
        elif isinstance(key, str):
            track, metrics = self._devices.get(key), DEVICE_METRICS
        else:
            track, metrics = self._processes.get(key), PROCESS_METRICS
        if field not in metrics:
            raise ValueError(f"no history is kept of {field}")
        return track, metrics.index(field), self._axis.slots(window)

    def _trim(self) -> None:
        first = self._axis.first
        self._host.trim(first)
        for track in (*self._devices.values(), *self._processes.values()):
            track.trim(first)


def _forget(tracks: dict[AnyKey, AnyTrack], present: int) -> None:
    """Drop the half of the gone that went first, once they are too many."""
    if len(tracks) <= present + _GONE_KEPT:
        return
    by_end = sorted(tracks, key=lambda key: tracks[key].end)
    for key in by_end[: len(tracks) - present - _GONE_KEPT // 2]:
        del tracks[key]
