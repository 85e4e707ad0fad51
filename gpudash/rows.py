"""A device or process joined with what its texts need from the rest of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpudash.labels import device_labels, gpu_ranges
from gpudash.snapshot import Device, Process, Snapshot
from gpudash.uses import uses


class DeviceRow(NamedTuple):
    """A device, the label that people know it by, and what it is being used for."""

    device: Device
    label: str
    use: str = ""


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


def device_rows(snapshot: Snapshot) -> list[DeviceRow]:
    """Return the devices of a snapshot, in its order."""
    labels, words = device_labels(snapshot.devices), uses(snapshot)
    return [DeviceRow(device, labels[device.key], words[device.key]) for device in snapshot.devices]


def process_rows(
    snapshot: Snapshot, idle_seconds: Callable[[Process], float | None] | None = None
) -> list[ProcessRow]:
    """Return the processes of a snapshot, in its order; `idle_seconds` knows their past."""
    labels = device_labels(snapshot.devices)
    mig_labels = {device.key: labels[device.key] for device in snapshot.devices if device.is_mig}
    memory = {device.key: device.memory_total_bytes for device in snapshot.devices}
    now = snapshot.taken_at.timestamp()
    return [
        ProcessRow(
            process,
            gpu_ranges(process.devices, mig_labels),
            None if process.create_time is None else now - process.create_time,
            _memory_percent(process, memory),
            idle_seconds(process) if idle_seconds else None,
        )
        for process in snapshot.processes
    ]


def sm_utilization_percent(process: Process) -> int | None:
    """Return SM time over all its devices, 100 is one whole GPU; None if none is known."""
    return process.sm_utilization_percent


def _memory_percent(process: Process, memory: Mapping[str, int | None]) -> float | None:
    """Return the held share of the memory of all its devices; None if one of them is not known."""
    total = 0
    for share in process.devices:
        capacity = memory.get(share.uuid or "")
        if not capacity:
            return None
        total += capacity
    used = process.used_gpu_memory_bytes
    return None if used is None or not total else 100 * used / total
