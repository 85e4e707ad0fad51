"""Who holds how much: the processes of a snapshot added up by their owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from gpudash.analysis.labels import gpu_ranges, mig_labels
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot

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
