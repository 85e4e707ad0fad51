"""The processes above and below one, as /proc shows them now.

From stat lines: psutil omits a parent that /proc hides, and reads a child twice, between which its
PID may be reused, comparing its age only with that of the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.model.process import Process
from gpudash.system import processes
from gpudash.system.processes import Facts, ProcStat

MAX_DESCENDANTS = 4096
"""Maximum number of descendants to read; a fork bomb has more."""

_MAX_ANCESTORS = 256


class Relative(NamedTuple):
    """A process and its distance in steps, negative above."""

    process: Process
    depth: int
    thread_count: int | None = None
    cpu_seconds: float | None = None
    """User and system time of all its threads."""


def process_of(pid: int) -> Process | None:
    """Return a process without its devices; None if /proc does not show this PID."""
    stat = processes.read_stat(pid)
    return None if stat is None else _process(pid, stat, processes.boot_time())


def ancestor_pids(pid: int) -> tuple[int, ...]:
    """Return the PIDs from its parent up to the first process of the host or the container."""
    found: list[int] = []
    stat = processes.read_stat(pid)
    while stat is not None and stat.parent_pid > 0 and len(found) < _MAX_ANCESTORS:
        if stat.parent_pid in found:  # PIDs were reused while they were read.
            break
        found.append(stat.parent_pid)
        stat = processes.read_stat(stat.parent_pid)
    return tuple(found)


def ancestors(pid: int) -> tuple[Relative, ...]:
    """Return its ancestors, the oldest first, the parent (-1) last."""
    boot_time = processes.boot_time()
    stats = ((each, processes.read_stat(each)) for each in ancestor_pids(pid))
    return tuple(
        Relative(_process(each, stat, boot_time), -steps, stat.thread_count, stat.cpu_seconds)
        for steps, (each, stat) in enumerate(stats, 1)
        if stat
    )[::-1]


def descendants(
    *pids: int, limit: int = MAX_DESCENDANTS, brief: bool = False
) -> tuple[Relative, ...]:
    """Return children (1), grandchildren (2), ..., each after its parent, at most `limit`.

    `brief` omits owner and command line, which the kernel may be slow to return. Sessions and
    process groups do not matter; a process whose parent ended belongs to the one that adopted it.
    Of several related PIDs, the nearest one above a process counts.
    """
    boot_time = processes.boot_time()
    seen = _brief if brief else _process
    stats = {pid: stat for pid in processes.pids() if (stat := processes.read_stat(pid))}
    relatives = (
        Relative(seen(child, stat, boot_time), depth, stat.thread_count, stat.cpu_seconds)
        for child, stat, depth in _below(pids, stats)
    )
    return tuple(islice(relatives, limit))


def _below(
    roots: tuple[int, ...], stats: dict[int, ProcStat]
) -> Iterator[tuple[int, ProcStat, int]]:
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        parent = stats.get(stat.parent_pid)
        # No process is older than its parent, unless a PID was reused while others were read.
        if parent is not None and parent.started_seconds <= stat.started_seconds:
            children.setdefault(stat.parent_pid, []).append(pid)
    pending = [(child, 1) for root in roots for child in sorted(children.get(root, ()))[::-1]]
    seen = set(roots)
    while pending:
        pid, depth = pending.pop()
        if pid in seen:
            continue
        seen.add(pid)
        yield pid, stats[pid], depth
        pending += [(child, depth + 1) for child in sorted(children.get(pid, ()))[::-1]]


def _brief(pid: int, stat: ProcStat, boot_time: float | None) -> Process:
    return Process(
        pid=pid,
        devices=(),
        create_time=None if boot_time is None else boot_time + stat.started_seconds,
        start_ticks=stat.start_ticks,
        status=stat.status,
        parent_pid=stat.parent_pid,
    )


def _process(pid: int, stat: ProcStat, boot_time: float | None) -> Process:
    facts = processes.facts(pid, stat) or Facts()
    return replace(
        _brief(pid, stat, boot_time),
        username=facts.username,
        name=facts.name,
        command_line=facts.command_line,
        resident_memory_bytes=processes.resident_memory_bytes(pid),
    )
