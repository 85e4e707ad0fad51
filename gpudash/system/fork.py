"""Work that may never come back, done by a child that is not waited for longer than agreed."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudash.model.errors import ExitStatus
from gpudash.system.prctl import end_with_parent

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
