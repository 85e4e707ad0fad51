"""Work in a process apart, which is waited for so long and no longer.

A call into the driver may hang in the kernel where no signal reaches it, and a process with such
a call cannot end: whoever waits for it loses the prompt. What only looks once therefore looks in
a child, and leaves it behind when it is silent.
"""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable

from gpudash.model.errors import DriverError, ExitStatus, GpudashError
from gpudash.system import terminal as stdout
from gpudash.system.fork import Errand, send

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
