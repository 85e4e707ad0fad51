"""Children that run our own code: bounded in time, and dead as soon as we are.

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
"""How long the child may exceed its time, to report itself what did not answer."""
_TOTAL_FACTOR = 6
"""How many times as long as it may be silent the child may take altogether."""
_ALIVE = b"."
_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)

Work = Callable[[Callable[[], None]], int]
"""Writes to stdout and returns a status; calls its argument as a sign of life."""
Reply = bytes | int | None
"""What a call returned; how its process ended instead, negative for a signal; None: too late."""


_kept: list[object] = []
"""What C code calls, which must not be freed."""


def end_with_parent(parent: int) -> None:
    """Let the kernel kill us when the parent ends: a hung call would outlast it unseen.

    `parent` is its PID: where we have another one by then, it has ended before we could ask.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def end_loudly() -> None:
    """Let a library that calls exit() end this process with a message and status 1.

    Only for a process that ends by os._exit, and that is read by others.
    """
    import atexit
    from ctypes import CDLL, CFUNCTYPE

    def report() -> None:
        os.write(2, b"gpudash: the driver's library ended the process that queried it\n")
        os._exit(ExitStatus.FAILURE)

    _kept.append(CFUNCTYPE(None)(report))
    CDLL(None).__cxa_atexit(_kept[-1], None, None)
    # Ours, after a traceback, comes first, while there is an interpreter.
    atexit.register(os._exit, ExitStatus.FAILURE)


def set_process_name(name: str) -> None:
    """Set the name that `ps` and `top` show, of which the kernel keeps 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value, 0, 0, 0)


class _Forked:
    """A forked child that runs a call, and ends with its status, or loudly if it raises.

    It inherits no handler of a signal, and ends with us. Raises OSError where the system gives no
    process.
    """

    def __init__(self, call: Callable[[], int], *, is_detached: bool = False) -> None:
        """Start it; one that is detached outlives us, and no signal but SIGKILL ends it."""
        parent = None if is_detached else os.getpid()
        self._status: int | None = None
        # A handler of ours must not run in the child, and raise there.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run_child(call, parent, mask)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs.

        0 where it cannot be known: the kernel keeps none if we ignore the end of children.
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
        """Kill it, if it is alive, and do not wait until it is dead."""
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
            # The parent, which is as short of it, reports the status.
            status = int(ExitStatus.SYSTEM)
        else:
            from traceback import format_exc

            os.write(2, format_exc().encode(errors="replace"))
        raise
    finally:
        # Threads that the call left behind end here.
        os._exit(status)


class ForkedProcess(_Forked):
    """A call in a session of its own, with pipes as a subprocess.Popen has them.

    It has no open file of ours. There must be no other thread yet. Raises OSError where the
    system gives no file or process.
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
    """Run a call in a process that outlives us, in a session of its own, and is no child of ours.

    No signal but SIGKILL ends it, and of our open files it has `keep` alone. Raises OSError where
    the system gives no process.
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
    """Close all other open files, or only `ours` where /proc does not list them."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = [*ours]
    for descriptor in found:
        if descriptor not in kept:
            # The one by which they were listed is closed already.
            with suppress(OSError):
                os.close(descriptor)


class ForkedCall(_Forked):
    """A call that is given the descriptor of a pipe for its result; all else is as it was here.

    A child that the kernel holds keeps nothing of ours but the end of a pipe. What a library
    prints there goes to stderr, and where it ends the child, that is reported there.
    """

    def __init__(self, call: Callable[[int], int]) -> None:
        self.descriptor, end = os.pipe()
        self.output = bytearray()
        """What has arrived."""
        self.is_done = False
        """Whether the child has closed its end."""

        def run() -> int:
            os.close(self.descriptor)
            terminal.keep_for_ourselves()
            end_loudly()
            try:
                return call(end)
            finally:
                # Threads stuck in the driver may keep the process, but not the pipe, from ending.
                os.close(end)

        try:
            super().__init__(run)
        except OSError:
            os.close(self.descriptor)
            raise
        finally:
            os.close(end)

    def read(self) -> None:
        """Take what has arrived."""
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
    """Read until all calls are done or the seconds are over.

    With `total_seconds` they are counted from the last output, up to that many altogether.
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
    """Return the reply of each call; all run at once, each in a child, for `seconds` at most.

    The reply of one that had no open file, thread or memory left is ExitStatus.SYSTEM.
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
    # One that lingers has closed its end of its own accord: all has arrived.
    return child.status() or bytes(child.output)


def run_isolated(work: Work, seconds: float, total_seconds: float | None = None) -> int:
    """Do work in a child, write what it wrote, and return its status.

    Raises the child's GpudashError, and DriverError when there is no sign of life for `seconds`,
    or no answer in `total_seconds`, by default some times as many.
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
    """Do the work, and send `status size`, what it wrote, and its error message if it failed."""
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
    """Write all of it; exit if the reader has gone."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        os._exit(ExitStatus.BROKEN_PIPE)


def _crashed(child: ForkedCall) -> int:
    """Return the status of a child that ended without an answer, and has printed why.

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
    """Return how a signal ended the child, and whether the driver's library crashed."""
    known = number in set(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    if number in _CRASHES:
        return f"the driver's library crashed with {name}"
    killed = f"the process that queried the driver was ended by {name}"
    if number == signal.SIGKILL:
        return f"{killed}; sudo dmesg shows whether memory was short"
    return killed
