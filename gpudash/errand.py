"""Work that may never come back, done by a child that is not waited for longer than agreed."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence

_CHUNK = 1 << 16


class Errand:
    """A call in a forked child: what it returns comes back through a pipe.

    A child held by the kernel cannot be killed, so it is left behind instead; it holds nothing of
    ours but the end of a pipe.
    """

    def __init__(self, call: Callable[[], bytes]) -> None:
        self.descriptor, end = os.pipe()
        self._parts: list[bytes] = []
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.descriptor)
            _carry_out(call, end)
        os.close(end)
        self.is_done = False

    def read(self) -> None:
        """Take what has arrived; it is done when the child has closed its end."""
        chunk = os.read(self.descriptor, _CHUNK)
        self._parts.append(chunk)
        self.is_done = not chunk

    def result(self) -> bytes | None:
        """Return what the call returned, None when it has not come back or came to nothing."""
        os.close(self.descriptor)
        if not self.is_done:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, os.WNOHANG)
            return None
        _, status = os.waitpid(self._pid, 0)
        return b"".join(self._parts) if status == 0 else None


def results(calls: Sequence[Callable[[], bytes]], timeout_seconds: float) -> list[bytes | None]:
    """Return what each call returns, None for one that failed or took longer; all run at once."""
    deadline = time.monotonic() + timeout_seconds
    errands = [Errand(call) for call in calls]
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
    return [errand.result() for errand in errands]


def _carry_out(call: Callable[[], bytes], end: int) -> None:
    """Make the call, hand over what it returns and end at once, whatever it has left behind."""
    status = 1
    try:
        rest = call()
        while rest:
            rest = rest[os.write(end, rest) :]
        status = 0
    finally:
        os._exit(status)
