"""Work in a process apart, which is waited for so long and no longer.

A call into the driver may hang in the kernel where no signal reaches it, and a process with such
a call cannot end: whoever waits for it loses the prompt. What only looks once therefore looks in
a child, and leaves it behind when it is silent.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from gpudash import stdout
from gpudash.errors import DriverError, ExitStatus, GpudashError

Work = Callable[[Callable[[], None]], int]
"""Writes to stdout and returns a status; what it is given is to be called at signs of life."""

_GRACE_SECONDS = 2.0
"""For how long the child may be silent beyond its time: it says itself what did not answer."""
_REAP_SECONDS = 0.2
_CHUNK = 1 << 16
_PR_SET_PDEATHSIG = 1
_ALIVE = b"."


def run(work: Work, seconds: float) -> int:
    """Do work in a child, write what it wrote, and return its status.

    Raises the child's GpudashError, and DriverError when there is no sign of life for `seconds`.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _end_with_parent()
        _answer(work, writing)
    os.close(writing)
    message = _listen(reading, seconds + _GRACE_SECONDS)
    if message is None:
        os.kill(pid, signal.SIGKILL)
        raise DriverError(
            ExitStatus.NO_ANSWER, f"no answer in {seconds:g} s; --timeout waits longer"
        )
    if not message:
        return _crashed(pid)
    head, _, rest = message.partition(b"\n")
    status, size = (int(word) for word in head.split())
    stdout.write(rest[:size])
    _reap(pid)
    if size < len(rest):
        error = GpudashError(rest[size:].decode(errors="replace"))
        error.exit_status = status
        raise error
    return status


def _answer(work: Work, descriptor: int) -> NoReturn:
    """Do the work, and send `status size`, what it wrote, and its last words if it failed."""
    written, words, talking = stdout.keep(), "", _thread.allocate_lock()

    def alive() -> None:
        if talking.acquire(blocking=False):
            _send(descriptor, _ALIVE)
            talking.release()

    try:
        status = work(alive)
    except GpudashError as error:
        status, words = error.exit_status, str(error)
    talking.acquire()
    out = b"".join(written)
    _send(descriptor, b"%d %d\n" % (status, len(out)) + out + words.encode(errors="replace"))
    # Threads that are stuck in the driver may keep this process, but not the pipe, from ending.
    os.close(descriptor)
    os._exit(status)


def _end_with_parent() -> None:
    """Let the kernel kill us when the parent ends: a hung call would outlast it unseen."""
    from ctypes import CDLL

    CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _send(descriptor: int, data: bytes) -> None:
    """Write all of it, or leave: nobody is left who would read it."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        os._exit(ExitStatus.BROKEN_PIPE)


def _listen(descriptor: int, seconds: float) -> bytes | None:
    """Read until the end; None when nothing came for so long."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    chunks: list[bytes] = []
    while poll.poll(seconds * 1000):
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return b"".join(chunks).lstrip(_ALIVE)
        chunks.append(chunk)
    return None


def _crashed(pid: int) -> int:
    """Return the status of a child that ended without an answer; raises for a signal."""
    code = _reap(pid)
    if code is None or code >= 0:
        return ExitStatus.FAILURE if code is None else code
    error = GpudashError(f"the driver's library crashed with {signal.Signals(-code).name}")
    error.exit_status = 128 - code
    raise error


def _reap(pid: int) -> int | None:
    """Return the exit status of a child that is about to end, None if it lingers."""
    with suppress(OSError):  # before Linux 5.3
        ending = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(ending, select.POLLIN)
        poll.poll(_REAP_SECONDS * 1000)
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None
