"""A device or process joined with what its texts need from the rest of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpudash.analysis.health.engine import findings_by_device
from gpudash.analysis.labels import device_labels, gpu_ranges, mig_labels
from gpudash.analysis.uses import uses
from gpudash.model.device import Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Finding, Snapshot


class DeviceRow(NamedTuple):
    """A device, the label that people know it by, what it is used for, and what concerns it."""

    device: Device
    label: str
    use: str = ""
    findings: tuple[Finding, ...] = ()


class ProcessRow(NamedTuple):
    """A process, the labels of its devices, and its age when the snapshot was taken.

    `gpu_memory_percent` is its share of the memory of all its devices. `idle_seconds` is how long
    it has held memory at 0 % SM; None where the past is not known.
    """

    process: Process
    gpus: str
    age_seconds: float | None
    gpu_memory_percent: float | None = None
    idle_seconds: float | None = None

    def is_as(self, other: ProcessRow) -> bool:
        """Whether it differs from a later row by nothing but the time that went by."""
        return (
            self.process == other.process
            and self.gpus == other.gpus
            and self.gpu_memory_percent == other.gpu_memory_percent
        )


def device_rows(snapshot: Snapshot) -> list[DeviceRow]:
    """Return the devices of a snapshot, in its order."""
    labels, words = device_labels(snapshot.devices), uses(snapshot)
    concerned = findings_by_device(snapshot)
    return [
        DeviceRow(device, labels[device.key], words[device.key], concerned.get(device.key, ()))
        for device in snapshot.devices
    ]


def process_rows(
    snapshot: Snapshot, idle_seconds: Callable[[Process], float | None] | None = None
) -> list[ProcessRow]:
    """Return the processes of a snapshot, in its order; `idle_seconds` knows their past."""
    now = snapshot.taken_at.timestamp()
    labels = mig_labels(snapshot.devices)
    memory = {device.key: device.memory_total_bytes for device in snapshot.devices}
    places: dict[object, _Place] = {}
    rows = []
    for process in snapshot.processes:
        # Many processes share a few sets of devices.
        where = tuple([(device.index, device.uuid) for device in process.devices])
        place = places.get(where)
        if place is None:
            place = places[where] = _place(process.devices, labels, memory)
        rows.append(
            ProcessRow(
                process,
                place.gpus,
                None if process.create_time is None else now - process.create_time,
                _share(process.used_gpu_memory_bytes, place.memory_total_bytes),
                idle_seconds(process) if idle_seconds else None,
            )
        )
    return rows


def sm_utilization_percent(process: Process) -> int | None:
    """Return SM time over all its devices, 100 is one whole GPU; None if none is known."""
    return process.sm_utilization_percent


class _Place(NamedTuple):
    """A set of devices: their labels, and the memory of all, None if one of them is not known."""

    gpus: str
    memory_total_bytes: int | None


def _place(
    devices: Sequence[ProcessDevice], labels: Mapping[str, str], memory: Mapping[str, int | None]
) -> _Place:
    capacities = [memory.get(device.uuid or "") for device in devices]
    known = [capacity for capacity in capacities if capacity]
    total = sum(known) if known and len(known) == len(capacities) else None
    return _Place(gpu_ranges(devices, labels), total)


def _share(used: int | None, total: int | None) -> float | None:
    return None if used is None or total is None else 100 * used / total
