"""What gpudash can do to a host: signal a process, and never another one of the same PID.

A `Target` is pinned by a pidfd before its start time is compared with the one on the screen, so
a PID that is reused, even while a dialog is open, gets nothing.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from types import TracebackType

from gpudash import proc_stat
from gpudash.errors import ActionError
from gpudash.snapshot import Host, Process
from gpudash.text import clean

_POLL_SECONDS = 0.05
_CLOSED = -1
# seccomp filters of containers answer EPERM to calls that they do not know.
_NO_PIDFD = frozenset({errno.ENOSYS, errno.EPERM})


class Target:
    """One process that was pinned: what is sent reaches it or nobody."""

    def __init__(self, process: Process, descriptor: int | None) -> None:
        self.process = process
        self._descriptor = descriptor

    @property
    def protected(self) -> bool:
        """Whether the kernel pins it; before Linux 5.3 a PID reused within 10 ms is not noticed."""
        return self._descriptor is not None

    def send(self, signal_number: int) -> None:
        """Send a signal.

        Raises ActionError with the reason when it could not be delivered.
        """
        pid = self.process.pid
        if not self.alive():
            raise ActionError(_exited(pid))
        try:
            if self._descriptor is None:
                os.kill(pid, signal_number)
            else:
                signal.pidfd_send_signal(self._descriptor, signal_number)
        except ProcessLookupError:
            raise ActionError(_exited(pid)) from None
        except PermissionError:
            owner = self.process.username or "another user"
            reason = f"not permitted: PID {pid} is owned by {owner}; try sudo gpudash"
            raise ActionError(reason) from None

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        if self._descriptor is not None:
            return not _readable(self._descriptor, 0)
        stat = proc_stat.read(self.process.pid)
        return stat is not None and stat.status != "zombie" and _is_same(self.process, stat)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for its end; return whether it came in time."""
        if self._descriptor is not None:
            return _readable(self._descriptor, timeout_seconds)
        deadline = time.monotonic() + timeout_seconds
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def close(self) -> None:
        """Let go of it: nothing can be sent any more."""
        if self._descriptor is not None and self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def pin(process: Process, host: Host) -> Target:
    """Hold the process that a snapshot shows, to be signalled and closed by the caller.

    Raises ActionError with the reason when it must not or cannot be signalled.
    """
    _refuse_foreign_host(host)
    _refuse_by_pid(process)
    target = Target(process, _open(process.pid))
    try:
        _compare(target)
    except ActionError:
        target.close()
        raise
    return target


def _refuse_foreign_host(host: Host) -> None:
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


def _refuse_by_pid(process: Process) -> None:
    pid = process.pid
    if pid < 1:
        raise ActionError(f"{pid} is not a PID")
    if pid == 1:
        raise ActionError("PID 1 is init: the host or the container would end with it")
    if pid == os.getpid():
        raise ActionError(f"PID {pid} is gpudash itself: quit it instead")
    if process.hidden_reason is not None:
        raise ActionError(f"PID {pid} cannot be signalled: {process.hidden_reason}")
    if process.create_time is None:
        raise ActionError(f"start time of PID {pid} is not known: it might have been reused")


def _open(pid: int) -> int | None:
    """Pin a PID; None where kernel, seccomp or Python offer no pidfd."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):
        raise ActionError(_exited(pid)) from None
    except OSError as error:
        if error.errno in _NO_PIDFD:
            return None
        raise ActionError(f"PID {pid} cannot be pinned: {error.strerror}") from None


def _compare(target: Target) -> None:
    """Raise unless the process that is pinned is the one that the snapshot shows."""
    pid = target.process.pid
    stat = proc_stat.read(pid)
    # Alive now, it was so when its stat was read: that line cannot be a later process's.
    if not target.alive() and (stat is None or _is_same(target.process, stat)):
        raise ActionError(_exited(pid))
    if stat is None:
        raise ActionError(f"PID {pid} cannot be signalled: /proc hides it")
    if not _is_same(target.process, stat):
        raise ActionError(f"PID {pid} now belongs to another process; nothing was sent")
    if stat.is_kernel_thread:
        raise ActionError(f"PID {pid} is a kernel thread: signals do not end it")


def _is_same(process: Process, stat: proc_stat.ProcStat) -> bool:
    boot_time = proc_stat.boot_time()
    if boot_time is None or process.create_time is None:
        return False
    difference = boot_time + stat.started_seconds - process.create_time
    return abs(difference) < proc_stat.TICK_SECONDS / 2


def _readable(descriptor: int, timeout_seconds: float) -> bool:
    """Whether a pidfd says, at once or in time, that its process ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_seconds * 1000))


def _exited(pid: int) -> str:
    return f"PID {pid} already exited; nothing was sent"
