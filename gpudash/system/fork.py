"""Work that may never come back, done by a child that is not waited for longer than agreed."""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudash.model.errors import DriverError, ExitStatus, GpudashError
from gpudash.system import terminal as stdout

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def end_with_parent(parent: int) -> None:
    """Let the kernel kill us when the parent ends: a hung call would outlast it unseen.

    `parent` is its PID: where we have another one by then, it has ended before we could ask.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def take_name(name: str) -> None:
    """Be called so by `ps` and `top`, of which the kernel keeps 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value, 0, 0, 0)


_CHUNK = 1 << 16
_REAP_SECONDS = 0.2


class Errand:
    """A call in a forked child, which is given a descriptor for what it has to say.

    A child held by the kernel cannot be killed, so it is left behind instead; it holds nothing of
    ours but the end of a pipe.
    """

    def __init__(self, call: Callable[[int], int]) -> None:
        self.descriptor, end = os.pipe()
        parent = os.getpid()
        self.is_done = False
        """Whether the child has closed its end."""
        self._parts: list[bytes] = []
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.descriptor)
            _carry_out(call, end, parent)
        os.close(end)

    @property
    def said(self) -> bytes:
        """What has arrived."""
        return b"".join(self._parts)

    def read(self) -> None:
        """Take what has arrived."""
        chunk = os.read(self.descriptor, _CHUNK)
        self._parts.append(chunk)
        self.is_done = not chunk

    def listen(self, seconds: float) -> bool:
        """Read until the end; False when nothing came for so long."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while not self.is_done and poll.poll(seconds * 1000):
            self.read()
        return self.is_done

    def leave(self) -> None:
        """Kill the child, and do not wait until it is dead."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, os.WNOHANG)

    def reap(self) -> int | None:
        """Return the exit status of a child that is about to end, None if it lingers."""
        with suppress(OSError):  # before Linux 5.3
            ending = os.pidfd_open(self._pid)
            poll = select.poll()
            poll.register(ending, select.POLLIN)
            poll.poll(_REAP_SECONDS * 1000)
            os.close(ending)
        done, status = os.waitpid(self._pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None


Reply = bytes | int | None
"""What a call returned; how it ended instead, negative for a signal; None if it took too long."""


def results(calls: Sequence[Callable[[], bytes]], timeout_seconds: float) -> list[Reply]:
    """Return the reply of each call; all run at once."""
    deadline = time.monotonic() + timeout_seconds
    errands = [Errand(_handing_over(call)) for call in calls]
    poll = select.poll()
    under_way = {errand.descriptor: errand for errand in errands}
    for descriptor in under_way:
        poll.register(descriptor, select.POLLIN)
    while under_way:
        events = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not events:
            break
        for descriptor, _ in events:
            errand = under_way[descriptor]
            errand.read()
            if errand.is_done:
                poll.unregister(descriptor)
                del under_way[descriptor]
    return [_result(errand) for errand in errands]


def send(descriptor: int, data: bytes) -> None:
    """Write all of it, or leave: nobody is left who would read it."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        os._exit(ExitStatus.BROKEN_PIPE)


def _handing_over(call: Callable[[], bytes]) -> Callable[[int], int]:
    def handing_over(descriptor: int) -> int:
        send(descriptor, call())
        return 0

    return handing_over


def _result(errand: Errand) -> Reply:
    os.close(errand.descriptor)
    if not errand.is_done:
        errand.leave()
        return None
    # One that lingers has closed its end of its own accord: all was said.
    return errand.reap() or errand.said


def _carry_out(call: Callable[[int], int], end: int, parent: int) -> NoReturn:
    """Make the call and end at once, whatever it has left behind."""
    status = 1
    try:
        end_with_parent(parent)
        status = call(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        # Threads that are stuck in the driver may keep this process, but not the pipe, from ending.
        os.close(end)
        os._exit(status)


class Forked:
    """A call in a session of its own with pipes, to be handled as a subprocess.Popen is.

    It inherits neither a handler of a signal nor an open file, and ends with us. There must be no
    other thread yet. Raises OSError where the system gives no file or process.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        pipes: list[int] = []
        parent = os.getpid()
        # A handler of ours must not run in the child, and raise there.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for _ in range(3):
                pipes += os.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                _go_on(call, parent, pipes, held)
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        its_in, into, out, its_out, err, its_err = pipes
        for descriptor in (its_in, its_out, its_err):
            os.close(descriptor)
        self.stdin = os.fdopen(into, "wb", 0)
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(err, "rb", 0)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs.

        0 where nobody can know: the kernel keeps no status where we ignore the end of children.
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
        """Kill it, if it is alive."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _go_on(
    call: Callable[[], object], parent: int, pipes: Sequence[int], mask: Collection[int]
) -> NoReturn:
    """Be a process of our own on these pipes, and end with the call, loudly if it raises."""
    try:
        os.setsid()
        its_in, _, _, its_out, _, its_err = pipes
        for target, descriptor in enumerate((its_in, its_out, its_err)):
            os.dup2(descriptor, target)
        _close_all_but_standard(pipes)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        end_with_parent(parent)
        call()
    except BaseException:
        from traceback import format_exc

        os.write(2, format_exc().encode(errors="replace"))
        raise
    finally:
        os._exit(ExitStatus.FAILURE)


def _close_all_but_standard(ours: Sequence[int]) -> None:
    """Close what is open, or our own where /proc does not tell what is."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = [*ours]
    for descriptor in found:
        if descriptor > 2:
            # That by which they were listed is closed already.
            with suppress(OSError):
                os.close(descriptor)


Work = Callable[[Callable[[], None]], int]
"""Writes to stdout and returns a status; what it is given is to be called at signs of life."""

_GRACE_SECONDS = 2.0
"""For how long the child may be silent beyond its time: it says itself what did not answer."""
_ALIVE = b"."
_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
)


def run(work: Work, seconds: float) -> int:
    """Do work in a child, write what it wrote, and return its status.

    Raises the child's GpudashError, and DriverError when there is no sign of life for `seconds`.
    """
    errand = Errand(lambda descriptor: _answer(work, descriptor))
    if not errand.listen(seconds + _GRACE_SECONDS):
        errand.leave()
        raise DriverError(
            ExitStatus.NO_ANSWER, f"no answer in {seconds:g} s; --timeout waits longer"
        )
    message = errand.said.lstrip(_ALIVE)
    if not message:
        return _crashed(errand)
    head, _, rest = message.partition(b"\n")
    status, size = (int(word) for word in head.split())
    if len(rest) < size:
        return _crashed(errand)
    stdout.write(rest[:size])
    errand.reap()
    if size < len(rest):
        error = GpudashError(rest[size:].decode(errors="replace"))
        error.exit_status = status
        raise error
    return status


def _answer(work: Work, descriptor: int) -> int:
    """Do the work, and send `status size`, what it wrote, and its last words if it failed."""
    written, words, talking = stdout.keep(), "", _thread.allocate_lock()

    def alive() -> None:
        if talking.acquire(blocking=False):
            send(descriptor, _ALIVE)
            talking.release()

    try:
        status = work(alive)
    except GpudashError as error:
        status, words = error.exit_status, str(error)
    talking.acquire()
    out = b"".join(written)
    send(descriptor, b"%d %d\n" % (status, len(out)) + out + words.encode(errors="replace"))
    return status


def _fate(number: int) -> str:
    """Return what a signal that ended the child says about the driver's library."""
    known = number in set(signal.Signals)
    name = signal.Signals(number).name if known else f"signal {number}"
    if number in _CRASHES:
        return f"the driver's library crashed with {name}"
    told = f"what looked at the driver was ended by {name}"
    is_killed = number == signal.SIGKILL
    return f"{told}; sudo dmesg tells whether memory was short" if is_killed else told


def _crashed(errand: Errand) -> int:
    """Return the status of a child that ended without an answer; raises for a signal."""
    code = errand.reap()
    if code is None or code >= 0:
        return code or ExitStatus.FAILURE
    error = GpudashError(_fate(-code))
    error.exit_status = 128 - code
    raise error
