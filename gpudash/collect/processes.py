"""Processes from one sample to the next: identity, CPU share, and why one is hidden.

Values that change every tick are in one stat line, whose file stays open once a process was seen
twice; facts that rarely change are read when a process is first seen or has a new name, and then
every ten seconds, or every minute for an idle one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Struct

from gpudash.model.process import EXITED, Process
from gpudash.system import processes
from gpudash.system.processes import Facts, ProcStat, StatFile

_FACTS_SECONDS = 10.0
_REST_SECONDS = 50.0
"""How much longer the facts of an idle process stay valid."""
_MAX_WATCHED = 4096
_FILES_PER_WATCHED = 2
"""Divides the limit of open files to give the maximum for processes."""


class _Known(Struct, kw_only=True):
    """The data of a process kept between two samples."""

    start_ticks: int
    name: bytes = b""
    facts: Facts = Facts()
    facts_due: float = 0.0
    cpu_seconds: float = 0.0
    cpu_read_at: float
    cpu_percent: float | None = None
    stat_line: bytes = b""
    facts_line: bytes = b""
    """The stat line at the time of the facts."""
    process: Process | None = None
    """The last result, as of when `stat_line` was read."""
    watched: StatFile | None = None


class ProcessReader:
    """Reads processes, with the knowledge of the last sample.

    `read_facts` returns the facts of a PID and its stat line, None if it is gone.
    """

    def __init__(self, read_facts: Callable[[int, ProcStat], Facts | None]) -> None:
        self._read_facts = read_facts
        # Read once, so that a start time does not move with the wall clock.
        self._boot_time = processes.boot_time()
        self._gone_reason = _gone_reason()
        self._max_percent = 100.0 * (os.cpu_count() or 1)
        self._known: dict[int, _Known] = {}
        self._exited: dict[int, Process] = {}
        self._max_watched = _max_watched()

    def sample(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        """Return one entry for every PID; all other processes are forgotten.

        A process whose PID was reused after it was `listed_at`, in seconds since boot, has exited.
        """
        listed_at = listed_at or {}
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        found: dict[int, Process] = {}
        kept: dict[int, _Known] = {}
        for pid in pids:
            known = self._known.get(pid)
            line = self._line(pid, known, may_watch=len(kept) < self._max_watched)
            if (
                known is not None
                and known.process is not None
                and line == known.stat_line
                and self._is_still(known, now)
            ):
                kept[pid], found[pid] = known, known.process
                continue
            stat = processes.parse_stat(line) if line else None
            if stat is None or line is None:
                found[pid] = self._unseen(pid, self._hidden_reason(pid))
            elif _is_another(stat, listed_at.get(pid)):
                found[pid] = self._unseen(pid, self._gone_reason)
            else:
                kept[pid] = known = self._recall(pid, stat)
                known.stat_line = line
                known.process = found[pid] = self._process(pid, stat, known, now)
        self._known = kept
        self._exited = {p.pid: p for p in found.values() if p.hidden_reason == EXITED}
        return found

    def _line(self, pid: int, known: _Known | None, *, may_watch: bool) -> bytes | None:
        """Return the stat line of the process that has the PID now."""
        if known is None:
            return processes.stat_line(pid)
        if not may_watch:
            known.watched = None
        elif known.watched is None:
            known.watched = processes.open_stat(pid)
        line = known.watched.line() if known.watched else None
        return line or processes.stat_line(pid)

    def _is_still(self, known: _Known, now: float) -> bool:
        """Whether the last result of a process with an unchanged stat line still holds.

        It used no CPU, and its memory has not grown, or page faults would have been counted there.
        """
        if known.cpu_percent != 0:
            return False
        rests = _REST_SECONDS if known.facts_line == known.stat_line else 0.0
        if now >= known.facts_due + rests:
            return False
        known.cpu_read_at = now
        return True

    def _recall(self, pid: int, stat: ProcStat) -> _Known:
        """Return the data of this very process, rather than of an earlier one with the same PID."""
        known = self._known.get(pid)
        if known is None or known.start_ticks != stat.start_ticks:
            return _Known(start_ticks=stat.start_ticks, cpu_read_at=stat.started_seconds)
        return known

    def _process(self, pid: int, stat: ProcStat, known: _Known, now: float) -> Process:
        if now >= known.facts_due or stat.name != known.name:
            # The facts of another program would be mistaken for this one's arguments.
            kept = known.facts if stat.name == known.name else Facts()
            known.facts = self._fresh_facts(pid, stat, kept)
            known.name = stat.name
            # During exec, a process has its new name and no arguments yet.
            is_whole = bool(known.facts.command_line)
            known.facts_due = now + (_FACTS_SECONDS if is_whole else 0.0)
            known.facts_line = known.stat_line if is_whole else b""
        self._update_cpu_percent(stat, known, now)
        facts = known.facts
        return Process(
            pid=pid,
            devices=(),
            username=facts.username,
            name=facts.name,
            command_line=facts.command_line,
            cpu_percent=known.cpu_percent,
            resident_memory_bytes=processes.resident_memory_bytes(pid),
            create_time=None if self._boot_time is None else self._boot_time + stat.started_seconds,
            start_ticks=stat.start_ticks,
            status=stat.status,
            parent_pid=stat.parent_pid,
            job=facts.job,
        )

    def _fresh_facts(self, pid: int, stat: ProcStat, known: Facts) -> Facts:
        fresh = self._read_facts(pid, stat) or known
        if known.command_line and not fresh.command_line:
            # A process loses its command line before it exits, which may take minutes.
            return msgspec.structs.replace(fresh, command_line=known.command_line)
        return fresh

    def _update_cpu_percent(self, stat: ProcStat, known: _Known, now: float) -> None:
        elapsed = now - known.cpu_read_at
        if elapsed < processes.TICK_SECONDS:
            return
        percent = 100 * (stat.cpu_seconds - known.cpu_seconds) / elapsed
        known.cpu_percent = round(min(max(percent, 0.0), self._max_percent), 1)
        known.cpu_seconds, known.cpu_read_at = stat.cpu_seconds, now

    def _hidden_reason(self, pid: int) -> str:
        try:
            if pid > 0:
                os.kill(pid, 0)
                return "not shown by /proc"
        except PermissionError:
            return "hidden process of another user"
        except (ProcessLookupError, OverflowError):
            pass
        return self._gone_reason

    def _unseen(self, pid: int, reason: str) -> Process:
        """Return a process that is not shown, with its last known data if it has exited."""
        known = self._known.get(pid)
        before = known.process if known else self._exited.get(pid)
        if before is None or reason != EXITED:
            return Process(pid=pid, devices=(), hidden_reason=reason)
        return Process(
            pid=pid,
            devices=(),
            username=before.username,
            name=before.name,
            start_ticks=before.start_ticks,
            job=before.job,
            hidden_reason=reason,
        )


def _gone_reason() -> str:
    """Return why a PID is missing; it means an exit only if the driver's PIDs are ours."""
    if not processes.in_first_pid_namespace():
        return "belongs to another PID namespace"
    return EXITED if os.path.exists("/proc/self/ns/pid") else "not shown by /proc"


def _is_another(stat: ProcStat, listed_at: float | None) -> bool:
    """Whether a process started after the listing, and so is not the listed one."""
    return listed_at is not None and stat.start_ticks >= listed_at // processes.TICK_SECONDS


def _max_watched() -> int:
    """Return how many stat files may stay open, leaving enough for everything else."""
    files = os.sysconf("SC_OPEN_MAX")
    return _MAX_WATCHED if files < 0 else min(_MAX_WATCHED, files // _FILES_PER_WATCHED)
