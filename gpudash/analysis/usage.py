"""Who holds how much: the processes of a snapshot added up by their owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from gpudash.analysis.health.engine import findings_by_device
from gpudash.analysis.health.levels import notable
from gpudash.analysis.health.status import is_held, is_hot
from gpudash.analysis.labels import gpu_ranges, index_ranges, mig_labels
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Finding, Snapshot, are_untold
from gpudash.model.state import is_left_alone, state_words
from gpudash.model.units import short_size, watts

Number = TypeVar("Number", int, float)

Idle = Callable[[Process], float | None]
"""Tells how long a process has held memory without running anything, None if that is not known."""


class User(Struct, frozen=True, kw_only=True):
    """An owner of processes, or all of them together; None is what no process tells."""

    name: str | None
    gpus: str
    gpu_count: int
    process_count: int
    gpu_memory_bytes: int | None
    gpu_memory_share: float | None
    """Of the memory of all GPUs, 0 to 1."""
    idle_memory_bytes: int | None
    """Memory of processes that run nothing; part of the memory above."""
    idle_seconds: float | None
    """How long the longest of these has done so."""
    sm_percent: int | None
    """100 is one whole GPU."""
    cpu_percent: float | None
    resident_memory_bytes: int | None
    jobs: tuple[str, ...]


def users(snapshot: Snapshot, idle_seconds: Idle) -> tuple[User, ...]:
    """Return the owners, the largest holder of GPU memory first.

    Processes whose owner is not known are one of them, without a name.
    """
    groups: dict[str | None, list[Process]] = {}
    for process in snapshot.processes:
        groups.setdefault(process.username, []).append(process)
    found = [_user(name, group, snapshot, idle_seconds) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda user: (-(user.gpu_memory_bytes or 0), user.name or "")))


def everyone(snapshot: Snapshot, idle_seconds: Idle) -> User:
    """Return all processes together."""
    return _user("all", snapshot.processes, snapshot, idle_seconds)


def unowned_memory_bytes(snapshot: Snapshot) -> int | None:
    """Return the GPU memory that no listed process owns, None if no GPU tells."""
    return _sum(gpu.memory_unaccounted_bytes for gpu in snapshot.devices if not gpu.is_mig)


def _user(
    name: str | None, processes: Sequence[Process], snapshot: Snapshot, idle_seconds: Idle
) -> User:
    shares = _distinct(processes)
    memory = _sum(process.used_gpu_memory_bytes for process in processes)
    total = _sum(gpu.memory_total_bytes for gpu in snapshot.devices if not gpu.is_mig)
    sm = [process.sm_utilization_percent for process in processes]
    idle = [process for process in processes if _is_idle(process)]
    spans = [span for span in map(idle_seconds, idle) if span is not None]
    return User(
        name=name,
        gpus=gpu_ranges(shares, mig_labels(snapshot.devices)),
        gpu_count=len({share.index for share in shares}),
        process_count=len(processes),
        gpu_memory_bytes=memory,
        gpu_memory_share=None if memory is None or not total else memory / total,
        idle_memory_bytes=_idle_memory(processes, idle),
        idle_seconds=max(spans, default=None),
        sm_percent=_sum(sm),
        cpu_percent=_sum(process.cpu_percent for process in processes),
        resident_memory_bytes=_sum(process.resident_memory_bytes for process in processes),
        jobs=tuple(sorted({process.job.label for process in processes if process.job})),
    )


def _distinct(processes: Sequence[Process]) -> list[ProcessDevice]:
    """Return one share for each device, however many processes are on it."""
    shares = {(d.index, d.uuid): d for process in processes for d in process.devices}
    return [shares[key] for key in sorted(shares, key=lambda key: (key[0], key[1] or ""))]


def _is_idle(process: Process) -> bool:
    return process.sm_utilization_percent == 0 and bool(process.used_gpu_memory_bytes)


def _idle_memory(processes: Sequence[Process], idle: Sequence[Process]) -> int | None:
    """Return the memory of the idle ones; None if it is not known whether any of them works."""
    if all(process.sm_utilization_percent is None for process in processes):
        return None
    return _sum(process.used_gpu_memory_bytes for process in idle) or 0


def _sum(values: Iterable[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def uses(snapshot: Snapshot) -> dict[str, str]:
    """Return the use of each device by its key.

    Hot: it slows itself down. Held idle: processes keep it and do nothing there. Free: no compute
    process, hardly any memory, and not leased; leased: free but for that. In use: it does nothing
    at this instant, but someone who works there, or who is not listed, has memory; or the
    utilization is not known.
    """
    concerned = findings_by_device(snapshot)
    held = {
        device.key for device in snapshot.devices if is_held(device, concerned.get(device.key, ()))
    }
    held |= {device.parent_uuid or "" for device in snapshot.devices if device.key in held}
    users = {share.uuid for p in snapshot.processes for share in p.devices if share.type != "G"}
    # Whom a listing failed for is not known to be nobody.
    users |= {fault.uuid for fault in snapshot.errors if fault.source == "processes"}
    leased: set[str | None] = {lease.uuid for lease in snapshot.leases}
    for taken in (users, leased):
        taken |= {d.parent_uuid for d in snapshot.devices if d.is_mig and d.uuid in taken}
    found = {
        device.key: _use(device, concerned.get(device.key, ()), device.key in held, users)
        for device in snapshot.devices
    }
    for device in snapshot.devices:
        if device.uuid in leased and found[device.key] == "free":
            found[device.key] = "leased"
    return found


def _use(device: Device, findings: Sequence[Finding], is_held: bool, users: set[str | None]) -> str:
    if device.state != "ok":
        return state_words(device).use
    if is_hot(device, findings):
        return "hot"
    if device.gpu_utilization_percent:
        return "busy"
    if is_held and device.gpu_utilization_percent == 0:
        return "held idle"
    used = device.memory_used_bytes
    # That of a GPU in MIG mode, and of an instance, is told by nobody.
    is_idle = device.gpu_utilization_percent == 0 or device.is_mig or bool(device.mig_mode)
    is_used = is_held or device.uuid in users or used is None or notable(device, used)
    is_used = is_used or not is_idle
    return "in use" if is_used else "free"


def is_unlisted(device: Device, snapshot: Snapshot) -> bool:
    """Whether the driver did not tell who is on a device: one that is out of order lists nobody."""
    if device.state != "ok" and not is_left_alone(device):
        return True
    return not unlisted_uuids(snapshot.errors).isdisjoint({device.uuid, device.parent_uuid})


def nobody(snapshot: Snapshot) -> str:
    """Return what to say where no process is listed: that none runs, as far as that is known."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    unlisted = [device.index for device in gpus if is_unlisted(device, snapshot)]
    if are_untold(snapshot) or (gpus and len(unlisted) == len(gpus)):
        return "Which processes run is not known"
    if not unlisted:
        return "No running processes found"
    return f"No running processes found; those on GPU {index_ranges(unlisted)} are not known"


def no_gpu(snapshot: Snapshot) -> str:
    """Return what to say where no GPU is listed: that there is none, if the driver said so."""
    if are_untold(snapshot):
        return "Which GPUs there are is not known"
    return "There is no GPU"


# In the order of the sentence; what needs a person comes first.
_WORDS = (
    "LOST",
    "not answering",
    "needing a reset",
    "failed",
    "hot",
    "busy",
    "held idle",
    "in use",
    "leased",
    "free",
    "falling asleep",
    "asleep",
)

_BRIEF = {"needing a reset": "to reset", "held idle": "held"}
_LEAST = ("busy", "in use", "held idle", "leased", "falling asleep", "asleep", "hot")
"""What is left out, in this order, where there is no room: most look for what is free."""


def summary(snapshot: Snapshot) -> str:
    """Return `8 GPUs: 3 busy, 4 held idle, 1 free`."""
    opening, counts = tally(snapshot)
    return _sentence(opening, counts)


def shorter_summaries(snapshot: Snapshot, mark: str) -> list[str]:
    """Return the summary in less and less room, its order kept: the same reads the same.

    Words are shortened at first; then what matters least is left out, which `mark` tells.
    """
    opening, counts = tally(snapshot)
    counts = [(count, _BRIEF.get(word, word)) for count, word in counts]
    told = [_sentence(opening, counts)]
    for least in _LEAST:
        left = [part for part in counts if part[1] != _BRIEF.get(least, least)]
        if 0 < len(left) < len(counts):
            counts = left
            told.append(_sentence(opening, counts) + mark)
    return told


def _sentence(opening: str, counts: list[tuple[int, str]]) -> str:
    parts = ", ".join(f"{count} {word}" for count, word in counts)
    return f"{opening}: {parts}" if parts else opening


def tally(snapshot: Snapshot) -> tuple[str, list[tuple[int, str]]]:
    """Return the parts of the summary: `8 GPUs`, and how many there are of each use."""
    gpus, words = [device for device in snapshot.devices if not device.is_mig], uses(snapshot)
    counts = Counter(words[gpu.key] for gpu in gpus)
    if are_untold(snapshot):
        return "GPUs unknown", []
    opening = f"{len(gpus) or 'No'} {'GPU' if len(gpus) == 1 else 'GPUs'}"
    return opening, [(counts[word], word) for word in _WORDS if counts[word]]


def totals(snapshot: Snapshot) -> str:
    """Return memory and power over all GPUs: `412G of 640G, 4105W`; absent ones do not count."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    used = _summary_sum(gpu.memory_used_bytes for gpu in gpus)
    total = _summary_sum(gpu.memory_total_bytes for gpu in gpus)
    power = _summary_sum(gpu.power_usage_mw for gpu in gpus)
    memory = None if used is None else f"{short_size(used)} of {short_size(total)}"
    return ", ".join(filter(None, (memory, None if power is None else watts(power))))


def _summary_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
