"""What each device is being used for, in a word or two."""

from __future__ import annotations

from collections.abc import Collection

from gpudash import health
from gpudash.snapshot import Device, Snapshot

_GIB = 1024**3
_NOTABLE_SHARE = 0.05
_STATES = {
    "lost": "LOST",
    "reset-required": "needing a reset",
    "failed": "failed",
    "asleep": "asleep",
    "not-answering": "not answering",
}


def uses(snapshot: Snapshot) -> dict[str, str]:
    """Return the use of each device by its key.

    Hot: it slows itself down. Held idle: a listed process keeps memory while nothing runs. Free:
    no compute process and hardly any memory. In use: someone not listed has memory, or the
    utilization is not known.
    """
    held = _held(snapshot)
    return {device.key: _use(device, held) for device in snapshot.devices}


def notable(device: Device, amount: int | None) -> bool:
    """Return whether an amount of the device's memory is worth a word: 1 GiB or 5 % of it."""
    if amount is None:
        return False
    total = device.memory_total_bytes
    return amount >= _GIB or bool(total and amount >= _NOTABLE_SHARE * total)


def _use(device: Device, held: Collection[str]) -> str:
    if device.state != "ok":
        return _STATES[device.state]
    if health.is_hot(device):
        return "hot"
    if device.gpu_utilization_percent:
        return "busy"
    is_held = device.key in held
    if is_held and device.gpu_utilization_percent == 0:
        return "held idle"
    used = device.memory_used_bytes
    return "in use" if is_held or used is None or notable(device, used) else "free"


def _held(snapshot: Snapshot) -> set[str]:
    """Return the devices on which a process computes or keeps notable memory, and their parents.

    A display server keeps a few MiB on every GPU: that does not hold one.
    """
    devices = {device.key: device for device in snapshot.devices}
    gpus = {device.index: device for device in snapshot.devices if not device.is_mig}
    held: set[str] = set()
    for process in snapshot.processes:
        for share in process.devices:
            gpu = gpus.get(share.index)
            instance = devices.get(share.uuid or "")
            for device in (gpu, instance):
                if device is None or device.key in held:
                    continue
                if share.type != "G" or notable(device, share.used_gpu_memory_bytes):
                    held.add(device.key)
    return held
