"""The numbers kept of a host, its devices and its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import TypeVar

from gpudash.analysis.history.tracks import Axis, Extent, Row, Track, Window
from gpudash.model.device import AnyDevice, Device, chart_fields
from gpudash.model.fields import Field
from gpudash.model.process import Process
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.units import Unit

PROCESS_METRICS = (
    "used_gpu_memory_bytes",
    "sm_utilization_percent",
    "resident_memory_bytes",
    "cpu_percent",
)
"""Metrics of a process, over all its devices."""

HOST_METRICS = ("cpu_percent", "memory_used_bytes", "swap_used_bytes", "load_average")
"""Metrics of a host; of its load averages, only that over a minute."""

_HOT_CELSIUS = 100.0
_MAX_GONE = 256
"""Maximum number of gone processes and devices whose past can still be drawn."""

ProcessKey = tuple[int, float | None]
"""`Process.key`."""
AnyKey = TypeVar("AnyKey", str, ProcessKey)
AnyTrack = TypeVar("AnyTrack", bound=Track)


@cache
def device_metrics() -> tuple[str, ...]:
    """Return the metrics of a device, the percentages first."""
    fields = sorted(chart_fields().values(), key=lambda field: field.unit is not Unit.PERCENT)
    return tuple(field.name for field in fields)


@cache
def _device_getter() -> Callable[[Device], Row]:
    return attrgetter(*device_metrics())


def device_row(device: Device) -> Row:
    """Return the values of `device_metrics`."""
    return _device_getter()(device)


def host_row(host: Host) -> Row:
    """Return the values of HOST_METRICS."""
    load = host.load_average[0] if host.load_average else None
    return host.cpu_percent, host.memory_used_bytes, host.swap_used_bytes, load


def highest_possible(field: Field, devices: Iterable[AnyDevice]) -> float | None:
    """Return the maximum of a metric of devices, None if no limit is known."""
    if isinstance(field.limit, str):
        limits = [getattr(device, field.limit, None) for device in devices]
        known = [float(limit) for limit in limits if limit]
        if known:
            return max(known)
    elif field.limit is not None:
        return field.limit
    if field.unit is Unit.CELSIUS:
        return _HOT_CELSIUS
    return 100.0 if field.unit is Unit.PERCENT else None


class ProcessTrack(Track):
    """The rows of a process, and when it was first seen."""

    __slots__ = ("seen_since",)

    def __init__(self, now: float) -> None:
        super().__init__(len(PROCESS_METRICS))
        self.seen_since = now


class MetricStore:
    """Half an hour of numbers of a host, its devices and its processes."""

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
                track = self._devices[device.key] = Track(len(device_metrics()))
            track.put(number, device_row(device))
        for process in snapshot.processes:
            self._put_process(number, process)
        _forget(self._devices, len(snapshot.devices))
        _forget(self._processes, len(snapshot.processes))

    def freeze_last_row(self) -> None:
        """Close the last row; the next numbers open another."""
        self._axis.freeze_last_row()

    def series(
        self, key: str | ProcessKey | None, field: str, window: Window
    ) -> list[float | None]:
        """Return the means of a metric; see History.series."""
        slots = self._axis.slots(window)
        track = self._track(key)
        return track.means(_column(key, field), slots) if track else [None] * len(slots)

    def extents(
        self, key: str | ProcessKey | None, field: str, window: Window
    ) -> list[Extent | None]:
        """Return lowest, mean and highest values of a metric; see History.extents."""
        slots = self._axis.slots(window)
        track = self._track(key)
        return track.extents(_column(key, field), slots) if track else [None] * len(slots)

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
        track.put(number, (memory, sm, process.resident_memory_bytes, process.cpu_percent))

    def _track(self, key: str | ProcessKey | None) -> Track | None:
        if key is None:
            return self._host
        return self._devices.get(key) if isinstance(key, str) else self._processes.get(key)

    def _trim(self) -> None:
        first = self._axis.first
        self._host.trim(first)
        for track in (*self._devices.values(), *self._processes.values()):
            track.trim(first)


def _column(key: str | ProcessKey | None, field: str) -> int:
    """Return a metric's position in rows of a device, process or host; ValueError if none."""
    metrics: tuple[str, ...] = PROCESS_METRICS
    if key is None:
        metrics = HOST_METRICS
    elif isinstance(key, str):
        metrics = device_metrics()
    if field not in metrics:
        raise ValueError(f"no history is kept of {field}")
    return metrics.index(field)


def _forget(tracks: dict[AnyKey, AnyTrack], present: int) -> None:
    """Drop the older half of gone tracks once there are too many."""
    if len(tracks) <= present + _MAX_GONE:
        return
    by_end = sorted(tracks, key=lambda key: tracks[key].end)
    for key in by_end[: len(tracks) - present - _MAX_GONE // 2]:
        del tracks[key]
