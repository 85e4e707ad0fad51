"""A host in words: how many GPUs are busy, held or free, and memory that nobody listed owns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpudash.snapshot import Device, Process, Snapshot
from gpudash.units import short_size, size, watts

_GIB = 1024**3
_NOTABLE_SHARE = 0.05

# In the order of the sentence; what needs a person comes first.
_WORDS = ("LOST", "needing a reset", "failed", "busy", "held idle", "in use", "free", "asleep")
_STATES = {
    "lost": "LOST",
    "reset-required": "needing a reset",
    "failed": "failed",
    "asleep": "asleep",
}


def summary(snapshot: Snapshot) -> str:
    """Return `8 GPUs: 3 busy, 4 held idle, 1 free`."""
    opening, counts = tally(snapshot)
    parts = ", ".join(f"{count} {word}" for count, word in counts)
    return f"{opening}: {parts}" if parts else opening


def tally(snapshot: Snapshot) -> tuple[str, list[tuple[int, str]]]:
    """Return the parts of the summary: `8 GPUs`, and how many there are of each use."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    counts = Counter(use(gpu, snapshot.processes) for gpu in gpus)
    opening = f"{len(gpus) or 'No'} {'GPU' if len(gpus) == 1 else 'GPUs'}"
    return opening, [(counts[word], word) for word in _WORDS if counts[word]]


def totals(snapshot: Snapshot) -> str:
    """Return memory and power over all GPUs: `412G of 640G, 4105W`; absent ones do not count."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    used = _sum(gpu.memory_used_bytes for gpu in gpus)
    total = _sum(gpu.memory_total_bytes for gpu in gpus)
    power = _sum(gpu.power_usage_mw for gpu in gpus)
    memory = None if used is None else f"{short_size(used)} of {short_size(total)}"
    return ", ".join(filter(None, (memory, None if power is None else watts(power))))


def use(gpu: Device, processes: tuple[Process, ...]) -> str:
    """Return what a GPU is doing in a word or two.

    Held idle: a listed process keeps memory while nothing runs. Free: no compute process and
    hardly any memory. In use: someone not listed has memory, or the utilization is not known.
    """
    if gpu.state != "ok":
        return _STATES[gpu.state]
    if gpu.gpu_utilization_percent:
        return "busy"
    held = _held_by_listed(gpu, processes)
    if held and gpu.gpu_utilization_percent == 0:
        return "held idle"
    return "in use" if held or notable(gpu, gpu.memory_used_bytes) else "free"


def notable(gpu: Device, amount: int | None) -> bool:
    """Return whether an amount of the device's memory is worth a word: 1 GiB or 5 % of it."""
    if amount is None:
        return False
    total = gpu.memory_total_bytes
    return amount >= _GIB or bool(total and amount >= _NOTABLE_SHARE * total)


def unlisted_memory(label: str, device: Device) -> str | None:
    """Return a sentence on memory that no listed process owns, or None if it is not notable."""
    amount = device.memory_unaccounted_bytes
    if not notable(device, amount):
        return None
    sentence = f"GPU {label}: {size(amount)} held by no listed process"
    minor = device.minor_number
    return sentence if minor is None else f"{sentence} (see sudo fuser -v /dev/nvidia{minor})"


def _held_by_listed(gpu: Device, processes: tuple[Process, ...]) -> bool:
    """Return whether a process computes on it or its instances, or keeps notable memory there.

    A display server keeps a few MiB on every GPU: that does not hold one.
    """
    for process in processes:
        for share in process.devices:
            if share.index != gpu.index:
                continue
            if share.type != "G" or notable(gpu, share.used_gpu_memory_bytes):
                return True
    return False


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
