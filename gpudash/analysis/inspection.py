"""Details of one process from /proc, read on request: process tree, environment, files, I/O."""

from __future__ import annotations

import errno
import os
import time

from msgspec import Struct

from gpudash.analysis.labels import VisibleDevices, visible_devices
from gpudash.model.process import Process
from gpudash.model.secrets import is_secret_name, is_secret_value
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText, clean, clean_bytes
from gpudash.system import process_tree, processes
from gpudash.system.files import read_start
from gpudash.system.process_tree import Relative

_MAX_ENVIRONMENT_BYTES = 1 << 18
_MAX_VARIABLES = 2048
_MAX_RELATIVES = 512
_SMALL_BYTES = 4096
_EXITED = "exited"


class Variable(Struct, frozen=True, kw_only=True):
    """One variable of an environment, as it was when the process was started."""

    name: SafeText
    value: SafeText
    is_secret: bool
    """Whether the value is masked until it is asked for."""


class Inspection(Struct, frozen=True, kw_only=True):
    """What /proc has about a process beyond its row; None is what may not be read."""

    pid: int
    taken_at: float
    """Seconds of a clock that only runs forward, for rates."""
    reason: str | None = None
    """Why parts of it, or all, are None; None itself if nothing is missing."""
    exited: bool = False
    """Whether the process has ended; not known of a simulated or another host."""
    ancestors: tuple[Relative, ...] = ()
    """The oldest first, the parent last."""
    descendants: tuple[Relative, ...] = ()
    """Each behind its parent."""
    environment: tuple[Variable, ...] | None = None
    visible: VisibleDevices | None = None
    command_line: tuple[SafeText, ...] | None = None
    """With its secrets, unlike in a snapshot: nothing of this leaves this process."""
    working_directory: SafeText | None = None
    thread_count: int | None = None
    open_file_count: int | None = None
    read_bytes: int | None = None
    """Bytes that it had read from disks since it started."""
    written_bytes: int | None = None
    """Bytes that it had written to disks since it started."""


def inspect(process: Process, snapshot: Snapshot) -> Inspection:
    """Read the details of a process; of a simulated or another host there are none."""
    reason = _unreadable(process, snapshot)
    if reason is not None:
        return _nothing(process, reason)
    seen = _read(process, snapshot)
    # What was read belongs to this process only if it is still the same one.
    gone = _unreadable(process, snapshot)
    return seen if gone is None else _nothing(process, gone)


def inspect_recorded(process: Process) -> Inspection:
    """Return the details of a process of a recording: none, /proc was not recorded."""
    return _nothing(process, "this is a recording: /proc was not recorded")


def io_rates(before: Inspection, after: Inspection) -> tuple[float | None, float | None]:
    """Return bytes read and written per second between two inspections of a process."""
    elapsed = after.taken_at - before.taken_at

    def rate(first: int | None, last: int | None) -> float | None:
        if first is None or last is None or elapsed <= 0:
            return None
        return max(0, last - first) / elapsed

    return (
        rate(before.read_bytes, after.read_bytes),
        rate(before.written_bytes, after.written_bytes),
    )


def _nothing(process: Process, reason: str) -> Inspection:
    exited = reason.startswith(_EXITED)
    return Inspection(pid=process.pid, taken_at=time.monotonic(), reason=reason, exited=exited)


def _unreadable(process: Process, snapshot: Snapshot) -> str | None:
    host = snapshot.host
    if host.simulated:
        return "the host is simulated: there is no process to read"
    if host.hostname != clean(os.uname().nodename):
        return f"the process runs on {host.hostname}: run gpudash there"
    if process.hidden_reason is not None:
        return process.hidden_reason
    stat = processes.read_stat(process.pid)
    if stat is None:
        return _EXITED
    if stat.status == "zombie":
        return f"{_EXITED}; its parent has not yet reaped it"
    if not processes.is_start_of(stat, process.start_ticks, process.create_time):
        return f"{_EXITED}; its PID belongs to another process now"
    return None


def _read(process: Process, snapshot: Snapshot) -> Inspection:
    pid = process.pid
    refusals: list[OSError] = []
    raw = _raw_environment(pid, refusals)
    environment = None if raw is None else tuple(map(_variable, raw))
    reads, writes = _io(pid)
    open_files = _count(f"/proc/{pid}/fd", refusals)
    return Inspection(
        pid=pid,
        taken_at=time.monotonic(),
        reason=_refusal_text(refusals[0], process) if refusals else None,
        ancestors=process_tree.ancestors(pid),
        descendants=process_tree.descendants(pid, limit=_MAX_RELATIVES),
        environment=environment,
        visible=None if raw is None else visible_devices(_decoded(raw), snapshot.devices),
        command_line=processes.command_line(pid),
        working_directory=_working_directory(pid),
        thread_count=_count(f"/proc/{pid}/task", []),
        open_file_count=open_files,
        read_bytes=reads,
        written_bytes=writes,
    )


def _refusal_text(refusal: OSError, process: Process) -> str:
    """Return why something could not be read."""
    if refusal.errno not in (errno.EACCES, errno.EPERM):
        return f"{refusal.filename} cannot be read: {refusal.strerror}"
    owner = process.username or "another user"
    if os.geteuid() == 0:
        return f"not permitted, not even to root: owned by {owner}"
    return f"not permitted: owned by {owner}; try sudo gpudash"


def _raw_environment(pid: int, refusals: list[OSError]) -> list[tuple[bytes, bytes]] | None:
    """Return names and values, the last one dropped where the environment is absurdly long."""
    try:
        raw = processes.read_environ(pid, _MAX_ENVIRONMENT_BYTES + 1)
    except OSError as error:
        refusals.append(error)
        return None
    entries = raw.split(b"\0")
    if len(raw) > _MAX_ENVIRONMENT_BYTES:
        entries.pop()
    pairs = (entry.partition(b"=") for entry in entries[:_MAX_VARIABLES])
    return [(name, value) for name, separator, value in pairs if separator]


def _decoded(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in raw}


def _variable(pair: tuple[bytes, bytes]) -> Variable:
    name, value = map(clean_bytes, pair)
    is_secret = value != "" and (is_secret_name(name) or is_secret_value(value))
    return Variable(name=name, value=value, is_secret=is_secret)


def _working_directory(pid: int) -> SafeText | None:
    try:
        return clean(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None


def _io(pid: int) -> tuple[int | None, int | None]:
    text = read_start(f"/proc/{pid}/io", _SMALL_BYTES) or b""
    fields = dict(line.partition(b":")[::2] for line in text.splitlines())
    read, written = fields.get(b"read_bytes"), fields.get(b"write_bytes")
    return None if read is None else int(read), None if written is None else int(written)


def _count(folder: str, refusals: list[OSError]) -> int | None:
    try:
        return len(os.listdir(folder))
    except OSError as error:
        refusals.append(error)
        return None
