"""Bytes on their way to the terminal, sent from the event loop without ever waiting for it."""

from __future__ import annotations

import os
import select
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable

_PARTING_SECONDS = 2.0


class Outlet:
    """Writes at once what the terminal takes; the rest follows when it takes more."""

    def __init__(
        self, descriptor: int, loop: AbstractEventLoop, on_free: Callable[[], None]
    ) -> None:
        """Write to what a descriptor stands for; `on_free` is called when all that waited left."""
        # A description of its own: not to wait is a property of the description, and the one
        # behind standard output is shared with the shell. Raises OSError where that is forbidden.
        path = f"/proc/self/fd/{descriptor}"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self._loop, self._on_free = loop, on_free
        self._waiting = b""

    @property
    def busy(self) -> bool:
        """Whether something is still on its way."""
        return bool(self._waiting)

    def write(self, data: str) -> int:
        """Send data behind all that waits, and return how many bytes that is."""
        encoded = data.encode("utf-8", "replace")
        if self._waiting:
            self._waiting += encoded
            return len(encoded)
        self._waiting = self._taken_from(encoded)
        if self._waiting:
            self._loop.add_writer(self._descriptor, self._resume)
        return len(encoded)

    def close(self) -> None:
        """Send the rest, for which a terminal has two seconds, and let go."""
        if self._waiting and not self._loop.is_closed():
            self._loop.remove_writer(self._descriptor)
        self.drain(time.monotonic() + _PARTING_SECONDS)
        os.close(self._descriptor)

    def drain(self, end: float) -> None:
        """Send the rest now, as far as the terminal takes it by an instant of the clock."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while self._waiting and (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self._waiting = self._taken_from(self._waiting)

    def _resume(self) -> None:
        self._waiting = self._taken_from(self._waiting)
        if not self._waiting:
            self._loop.remove_writer(self._descriptor)
            self._on_free()

    def _taken_from(self, data: bytes) -> bytes:
        """Send what the terminal takes now and return what it does not."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                return data
            except OSError:
                # The terminal is gone; whoever reads from it ends the process.
                return b""
        return b""
