"""Pinning the process that a snapshot shows, and the reasons not to."""

from __future__ import annotations

import itertools
import os

from gpudash.actions.kill.target import Target, open_pidfd
from gpudash.model.errors import ActionError
from gpudash.model.process import Process
from gpudash.model.snapshot import Host
from gpudash.model.text import clean
from gpudash.system import proc_facts
from gpudash.system import processes as proc_stat


def pin(process: Process, host: Host) -> Target:
    """Hold the process that a snapshot shows, to be signalled and closed by the caller.

    Raises ActionError with the reason when it must not or cannot be signalled.
    """
    refuse_host(host)
    _refuse_by_pid(process)
    target = hold(process, open_pidfd(process.pid))
    try:
        _refuse_stranger(process)
    except ActionError:
        target.close()
        raise
    return target


def hold(process: Process, descriptor: int | None) -> Target:
    """Return the target that a pidfd pins, or its start time alone where that is None.

    Raises ActionError, and closes the descriptor, unless it is the process that was shown.
    """
    target = Target(process, descriptor)
    try:
        _compare(target)
    except ActionError:
        target.close()
        raise
    return target


def is_own(pid: int, parent_pid: int | None) -> bool:
    """Whether it is gpudash itself or the collector that feeds its screen."""
    if pid == os.getpid():
        return True
    if parent_pid != os.getpid():
        return False
    words: tuple[str, ...] = proc_facts.command_line(pid) or ()
    went_on_from_us = words == proc_facts.command_line(os.getpid())
    started_by_name = any(os.path.basename(word) == "gpudash" for word in words[:2])
    started_by_code = words[1:2] == ("-c",) and "from gpudash.cli" in "".join(words[2:3])
    if went_on_from_us or started_by_name or started_by_code:
        return True
    return ("-m", "gpudash") in itertools.pairwise(words)


def refuse_host(host: Host) -> None:
    """Raise ActionError unless the processes of a snapshot's host are those of here."""
    if host.simulated:
        raise ActionError("the host is simulated: there is no process to signal")
    if host.hostname != clean(os.uname().nodename):
        raise ActionError(f"the process runs on {host.hostname}: signal it there")
    try:
        ours = os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        raise ActionError("/proc is not mounted: a reused PID could not be told apart") from None
    if not ours:
        raise ActionError("/proc shows another PID namespace: its PIDs are not those of here")


def refuse_pid(pid: int) -> None:
    """Raise ActionError for a PID that is never signalled, whatever the process."""
    if pid < 1:
        raise ActionError(f"{pid} is not a PID")
    if pid == 1:
        raise ActionError("PID 1 is init: the host or the container would end with it")
    if pid == os.getpid():
        raise ActionError(f"PID {pid} is gpudash itself: quit it instead")


def _refuse_by_pid(process: Process) -> None:
    pid = process.pid
    refuse_pid(pid)
    if process.hidden_reason is not None:
        raise ActionError(f"PID {pid} cannot be signalled: {process.hidden_reason}")
    if process.start_ticks is None and process.create_time is None:
        raise ActionError(f"start time of PID {pid} is not known: it might have been reused")


def _refuse_stranger(process: Process) -> None:
    """Raise if the driver may mean a process outside: it tells PIDs of the host's namespace."""
    if not process.devices or proc_facts.in_first_pid_namespace():
        return
    if not proc_facts.holds_a_device(process.pid):
        reason = "the driver means another process, outside this PID namespace"
        raise ActionError(f"PID {process.pid} has no NVIDIA device open here: {reason}")


def _compare(target: Target) -> None:
    """Raise unless the process that is pinned is the one that the snapshot shows."""
    process = target.process
    pid = process.pid
    stat = proc_stat.read(pid)
    is_same = stat is not None and proc_stat.is_start_of(
        stat, process.start_ticks, process.create_time
    )
    # Alive now, it was so when its stat was read: that line cannot be a later process's.
    if not target.alive() and (stat is None or is_same):
        raise ActionError(target.end)
    if stat is None:
        raise ActionError(f"PID {pid} cannot be signalled: /proc hides it")
    if not is_same:
        raise ActionError(f"PID {pid} now belongs to another process; nothing was sent")
    if stat.is_kernel_thread:
        raise ActionError(f"PID {pid} is a kernel thread: signals do not end it")
    if is_own(pid, stat.parent_pid):
        raise ActionError(f"PID {pid} is gpudash's own collector: quit gpudash instead")
