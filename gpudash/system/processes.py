"""Processes as /proc shows them: the one door to it.

The stat line has identity and values of one read, so that they agree. psutil reads several files
for the same, which takes ten times as long; it is the oracle of the tests.
"""

from __future__ import annotations

import os
import pwd
from functools import lru_cache

from msgspec import Struct

from gpudash.model.text import SafeText, clean, clean_bytes
from gpudash.system.files import read_link, read_start

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
_MAX_TICKS = 2**63 - 1
_STATUS_BYTES = 65536
_COMM_BYTES = 15
_FUNCTION_BYTES = 64
_NO_LOGIN = 2**32 - 1
_MAX_ARGUMENTS = 512
_MAX_ARGUMENT_CHARACTERS = 4096
_MAX_COMMAND_LINE_BYTES = 32768
_DEVICE_NODES = ("/dev/nvidia", "/dev/dxg")
# The inode of the first PID namespace is a constant of the kernel, PROC_PID_INIT_INO.
FIRST_PID_NAMESPACE = "pid:[4026531836]"


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


def read_stat(pid: int) -> ProcStat | None:
    """Return the process, None if /proc does not show one of that PID."""
    text = stat_line(pid)
    return parse_stat(text) if text else None


class StatFile:
    """The stat file of one process, kept open: opening takes longer than reading.

    It stays that of the process which had the PID, never of a later one.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def line(self) -> bytes | None:
        """Return the line as it is now, None if the process is gone."""
        try:
            return os.pread(self._descriptor, _READ_BYTES, 0)
        except OSError:
            return None

    def __del__(self) -> None:
        os.close(self._descriptor)


def open_stat(pid: int) -> StatFile | None:
    """Open the stat file of a process, None if it is gone or too many files are open."""
    try:
        return StatFile(os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None


def stat_line(pid: int) -> bytes | None:
    """Return the stat line, for `parse_stat`; None if /proc does not show a process of that PID."""
    return read_start(f"/proc/{pid}/stat", _READ_BYTES)


def pids() -> tuple[int, ...]:
    """Return the PIDs that /proc shows, none where it is not mounted."""
    try:
        return tuple(int(name) for name in os.listdir("/proc") if name.isdecimal())
    except OSError:
        return ()


def parse_stat(line: bytes) -> ProcStat | None:
    """Return the parsed stat line, None if it is malformed."""
    # The name may hold spaces and parentheses of its own, the fields after it cannot.
    name, _, rest = line.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if len(fields) < _FIELDS_AFTER_NAME:
        return None
    try:
        start_ticks = int(fields[19])
        if start_ticks > _MAX_TICKS:
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
    lines = (
        read_start(f"/proc/{pid}/task/{identifier}/stat", _READ_BYTES) for identifier in identifiers
    )
    return tuple(stat for line in lines if line and (stat := parse_stat(line)))


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
    fields = (read_start(f"/proc/{pid}/statm", _READ_BYTES) or b"").split()
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


def read_status(pid: int) -> bytes | None:
    """Return the status file, from which `owner_id`, `name` and the others below read."""
    return read_start(f"/proc/{pid}/status", _STATUS_BYTES)


def owner_id(status: bytes) -> int | None:
    """Return the real user id."""
    words = _words(status, b"Uid")
    return int(words[0]) if words else None


def namespace_pids(status: bytes) -> tuple[int, ...]:
    """Return its PID in each namespace, ours first; 1 behind others is a container's init."""
    return tuple(int(word) for word in _words(status, b"NSpid"))


def name(status: bytes, arguments: tuple[str, ...] | None) -> SafeText | None:
    """Return the name of the executable; the kernel keeps 15 bytes of it, the arguments all."""
    comm = status.removeprefix(b"Name:\t").partition(b"\n")[0]
    # The kernel escapes newlines and backslashes here.
    short = clean_bytes(comm.replace(b"\\n", b"\n").replace(b"\\\\", b"\\"))
    whole = os.path.basename(arguments[0]) if arguments else ""
    # With a blank in it, it is a title that the process gave itself, options and all.
    if len(comm) >= _COMM_BYTES and whole.startswith(short) and " " not in whole:
        return SafeText(whole)
    return short or None


def command_line(pid: int) -> tuple[SafeText, ...] | None:
    """Return the arguments, cut with an ellipsis where they are very long; None for none."""
    raw = read_start(f"/proc/{pid}/cmdline", _MAX_COMMAND_LINE_BYTES + 1) or b""
    # A title that replaced the arguments is padded with zeros.
    arguments = raw.rstrip(b"\0").split(b"\0")
    if arguments == [b""]:
        return None
    shown = tuple(
        clean_bytes(part, _MAX_ARGUMENT_CHARACTERS) for part in arguments[:_MAX_ARGUMENTS]
    )
    cut = len(raw) > _MAX_COMMAND_LINE_BYTES or len(arguments) > _MAX_ARGUMENTS
    return (*shown, SafeText("…")) if cut else shown


@lru_cache(maxsize=1024)
def username(uid: int) -> SafeText:
    """Return the name of a user, the uid itself if it has none."""
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return SafeText(str(uid))


def has_device_open(pid: int) -> bool | None:
    """Whether it has a node of the NVIDIA driver open; None where its files may not be listed."""
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return None
    return any(read_link(f"{folder}/{each}").startswith(_DEVICE_NODES) for each in descriptors)


def login_id(pid: int) -> int | None:
    """Return the uid that logged in to its session, also behind sudo; None for none."""
    text = read_start(f"/proc/{pid}/loginuid", _FUNCTION_BYTES) or b""
    return int(text) if text.isdigit() and int(text) != _NO_LOGIN else None


def kernel_function(pid: int) -> SafeText | None:
    """Return the kernel function in which it sleeps; only root may read that of others."""
    name = read_start(f"/proc/{pid}/wchan", _FUNCTION_BYTES) or b""
    return None if name in (b"", b"0") else clean_bytes(name)


def in_first_pid_namespace() -> bool:
    """Whether our PIDs are those of the host, which its driver reports."""
    return read_link("/proc/self/ns/pid") in ("", FIRST_PID_NAMESPACE)


def read_environ(pid: int, limit: int) -> bytes:
    """Return the start of a process's environment; raises OSError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(limit)


def _words(status: bytes, field: bytes) -> list[bytes]:
    # The name comes first and cannot hold a newline that is not escaped.
    return status.partition(b"\n" + field + b":")[2].partition(b"\n")[0].split()
