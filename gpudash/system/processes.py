"""The machine and its processes: the only importer of psutil, and what is read without it.

psutil is only imported when needed, for the resource use of one process. Without psutil:

- The stat line: identity and values of one read, exact start ticks. psutil takes ten times as long
  and reads several files, between which the process may become another one.
- Owner: psutil takes the first `Uid:` of the status file, which a process can put into its name.
- Command line, a long name, environment: psutil reads all of it, and without any privilege a
  process can make it as large as its address space (PR_SET_MM_MAP): 1 GiB took 72 s and 9 GB.
- Time of boot, CPU, memory, PIDs: one-shot output needs nothing else of psutil, whose import would
  be a sixth of it, and a collector saves its memory.
- States of threads, device nodes, PID namespaces, wchan, loginuid: psutil lacks them.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from gpudash.model.process import Job
from gpudash.model.text import NAME_BYTES, SafeText, bound, clean, clean_bytes
from gpudash.system.files import read_link, read_start

_T = TypeVar("_T")
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
_STATUS_BYTES = 65536
_STAT_BYTES = 1 << 20
_CPU_BYTES = 256
_MEMORY_BYTES = 1 << 16
_MEMORY = (b"MemTotal", b"MemFree", b"MemAvailable")
_INTERFACES_BYTES = 1 << 18
_COMM_BYTES = 15
_FUNCTION_BYTES = 64
_NO_LOGIN = 2**32 - 1
_MAX_ARGUMENTS = 512
_MAX_ARGUMENT_CHARACTERS = 4096
_MAX_COMMAND_LINE_BYTES = 32768
_MAX_FACTS_BYTES = 6144
"""More than a document keeps of a command line, so that a secret at its end is seen whole."""
_DEVICE_NODES = ("/dev/nvidia", "/dev/dxg")
# The inode of the first PID namespace is a constant of the kernel, PROC_PID_INIT_INO.
FIRST_PID_NAMESPACE = "pid:[4026531836]"


class Facts(Struct, frozen=True, kw_only=True):
    """Values that only exec, setproctitle or a scheduler change."""

    username: SafeText | None = None
    name: SafeText | None = None
    command_line: tuple[SafeText, ...] | None = None
    job: Job | None = None


class ProcStat(Struct, frozen=True, kw_only=True):
    """One process according to its stat line."""

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
    thread_count: int
    start_ticks: int
    """When it started, in clock ticks since boot: exact, and unaffected by setting the clock."""

    @property
    def started_seconds(self) -> float:
        """When it started, in seconds since boot."""
        return self.start_ticks / _TICKS_PER_SECOND


def read_stat(pid: int) -> ProcStat | None:
    """Return the process, None if /proc does not show this PID."""
    text = stat_line(pid)
    return parse_stat(text) if text else None


class StatFile:
    """The stat file of one process, kept open: opening takes longer than reading.

    It stays that of the process that had the PID, never of a later one.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def line(self) -> bytes | None:
        """Return the present line, None if the process is gone."""
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
    """Return the stat line, for `parse_stat`; None if /proc does not show this PID."""
    return read_start(f"/proc/{pid}/stat", _READ_BYTES)


def parse_stat(line: bytes) -> ProcStat | None:
    """Return the parsed stat line, None if it is malformed."""
    # The name may contain spaces and parentheses, but the fields after it cannot.
    name, _, rest = line.partition(b"(")[2].rpartition(b")")
    fields = rest.split()
    if len(fields) < _FIELDS_AFTER_NAME:
        return None
    try:
        return ProcStat(
            name=name,
            status=_STATUS.get(fields[0].decode("latin-1"), "unknown"),
            parent_pid=int(fields[1]),
            session_id=int(fields[3]),
            has_terminal=int(fields[4]) > 0,
            is_kernel_thread=bool(int(fields[6]) & _PF_KTHREAD),
            cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
            thread_count=int(fields[17]),
            start_ticks=int(fields[19]),
        )
    except ValueError:
        return None


def threads(pid: int) -> tuple[ProcStat, ...]:
    """Return every thread of a process from its own stat line; empty if it is gone."""
    try:
        identifiers = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return ()
    lines = (
        read_start(f"/proc/{pid}/task/{identifier}/stat", _READ_BYTES) for identifier in identifiers
    )
    return tuple(stat for line in lines if line and (stat := parse_stat(line)))


def is_start_of(stat: ProcStat, start_ticks: int | None, create_time: float | None) -> bool:
    """Whether the process started then, to the tick; False if no time is known.

    The Unix time counts only if the ticks are unknown, as it moves with the wall clock.
    """
    if start_ticks is not None:
        return stat.start_ticks == start_ticks
    booted = boot_time()
    if booted is None or create_time is None:
        return False
    return abs(booted + stat.started_seconds - create_time) < TICK_SECONDS / 2


def resident_memory_bytes(pid: int) -> int | None:
    """Return the memory that a process holds, None if it is gone.

    From statm, since the rss of the stat line lags by up to megabytes on many cores.
    """
    fields = (read_start(f"/proc/{pid}/statm", _READ_BYTES) or b"").split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else None


def read_status(pid: int) -> bytes | None:
    """Return the status file, the input of `owner_id` and `namespace_pids`."""
    return read_start(f"/proc/{pid}/status", _STATUS_BYTES)


def owner_id(status: bytes) -> int | None:
    """Return the real user id."""
    words = _words(status, b"Uid")
    return int(words[0]) if words else None


def namespace_pids(status: bytes) -> tuple[int, ...]:
    """Return its PID in each namespace, ours first; 1 after others is a container's init."""
    return tuple(int(word) for word in _words(status, b"NSpid"))


def facts(pid: int, stat: ProcStat) -> Facts | None:
    """Return owner, name and arguments of the process of a stat line, None if it is gone.

    Of a very long command line only the beginning, since it is read for all processes.
    """
    status = read_status(pid)
    if status is None:
        return None
    uid, arguments = owner_id(status), command_line(pid, _MAX_FACTS_BYTES)
    return Facts(
        username=None if uid is None else username(uid),
        name=name(stat.name, arguments),
        command_line=arguments,
    )


def name(comm: bytes, arguments: tuple[str, ...] | None) -> SafeText | None:
    """Return the name of the executable; the kernel keeps 15 bytes of it, the arguments all."""
    short = clean_bytes(comm)
    whole = os.path.basename(arguments[0]) if arguments else ""
    # With a blank, it is a title that the process gave itself, options and all.
    if len(comm) >= _COMM_BYTES and whole.startswith(short) and " " not in whole:
        return bound(SafeText(whole), NAME_BYTES)
    return short or None


def command_line(pid: int, max_bytes: int = _MAX_COMMAND_LINE_BYTES) -> tuple[SafeText, ...] | None:
    """Return the arguments, truncated with an ellipsis if very long; None for none."""
    raw = read_start(f"/proc/{pid}/cmdline", max_bytes + 1) or b""
    # A title that replaced the arguments is padded with zeros.
    arguments = raw.rstrip(b"\0").split(b"\0")
    if arguments == [b""]:
        return None
    shown = tuple(
        clean_bytes(part, _MAX_ARGUMENT_CHARACTERS) for part in arguments[:_MAX_ARGUMENTS]
    )
    cut = len(raw) > max_bytes or len(arguments) > _MAX_ARGUMENTS
    return (*shown, SafeText("…")) if cut else shown


@lru_cache(maxsize=1024)
def username(uid: int) -> SafeText:
    """Return the name of a user, the uid itself if it has none."""
    try:
        return bound(clean(pwd.getpwuid(uid).pw_name), NAME_BYTES)
    except KeyError:
        return SafeText(str(uid))


def has_device_open(pid: int) -> bool | None:
    """Whether it has a node of the NVIDIA driver open; None if its files cannot be listed."""
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return None
    return any(read_link(f"{folder}/{each}").startswith(_DEVICE_NODES) for each in descriptors)


def login_id(pid: int) -> int | None:
    """Return the uid that logged in to its session, even if it used sudo; None for none."""
    text = read_start(f"/proc/{pid}/loginuid", _FUNCTION_BYTES) or b""
    return int(text) if text.isdigit() and int(text) != _NO_LOGIN else None


def kernel_function(pid: int) -> SafeText | None:
    """Return the kernel function in which it sleeps; only root may read others'."""
    name = read_start(f"/proc/{pid}/wchan", _FUNCTION_BYTES) or b""
    return None if name in (b"", b"0") else clean_bytes(name)


def in_first_pid_namespace() -> bool:
    """Whether our PIDs are those of the host, which its driver reports."""
    return read_link("/proc/self/ns/pid") in ("", FIRST_PID_NAMESPACE)


def read_environ(pid: int, limit: int) -> bytes:
    """Return the start of a process's environment; raises OSError."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(limit)


class MachineFacts(Struct, frozen=True):
    """The machine; None for values that /proc does not show."""

    cpu_count: int | None = None
    cpu_seconds: tuple[float, float] | None = None
    """Busy and all seconds of all CPUs since boot."""
    load_average: tuple[float, float, float] | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    """Memory that is free or can be freed at once."""
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None


class Usage(Struct, frozen=True):
    """A process's use beyond CPU and memory; None if not readable."""

    working_directory: SafeText | None = None
    thread_count: int | None = None
    open_file_count: int | None = None
    read_bytes: int | None = None
    """Bytes that it has read from disks since its start."""
    written_bytes: int | None = None
    received_bytes: int | None = None
    """Bytes received by its network namespace since that began, if it differs from ours.

    Linux does not count the traffic of a single process.
    """
    sent_bytes: int | None = None


def machine(proc: str = "/proc") -> MachineFacts:
    """Return the present state of the machine."""
    memory = b"\n" + (read_start(f"{proc}/meminfo", _MEMORY_BYTES) or b"")
    total, free, available = (_size_in(memory, name) for name in _MEMORY)
    swap_total, swap_free = (_size_in(memory, name) for name in (b"SwapTotal", b"SwapFree"))
    if total is not None and available is not None and available > total:
        # A container may be shown its own total but the host's available memory.
        available = free
    return MachineFacts(
        cpu_count=os.cpu_count(),
        cpu_seconds=_cpu_seconds(read_start(f"{proc}/stat", _CPU_BYTES) or b""),
        load_average=_load_average(),
        memory_total_bytes=total,
        memory_available_bytes=available,
        swap_total_bytes=swap_total,
        swap_used_bytes=None if swap_total is None or swap_free is None else swap_total - swap_free,
    )


def _size_in(memory: bytes, field: bytes) -> int | None:
    words = _words(memory, field)
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _cpu_seconds(stat: bytes) -> tuple[float, float] | None:
    """Return busy and total seconds from the first line of /proc/stat, None if it is invalid."""
    # The time of guests, after the first eight, is already in user and nice.
    name, *times = stat.partition(b"\n")[0].split()[:9] or [b""]
    if name != b"cpu" or len(times) < 8 or not all(map(bytes.isdigit, times)):
        return None
    ticks = [int(each) for each in times]
    total, waiting = sum(ticks), ticks[3] + ticks[4]
    return (total - waiting) / _TICKS_PER_SECOND, total / _TICKS_PER_SECOND


def _load_average() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except OSError:
        return None


def boot_time() -> float | None:
    """Return the boot time as Unix time; it moves when the wall clock is set."""
    text = (read_start("/proc/stat", _STAT_BYTES) or b"").partition(b"\nbtime ")[2]
    seconds = text.partition(b"\n")[0]
    return float(seconds) if seconds.isdigit() else None


def pids(proc: str = "/proc") -> tuple[int, ...]:
    """Return the PIDs that /proc shows, empty if it is not mounted."""
    try:
        return tuple(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return ()


def usage(pid: int) -> Usage:
    """Return the present use of a process."""
    import psutil

    process, stat = _optional(lambda: psutil.Process(pid)), read_stat(pid)
    if process is None or stat is None:
        return Usage()
    folder, io = _optional(process.cwd), _optional(process.io_counters)
    received, sent = _network(pid)
    return Usage(
        working_directory=clean(folder) if folder else None,
        thread_count=stat.thread_count,
        open_file_count=_optional(process.num_fds),
        read_bytes=io.read_bytes if io else None,
        written_bytes=io.write_bytes if io else None,
        received_bytes=received,
        sent_bytes=sent,
    )


def _network(pid: int) -> tuple[int | None, int | None]:
    """Return the bytes received and sent by the network namespace of a process, if not ours."""
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return None, None
    except OSError:
        return None, None
    text = read_start(f"/proc/{pid}/net/dev", _INTERFACES_BYTES)
    if not text:
        return None, None
    found = (line.partition(b":") for line in text.splitlines()[2:])
    counters = [each.split() for name, _, each in found if name.strip() != b"lo"]
    if not all(len(each) == 16 and each[0].isdigit() and each[8].isdigit() for each in counters):
        return None, None
    return sum(int(each[0]) for each in counters), sum(int(each[8]) for each in counters)


def _optional(read: Callable[[], _T]) -> _T | None:
    """Return what psutil reads, None if that is refused or gone."""
    import psutil

    try:
        return read()
    # Not only its own errors: a file without the expected lines raises any of the others.
    except (psutil.Error, OSError, LookupError, RuntimeError, ValueError):
        return None


def _words(status: bytes, field: bytes) -> list[bytes]:
    # The name comes first and cannot contain an unescaped newline.
    return status.partition(b"\n" + field + b":")[2].partition(b"\n")[0].split()
