"""Details of one process from /proc, read on request: process tree, environment, files, I/O."""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

from msgspec import Struct

from gpudash.analysis.history.metrics import ProcessKey
from gpudash.analysis.labels import VisibleDevices, visible_devices
from gpudash.model.process import EXITED, Process
from gpudash.model.secrets import is_secret_name, is_secret_value
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText, clean, clean_bytes
from gpudash.system import process_tree, processes
from gpudash.system.process_tree import Relative
from gpudash.system.processes import Usage

_MAX_ENVIRONMENT_BYTES = 1 << 18
_MAX_VARIABLES = 2048
_MAX_RELATIVES = 512


class Variable(Struct, frozen=True, kw_only=True):
    """One variable of an environment, as it was when the process started."""

    name: SafeText
    value: SafeText
    is_secret: bool
    """Whether the value is masked until requested."""


class Inspection(Struct, frozen=True, kw_only=True):
    """Data of a process from /proc beyond its row; None if not readable."""

    pid: int
    taken_at: float
    """Seconds of a monotonic clock, for rates."""
    reason: str | None = None
    """Why some or all of it is None; None itself if nothing is missing."""
    exited: bool = False
    """Whether the process has ended; unknown for a simulated or another host."""
    ancestors: tuple[Relative, ...] = ()
    """The oldest first, the parent last."""
    descendants: tuple[Relative, ...] = ()
    """Each after its parent."""
    environment: tuple[Variable, ...] | None = None
    visible: VisibleDevices | None = None
    command_line: tuple[SafeText, ...] | None = None
    """With secrets, unlike in a snapshot: it never leaves this process."""
    usage: Usage = Usage()


def inspect(process: Process, snapshot: Snapshot) -> Inspection:
    """Read the details of a process; a simulated or another host has none."""
    reason = _unreadable(process, snapshot)
    if reason is not None:
        return _nothing(process, reason)
    seen = _read(process, snapshot)
    # The data belong to this process only if it is still the same one.
    gone = _unreadable(process, snapshot)
    return seen if gone is None else _nothing(process, gone)


def inspect_elsewhere(process: Process, host: str | None) -> Inspection:
    """Return the empty details of a process on another host, or in a recording (None)."""
    if host is None:
        return _nothing(process, "this is a recording: /proc was not recorded")
    return _nothing(process, f"this is {clean(host)}: gpudash reads only the /proc of its own host")


class IoRates(NamedTuple):
    """Bytes per second; None if unknown."""

    read: float | None = None
    written: float | None = None
    received: float | None = None
    sent: float | None = None


def io_rates(before: Inspection, after: Inspection) -> IoRates:
    """Return a process's disk and network I/O between two inspections of it."""
    elapsed = after.taken_at - before.taken_at

    def rate(first: int | None, last: int | None) -> float | None:
        if first is None or last is None or elapsed <= 0:
            return None
        return max(0, last - first) / elapsed

    first, last = before.usage, after.usage
    return IoRates(
        rate(first.read_bytes, last.read_bytes),
        rate(first.written_bytes, last.written_bytes),
        rate(first.received_bytes, last.received_bytes),
        rate(first.sent_bytes, last.sent_bytes),
    )


def cpu_percents(before: Inspection, after: Inspection) -> dict[ProcessKey, float]:
    """Return the CPU use of a process's relatives between two inspections; 100 is a core."""
    elapsed = after.taken_at - before.taken_at
    first, last = (
        {each.process.key: each.cpu_seconds for each in (*seen.ancestors, *seen.descendants)}
        for seen in (before, after)
    )
    return {
        key: max(0.0, 100 * (seconds - earlier) / elapsed)
        for key, seconds in last.items()
        if elapsed > 0 and seconds is not None and (earlier := first.get(key)) is not None
    }


def _nothing(process: Process, reason: str) -> Inspection:
    exited = reason.startswith(EXITED)
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
        return EXITED
    if stat.status == "zombie":
        return f"{EXITED}; its parent has not yet reaped it"
    if not processes.is_start_of(stat, process.start_ticks, process.create_time):
        return f"{EXITED}; its PID belongs to another process now"
    return None


def _read(process: Process, snapshot: Snapshot) -> Inspection:
    pid = process.pid
    refusal = None
    try:
        raw = _raw_environment(pid)
    except OSError as error:
        raw, refusal = None, error
    return Inspection(
        pid=pid,
        taken_at=time.monotonic(),
        reason=None if refusal is None else _refusal_text(refusal, process),
        ancestors=process_tree.ancestors(pid),
        descendants=process_tree.descendants(pid, limit=_MAX_RELATIVES),
        environment=None if raw is None else tuple(map(_variable, raw)),
        visible=None if raw is None else visible_devices(_decoded(raw), snapshot.devices),
        command_line=processes.command_line(pid),
        usage=processes.usage(pid),
    )


def _refusal_text(refusal: OSError, process: Process) -> str:
    if refusal.errno not in (errno.EACCES, errno.EPERM):
        return f"its environment cannot be read: {refusal.strerror}"
    owner = process.username or "another user"
    if os.geteuid() == 0:
        return f"not permitted, not even to root: owned by {owner}"
    return f"not permitted: owned by {owner}; try sudo gpudash"


def _raw_environment(pid: int) -> list[tuple[bytes, bytes]]:
    """Return names and values, without the last if the environment is absurdly long."""
    raw = processes.read_environ(pid, _MAX_ENVIRONMENT_BYTES + 1)
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
