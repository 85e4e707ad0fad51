"""/proc/PID/stat: what Linux tells of a process in one read, so that identity and values agree.

psutil asks the kernel several times for the same and needs ten times as long; it is the oracle
of the tests.
"""

from __future__ import annotations

import os

from msgspec import Struct

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

TICK_SECONDS = 1 / _TICKS_PER_SECOND
"""Resolution of CPU times and start times."""

_STATUS = {
    "R": "running",
    "S": "sleeping",
    "D": "disk-sleep",
    "T": "stopped",
    "t": "tracing-stop",
    "Z": "zombie",
    "X": "dead",
    "x": "dead",
    "K": "wake-kill",
    "W": "waking",
    "I": "idle",
    "P": "parked",
}
_PF_KTHREAD = 0x00200000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIELDS_AFTER_NAME = 22
_READ_BYTES = 4096
_MOST_TICKS = 2**63 - 1


class ProcStat(Struct, frozen=True, kw_only=True):
    """One process as its stat line describes it."""

    name: bytes
    """Its first 15 bytes; exec and many programs change it."""
    status: str
    """psutil's word for the state."""
    parent_pid: int
    session_id: int = 0
    """PID of its session's leader."""
    has_terminal: bool = False
    """Whether its session has a controlling terminal."""
    is_kernel_thread: bool
    cpu_seconds: float
    """User and system time of all its threads."""
    start_ticks: int
    """When it started, in clock ticks since boot: exact, and no setting of the clock moves it."""

    @property
    def started_seconds(self) -> float:
        """When it started, counted from boot."""
        return self.start_ticks / _TICKS_PER_SECOND


def read(pid: int) -> ProcStat | None:
    """Return the process, None if /proc does not show one of that PID."""
    text = line(pid)
    return parse(text) if text else None


class Watched:
    """The stat line of one process, kept open: to open it anew takes longer than to read it.

    It is that of the very process which had the PID, not of a later one.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def line(self) -> bytes | None:
        """Return the line as it is now, None when the process is gone."""
        try:
            return os.pread(self._descriptor, _READ_BYTES, 0)
        except OSError:
            return None

    def __del__(self) -> None:
        os.close(self._descriptor)


def watch(pid: int) -> Watched | None:
    """Return the line of a process kept open, None if it is gone or too many files are open."""
    try:
        return Watched(os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None


def line(pid: int) -> bytes | None:
    """Return the stat line, for `parse`; None if /proc does not show a process of that PID."""
    return _read(f"/proc/{pid}/stat")


def pids() -> tuple[int, ...]:
    """Return the PIDs that /proc shows, none where it is not mounted."""
    try:
        return tuple(int(name) for name in os.listdir("/proc") if name.isdecimal())
    except OSError:
        return ()


def parse(line: bytes) -> ProcStat | None:
    """Return what a stat line says, None if it is not one."""
    # The name may hold spaces and parentheses of its own, the fields after it cannot.
    name, _, rest = line.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if len(fields) < _FIELDS_AFTER_NAME:
        return None
    try:
        start_ticks = int(fields[19])
        if start_ticks > _MOST_TICKS:
            return None
        return ProcStat(
            name=name,
            status=_STATUS.get(fields[0].decode("latin-1"), "unknown"),
            parent_pid=int(fields[1]),
            session_id=int(fields[3]),
            has_terminal=int(fields[4]) > 0,
            is_kernel_thread=bool(int(fields[6]) & _PF_KTHREAD),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
            start_ticks=start_ticks,
        )
    except (ValueError, OverflowError):
        return None


def threads(pid: int) -> tuple[ProcStat, ...]:
    """Return every thread of a process as its own stat line describes it; empty if it is gone."""
    try:
        identifiers = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return ()
    lines = (_read(f"/proc/{pid}/task/{identifier}/stat") for identifier in identifiers)
    return tuple(stat for line in lines if line and (stat := parse(line)))


def is_start_of(stat: ProcStat, start_ticks: int | None, create_time: float | None) -> bool:
    """Whether the process started then, to the tick; False where no time is known.

    The Unix time counts only where the ticks are not known: it moves with the wall clock.
    """
    if start_ticks is not None:
        return stat.start_ticks == start_ticks
    booted = boot_time()
    if booted is None or create_time is None:
        return False
    return abs(booted + stat.started_seconds - create_time) < TICK_SECONDS / 2


def resident_memory_bytes(pid: int) -> int | None:
    """Return the memory that a process holds, None if it is gone.

    statm, since the rss of the stat line lags behind by up to megabytes on many cores.
    """
    fields = (_read(f"/proc/{pid}/statm") or b"").split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else None


def boot_time() -> float | None:
    """Return when the machine was booted, Unix time; it moves when the wall clock is set."""
    try:
        with open("/proc/stat", "rb") as file:
            for line in file:
                if line.startswith(b"btime "):
                    return float(line.split()[1])
    except OSError:
        pass
    return None


def _read(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _READ_BYTES)
    except OSError:  # ESRCH: it ended between open and read
        return None
    finally:
        os.close(descriptor)
