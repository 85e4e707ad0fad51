"""A device or process joined with what its texts need from the rest of the snapshot."""

from __future__ import annotations

from typing import NamedTuple

from gpudash.labels import device_labels, gpu_ranges
from gpudash.snapshot import Device, Process, Snapshot


class DeviceRow(NamedTuple):
    """A device and the label that people know it by."""

    device: Device
    label: str


class ProcessRow(NamedTuple):
    """A process, the labels of its devices, and its age when the snapshot was taken."""

    process: Process
    gpus: str
    age_seconds: float | None


def device_rows(snapshot: Snapshot) -> list[DeviceRow]:
    """Return the devices of a snapshot, in its order."""
    labels = device_labels(snapshot.devices)
    return [DeviceRow(device, labels[device.key]) for device in snapshot.devices]


def process_rows(snapshot: Snapshot) -> list[ProcessRow]:
    """Return the processes of a snapshot, in its order."""
    instances = [device.key for device in snapshot.devices if device.is_mig]
    labels = device_labels(snapshot.devices)
    mig_labels = {key: labels[key] for key in instances}
    now = snapshot.taken_at.timestamp()
    return [
        ProcessRow(
            process,
            gpu_ranges(process.devices, mig_labels),
            None if process.create_time is None else now - process.create_time,
        )
        for process in snapshot.processes
    ]


def sm_utilization_percent(process: Process) -> int | None:
    """Return SM time over all its devices, 100 is one whole GPU; None if none is known."""
    return process.sm_utilization_percent
