"""GPUs as `nvidia-smi -L` lists them."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import state_words
from gpudash.model.text import clean


def listing(snapshot: Snapshot) -> list[str]:
    """Return a line per GPU with its UUID, below it one per MIG instance."""
    return list(_lines(snapshot))


def _lines(snapshot: Snapshot) -> Iterator[str]:
    instance = 0
    for device in snapshot.devices:
        if device.is_mig:
            profile = (device.name or "").rpartition("MIG ")[2]
            uuid = clean(device.uuid or "")
            yield f"  MIG {clean(profile):<11} Device {instance:2}: (UUID: {uuid})"
            instance += 1
            continue
        instance = 0
        yield _gpu(device)


def _gpu(device: Device) -> str:
    if device.state != "ok" and device.name is None:
        reason = state_words(device).told if device.fault is None else device.fault.message
        return f"GPU {device.index}: ({reason})"
    return f"GPU {device.index}: {clean(device.name or '')} (UUID: {clean(device.uuid or '')})"
