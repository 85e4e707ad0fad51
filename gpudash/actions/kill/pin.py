"""Pinning the process that a snapshot shows, and the reasons not to."""

from __future__ import annotations

import errno
import itertools
import os
import select
import signal
from types import TracebackType
from typing import Literal, NamedTuple

from msgspec.structs import replace

from gpudash.analysis.labels import command
from gpudash.model.errors import ActionError
from gpudash.model.process import EXITED, Process
from gpudash.model.secrets import mask_arguments
from gpudash.model.snapshot import Host
from gpudash.model.text import SafeText, clean, clean_bytes
from gpudash.system import processes

StateName = Literal["alive", "uninterruptible", "zombie", "gone"]

_CLOSED = -1
_BLOCKED = "disk-sleep"
# seccomp filters of containers answer EPERM to unknown calls.
_NO_PIDFD = frozenset({errno.ENOSYS, errno.EPERM})


class ProcessState(NamedTuple):
    """Whether a process runs, and the parent that must reap it after its exit."""

    name: StateName
    parent_pid: int | None = None
    parent_name: SafeText | None = None
    waits_in: SafeText | None = None
    """Kernel function in which an uninterruptible one waits; None if unreadable."""

    @property
    def unreaped(self) -> str:
        """What a zombie waits for: `zombie: parent 4100 (torchrun) must reap it`; else empty."""
        if self.name != "zombie":
            return ""
        name = f" ({self.parent_name})" if self.parent_name else ""
        return f"zombie: parent {self.parent_pid}{name} must reap it"


class Target:
    """One process: by its pidfd while `descriptor` is open, else by its start time."""

    def __init__(self, process: Process, descriptor: int | None) -> None:
        self.process = process
        self._descriptor = descriptor

    @property
    def protected(self) -> bool:
        """Whether the kernel pins it; if not, a PID reused within 10 ms is not noticed."""
        return self._descriptor is not None

    def send(self, signal_number: int) -> None:
        """Send a signal.

        Raises ActionError with the reason if it could not be delivered.
        """
        pid = self.process.pid
        if not self.alive():
            raise ActionError(self.end)
        try:
            if self._descriptor is None:
                self._send_unpinned(signal_number)
            else:
                signal.pidfd_send_signal(self._descriptor, signal_number)
        except ProcessLookupError:
            raise ActionError(exited(pid)) from None
        except PermissionError:
            owner = self.process.username or "another user"
            reason = f"not permitted: PID {pid} is owned by {owner}; try sudo gpudash"
            raise ActionError(reason) from None

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        if self._descriptor is not None:
            return not _has_ended(self._descriptor)
        stat = self._stat()
        return stat is not None and (stat.status != "zombie" or self._has_live_threads())

    def state(self) -> ProcessState:
        """Return its present state; uninterruptible means in a system call that no signal ends."""
        alive, stat = self.alive(), self._stat()
        if not alive:
            if stat is None or stat.status != "zombie":
                return ProcessState("gone")
            parent = processes.read_stat(stat.parent_pid)
            name = None if parent is None else clean_bytes(parent.name)
            return ProcessState("zombie", stat.parent_pid, name)
        if stat is None:
            return ProcessState("alive")
        # After the first thread has exited, another one may keep the process alive.
        states = {stat.status}
        if stat.status == "zombie":
            states = {thread.status for thread in processes.threads(self.process.pid)}
        if _BLOCKED not in states:
            return ProcessState("alive", stat.parent_pid)
        waits_in = processes.kernel_function(self.process.pid)
        return ProcessState("uninterruptible", stat.parent_pid, waits_in=waits_in)

    @property
    def end(self) -> str:
        """Why nothing can be sent once it has ended."""
        state = self.state()
        if state.name != "zombie":
            return exited(self.process.pid)
        return f"{exited(self.process.pid)}, {state.unreaped}"

    def close(self) -> None:
        """Release it: nothing can be sent any more."""
        if self._descriptor is not None and self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def _stat(self) -> processes.ProcStat | None:
        """Return its stat line, None if /proc shows another process or none."""
        process = self.process
        stat = processes.read_stat(process.pid)
        if stat is None:
            return None
        same = processes.is_start_of(stat, process.start_ticks, process.create_time)
        return stat if same else None

    def _has_live_threads(self) -> bool:
        return any(t.status not in {"zombie", "dead"} for t in processes.threads(self.process.pid))

    def _send_unpinned(self, signal_number: int) -> None:
        """Pin it only for sending, if the kernel can, and compare it before."""
        pid = self.process.pid
        descriptor = open_pidfd(pid)
        try:
            if self._stat() is None:
                raise ActionError(exited(pid))
            if descriptor is None:
                os.kill(pid, signal_number)
            else:
                signal.pidfd_send_signal(descriptor, signal_number)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_pidfd(pid: int) -> int | None:
    """Pin a PID; None if the kernel, seccomp or Python has no pidfd.

    Raises ActionError if there is no such process or it cannot be pinned.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):
        raise ActionError(exited(pid)) from None
    except OSError as error:
        if error.errno in _NO_PIDFD:
            return None
        raise ActionError(f"PID {pid} cannot be pinned: {error.strerror}") from None


def exited(pid: int) -> str:
    """Return why nothing was sent to a process that has ended."""
    return f"PID {pid} has already exited"


def _has_ended(descriptor: int) -> bool:
    """Whether the process of a pidfd has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def pin(process: Process, host: Host) -> Target:
    """Pin the process that a snapshot shows; the caller signals and closes it.

    Raises ActionError with the reason if it must not or cannot be signalled.
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
    """Return the target pinned by a pidfd, or by its start time alone if that is None.

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
    words: tuple[str, ...] = processes.command_line(pid) or ()
    is_forked_from_us = words == processes.command_line(os.getpid())
    started_by_name = any(os.path.basename(word) == "gpudash" for word in words[:2])
    started_by_code = words[1:2] == ("-c",) and "from gpudash.cli" in "".join(words[2:3])
    if is_forked_from_us or started_by_name or started_by_code:
        return True
    return ("-m", "gpudash") in itertools.pairwise(words)


def refuse_host(host: Host) -> None:
    """Raise ActionError unless the processes of a snapshot's host are those of this one."""
    if host.simulated:
        raise ActionError("the host is simulated: there is no process to signal")
    if host.hostname != clean(os.uname().nodename):
        raise ActionError(f"the process runs on {host.hostname}: signal it there")
    try:
        ours = os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        raise ActionError("/proc is not mounted: a reused PID would go unnoticed") from None
    if not ours:
        raise ActionError("/proc is that of another PID namespace: its PIDs are others")


def refuse_pid(pid: int) -> None:
    """Raise ActionError for a PID that is never signalled, whatever its process."""
    if pid < 1:
        raise ActionError(f"{pid} is not a PID")
    if pid == 1:
        raise ActionError("PID 1 is init; killing it would stop the host or container")
    if pid == os.getpid():
        raise ActionError(f"PID {pid} is gpudash itself: quit gpudash instead")


def _refuse_by_pid(process: Process) -> None:
    pid = process.pid
    refuse_pid(pid)
    if process.hidden_reason == EXITED:
        raise ActionError(exited(pid))
    if process.hidden_reason is not None:
        raise ActionError(f"PID {pid} cannot be signalled: {process.hidden_reason}")
    if process.start_ticks is None and process.create_time is None:
        raise ActionError(f"start time of PID {pid} is unknown: it may have been reused")


def _refuse_stranger(process: Process) -> None:
    """Raise if the driver may mean an outside process: it lists PIDs of the host's namespace."""
    if not process.devices or processes.in_first_pid_namespace():
        return
    if not processes.has_device_open(process.pid):
        reason = "the driver means another process, outside this PID namespace"
        raise ActionError(f"PID {process.pid} has no NVIDIA device open here: {reason}")


def _compare(target: Target) -> None:
    """Raise unless the pinned process is the one that the snapshot shows."""
    process = target.process
    pid = process.pid
    stat = processes.read_stat(pid)
    is_same = stat is not None and processes.is_start_of(
        stat, process.start_ticks, process.create_time
    )
    # If it is alive now, it was so when its stat was read, which is thus not a later process's.
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


def named(process: Process) -> str:
    """Return PID and owner: `4242 (alice)`."""
    return f"{process.pid} ({process.username})" if process.username else str(process.pid)


def masked_command(process: Process) -> str:
    """Return the command line without secrets; /proc here still has them."""
    line = process.command_line
    return command(replace(process, command_line=mask_arguments(line)) if line else process)
