"""Processes from one sample to the next: identity, CPU share, and why one cannot be seen.

What changes every tick is read in one go by `proc_stat`; facts that seldom change are asked for
when a process is first seen or has a new name, and every ten seconds after.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from gpudash import proc_stat
from gpudash.proc_stat import ProcStat
from gpudash.snapshot import Job, Process
from gpudash.text import SafeText

_FACTS_SECONDS = 10.0
_EXITED = "exited"

# The inode of the first PID namespace is a constant of the kernel, PROC_PID_INIT_INO.
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


class Facts(Struct, frozen=True, kw_only=True):
    """What exec, setproctitle or a scheduler changes now and then, and nothing else does."""

    username: SafeText | None = None
    name: SafeText | None = None
    command_line: tuple[SafeText, ...] | None = None
    job: Job | None = None


class _Known(Struct, kw_only=True):
    """What is kept of a process between two samples."""

    start_ticks: int
    name: bytes = b""
    facts: Facts = Facts()
    facts_due: float = 0.0
    cpu_seconds: float = 0.0
    cpu_read_at: float
    cpu_percent: float | None = None


class ProcessTable:
    """The processes that were asked for last, with what their next sample needs.

    `read_facts` gives the facts of a PID, None if it is gone.
    """

    def __init__(self, read_facts: Callable[[int], Facts | None]) -> None:
        self._read_facts = read_facts
        # Read once, so that a start time does not move with the wall clock.
        self._boot_time = proc_stat.boot_time()
        self._in_namespace = in_pid_namespace()
        self._most_percent = 100.0 * (os.cpu_count() or 1)
        self._known: dict[int, _Known] = {}

    def sample(self, pids: Collection[int], listed_at: float | None = None) -> dict[int, Process]:
        """Return one entry for every PID; those that are not asked for are forgotten.

        A PID that was reused after `listed_at`, in seconds since boot, is one that has exited.
        """
        too_late = float("inf") if listed_at is None else listed_at // proc_stat.TICK_SECONDS
        found: dict[int, Process] = {}
        known: dict[int, _Known] = {}
        for pid in pids:
            stat = proc_stat.read(pid)
            if stat is None:
                found[pid] = Process(pid=pid, devices=(), hidden_reason=self._hidden_reason(pid))
            elif stat.start_ticks >= too_late:
                found[pid] = Process(pid=pid, devices=(), hidden_reason=_EXITED)
            else:
                known[pid] = self._recall(pid, stat)
                found[pid] = self._process(pid, stat, known[pid])
        self._known = known
        return found

    def _recall(self, pid: int, stat: ProcStat) -> _Known:
        """Return what is known of this very process, not of an earlier one of the same PID."""
        known = self._known.get(pid)
        if known is None or known.start_ticks != stat.start_ticks:
            return _Known(start_ticks=stat.start_ticks, cpu_read_at=stat.started_seconds)
        return known

    def _process(self, pid: int, stat: ProcStat, known: _Known) -> Process:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if now >= known.facts_due or stat.name != known.name:
            known.facts = self._fresh_facts(pid, known.facts)
            known.name = stat.name
            # In the midst of exec a process has its new name and no arguments yet.
            known.facts_due = now + (_FACTS_SECONDS if known.facts.command_line else 0.0)
        self._update_cpu_percent(stat, known, now)
        facts = known.facts
        return Process(
            pid=pid,
            devices=(),
            username=facts.username,
            name=facts.name,
            command_line=facts.command_line,
            cpu_percent=known.cpu_percent,
            resident_memory_bytes=proc_stat.resident_memory_bytes(pid),
            create_time=None if self._boot_time is None else self._boot_time + stat.started_seconds,
            start_ticks=stat.start_ticks,
            status=stat.status,
            parent_pid=stat.parent_pid,
            job=facts.job,
        )

    def _fresh_facts(self, pid: int, known: Facts) -> Facts:
        fresh = self._read_facts(pid) or known
        if known.command_line and not fresh.command_line:
            # A process loses its command line before it ends, and its end may take minutes.
            return msgspec.structs.replace(fresh, command_line=known.command_line)
        return fresh

    def _update_cpu_percent(self, stat: ProcStat, known: _Known, now: float) -> None:
        elapsed = now - known.cpu_read_at
        if elapsed < proc_stat.TICK_SECONDS:
            return
        percent = 100 * (stat.cpu_seconds - known.cpu_seconds) / elapsed
        known.cpu_percent = round(min(max(percent, 0.0), self._most_percent), 1)
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
        return "belongs to another PID namespace" if self._in_namespace else _EXITED


def in_pid_namespace() -> bool:
    """Whether only the processes of a PID namespace, such as a container's, can be seen."""
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE
    except OSError:
        return False
