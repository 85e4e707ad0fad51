"""Children that run our own code, with time limits, and that die with us.

A call into the driver may never return, and a process that the kernel holds cannot be killed. So
such a call is made by a child that can be left behind.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudash.model.errors import (
    DriverError,
    ExitStatus,
    GpudashError,
    ResourceError,
    is_exhausted,
)
from gpudash.system import terminal

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

_CHUNK = 1 << 16
_REAP_SECONDS = 0.2

_GRACE_SECONDS = 2.0
"""How much longer the child may run, to report itself what did not answer."""
_TOTAL_FACTOR = 6
"""The child's total time, as a multiple of the time that it may be silent."""
_ALIVE = b"."
_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)

Work = Callable[[Callable[[], None]], int]
"""Writes to stdout and returns a status; calls its argument as a sign of life."""
Reply = bytes | int | None
"""The result of a call; or how its process ended, negative for a signal; None if too late."""


_kept: list[object] = []
"""Objects called by C code, which must not be freed."""


def end_with_parent(parent: int) -> None:
    """Have the kernel kill us when the parent ends: a hung call would outlast it unseen.

    `parent` is its PID: if our parent is another one by then, it ended before we could ask.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def end_loudly() -> None:
    """Make a library's call of exit() end this process with a message and status 1.

    Only for a process that ends by os._exit, and whose output others read.
    """
    import atexit
    from ctypes import CDLL, CFUNCTYPE

    def report() -> None:
        os.write(2, b"gpudash: the driver's library ended the process that queried it\n")
        os._exit(ExitStatus.FAILURE)

    _kept.append(CFUNCTYPE(None)(report))
    CDLL(None).__cxa_atexit(_kept[-1], None, None)
    # Our own exit, after a traceback, comes first, while there is an interpreter.
    atexit.register(os._exit, ExitStatus.FAILURE)


def set_process_name(name: str) -> None:
    """Set the name shown by `ps` and `top`; the kernel keeps 15 bytes of it."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value, 0, 0, 0)


class _Forked:
    """A forked child that runs a call, and ends with its status, or loudly if it raises.

    It inherits no signal handlers, and ends with us. Raises OSError if the system has no processes
    left.
    """

    def __init__(self, call: Callable[[], int], *, is_detached: bool = False) -> None:
        """Start it; a detached one outlives us, and no signal but SIGKILL ends it."""
        parent = None if is_detached else os.getpid()
        self._status: int | None = None
        # Our handlers must not run in the child, and raise there.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run_child(call, parent, mask)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs.

        0 if unknown: the kernel keeps none if we ignore the exit of children.
        """
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def kill(self) -> None:
        """Kill it, if it is alive, without waiting for its exit."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _run_child(call: Callable[[], int], parent: int | None, mask: Collection[int]) -> NoReturn:
    status = int(ExitStatus.FAILURE)
    try:
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        if parent is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            end_with_parent(parent)
        status = call()
    except BaseException as error:
        if isinstance(error, Exception) and is_exhausted(error):
            # The parent, which has the same shortage, reports the status.
            status = int(ExitStatus.SYSTEM)
        else:
            from traceback import format_exc

            os.write(2, format_exc().encode(errors="replace"))
        raise
    finally:
        # Threads that the call left behind end here.
        os._exit(status)


class ForkedProcess(_Forked):
    """A call in its own session, with pipes like a subprocess.Popen.

    It has none of our open files. There must be no other thread yet. Raises OSError if the system
    has no files or processes left.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        pipes: list[int] = []

        def run() -> int:
            os.setsid()
            for target, descriptor in enumerate((pipes[0], pipes[3], pipes[5])):
                os.dup2(descriptor, target)
            _close_all_but((0, 1, 2), pipes)
            call()
            return ExitStatus.FAILURE

        try:
            for _ in range(3):
                pipes += os.pipe()
            super().__init__(run)
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        for descriptor in (pipes[0], pipes[3], pipes[5]):
            os.close(descriptor)
        self.stdin = os.fdopen(pipes[1], "wb", 0)
        self.stdout, self.stderr = (os.fdopen(pipes[each], "rb", 0) for each in (2, 4))


def detach(call: Callable[[], object], *, keep: Collection[int]) -> None:
    """Run a call in a process that outlives us, in its own session, and is not our child.

    No signal but SIGKILL ends it, and of our open files it has only `keep`. Raises OSError if the
    system has no processes left.
    """

    def run() -> int:
        os.setsid()
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        _close_all_but((0, 1, 2, *keep))
        call()
        return ExitStatus.OK

    def between() -> int:
        _Forked(run, is_detached=True)
        return ExitStatus.OK

    os.waitpid(_Forked(between).pid, 0)


def _close_all_but(kept: Collection[int], ours: Sequence[int] = ()) -> None:
    """Close all other open files, or only `ours` if /proc does not list them."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = [*ours]
    for descriptor in found:
        if descriptor not in kept:
            # The descriptor used for listing them is closed already.
            with suppress(OSError):
                os.close(descriptor)


class ForkedCall(_Forked):
    """A call that gets the descriptor of a pipe for its result; the rest is inherited.

    A child that the kernel holds keeps only the end of a pipe of ours. A library's output goes to
    stderr, and if it ends the child, that is reported there.
    """

    def __init__(self, call: Callable[[int], int]) -> None:
        self.descriptor, end = os.pipe()
        self.output = bytearray()
        """The output so far."""
        self.is_done = False
        """Whether the child has closed its end."""

        def run() -> int:
            os.close(self.descriptor)
            terminal.keep_for_ourselves()
            end_loudly()
            try:
                return call(end)
            finally:
                # Threads stuck in the driver may keep the process from ending, but not the pipe.
                os.close(end)

        try:
            super().__init__(run)
        except OSError:
            os.close(self.descriptor)
            raise
        finally:
            os.close(end)

    def read(self) -> None:
        """Read what has arrived."""
        chunk = os.read(self.descriptor, _CHUNK)
        self.output += chunk
        self.is_done = not chunk

    def status(self) -> int | None:
        """Return the exit status of a child that is about to end, None if it lingers."""
        with suppress(OSError):  # before Linux 5.3
            ending = os.pidfd_open(self.pid)
            poll = select.poll()
            poll.register(ending, select.POLLIN)
            poll.poll(_REAP_SECONDS * 1000)
            os.close(ending)
        return self.poll()


def _read_all(
    calls: Sequence[ForkedCall], seconds: float, *, total_seconds: float | None = None
) -> None:
    """Read until all calls are done or the time is over.

    With `total_seconds`, the time restarts with each output, up to that total.
    """
    poll = select.poll()
    pending = {call.descriptor: call for call in calls}
    for descriptor in pending:
        poll.register(descriptor, select.POLLIN)
    began = time.monotonic()
    deadline = began + seconds
    while pending and (events := poll.poll(max(0.0, deadline - time.monotonic()) * 1000)):
        if total_seconds is not None:
            deadline = min(time.monotonic() + seconds, began + total_seconds)
            if time.monotonic() >= deadline:
                break
        for descriptor, _ in events:
            pending[descriptor].read()
            if pending[descriptor].is_done:
                poll.unregister(descriptor)
                del pending[descriptor]


def call_isolated(calls: Sequence[Callable[[], bytes]], seconds: float) -> list[Reply]:
    """Return the reply of each call; all run at once, each in a child, for at most `seconds`.

    The reply of one without open files, threads or memory left is ExitStatus.SYSTEM.
    """
    children = [ForkedCall(_sending(call)) for call in calls]
    _read_all(children, seconds)
    return [_reply(child) for child in children]


def _sending(call: Callable[[], bytes]) -> Callable[[int], int]:
    def sending(descriptor: int) -> int:
        _send(descriptor, call())
        return ExitStatus.OK

    return sending


def _reply(child: ForkedCall) -> Reply:
    os.close(child.descriptor)
    if not child.is_done:
        child.kill()
        return None
    # A lingering one has closed its end on purpose, so everything has arrived.
    return child.status() or bytes(child.output)


def run_isolated(work: Work, seconds: float, total_seconds: float | None = None) -> int:
    """Do work in a child, write its output, and return its status.

    Raises the child's GpudashError, and DriverError if there is no sign of life for `seconds`, or
    no answer in `total_seconds`, by default a multiple of `seconds`.
    """
    child = ForkedCall(lambda descriptor: _answer(work, descriptor))
    total, began = total_seconds or _TOTAL_FACTOR * seconds, time.monotonic()
    _read_all([child], seconds + _GRACE_SECONDS, total_seconds=total)
    if not child.is_done:
        child.kill()
        waited = total if time.monotonic() - began >= total else seconds
        raise DriverError(
            ExitStatus.NO_ANSWER, f"no answer in {waited:g} s; --timeout waits longer"
        )
    message = bytes(child.output).lstrip(_ALIVE)
    if not message:
        return _crashed(child)
    head, _, rest = message.partition(b"\n")
    status, size = (int(word) for word in head.split())
    if len(rest) < size:
        return _crashed(child)
    terminal.write(rest[:size])
    child.status()
    if size < len(rest):
        error = GpudashError(rest[size:].decode(errors="replace"))
        error.exit_status = status
        raise error
    return status


def _answer(work: Work, descriptor: int) -> int:
    """Do the work, and send `status size`, its output, and its error message if it failed."""
    written, message, sending = terminal.capture(), "", _thread.allocate_lock()

    def alive() -> None:
        if sending.acquire(blocking=False):
            _send(descriptor, _ALIVE)
            sending.release()

    try:
        status = work(alive)
    except GpudashError as error:
        status, message = error.exit_status, str(error)
    except (OSError, MemoryError, RuntimeError) as error:
        if not is_exhausted(error):
            raise
        refusal = ResourceError(error)
        status, message = refusal.exit_status, str(refusal)
    sending.acquire()
    out = b"".join(written)
    _send(descriptor, b"%d %d\n" % (status, len(out)) + out + message.encode(errors="replace"))
    return status


def _send(descriptor: int, data: bytes) -> None:
    """Write everything; exit if the reader is gone."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        os._exit(ExitStatus.BROKEN_PIPE)


def _crashed(child: ForkedCall) -> int:
    """Return the status of a child that ended without an answer, and printed why.

    Raises GpudashError for a signal.
    """
    code = child.status()
    if code == ExitStatus.SYSTEM:
        raise ResourceError(RuntimeError("the child had none left, too, to report it"))
    if code is None or code >= 0:
        return code or ExitStatus.FAILURE
    error = GpudashError(_death(-code))
    error.exit_status = 128 - code
    raise error


def _death(number: int) -> str:
    """Return which signal ended the child, and whether the driver's library crashed."""
    known = number in set(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    if number in _CRASHES:
        return f"the driver's library crashed with {name}"
    killed = f"the process that queried the driver was ended by {name}"
    if number == signal.SIGKILL:
        return f"{killed}; sudo dmesg shows whether memory was short"
    return killed
