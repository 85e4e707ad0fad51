"""What the way to the terminal carries: bytes without waiting, and no more frames than are seen.

Between a program and a terminal far away lie buffers for megabytes: frames would fill them that
are outdated when they are seen.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections.abc import Callable

QUESTION = "\x1b[?2026$p"
"""Whether the terminal knows synchronized output, which Textual wants to know too."""
ANSWER = b"\x1b[?2026;"
PARTING_SECONDS = 2.0
"""How long the terminal may take for the last bytes, and for the last answer."""
_ASK_BYTES = 2048
_MAX_UNSEEN_BYTES = 4096
"""What may be on its way while more is sent: 0.4 s of a link with 10 KB/s."""
_PATIENCE_SECONDS = 3.0
"""After which frames are sent again; no question is, until the last one is answered."""


class FrameLimiter:
    """Lets some frames through at once and the others at a steady rate, as a held key's."""

    def __init__(
        self,
        burst: float = 3.0,
        per_second: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._credit, self._since = burst, clock()

    def delay(self) -> float:
        """Return the seconds until a frame may be sent, 0 if it may be now."""
        now = self._clock()
        self._credit = min(self._burst, self._credit + (now - self._since) * self._per_second)
        self._since = now
        return max(0.0, 0.999 - self._credit) / self._per_second

    def spend(self) -> None:
        """Count a frame that was sent."""
        self._credit -= 1.0


class Backlog:
    """What a terminal that answers questions was sent and has not shown yet.

    That a write succeeds does not mean that it is seen; the answer to a question behind it does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unseen = self._behind_question = 0
        self._answers = False
        self._asked_at: float | None = None

    @property
    def is_asked(self) -> bool:
        """Whether an answer is due."""
        return self._asked_at is not None

    def sent(self, size: int) -> bool:
        """Count bytes; return whether a question is to follow them."""
        self._unseen += size
        self._behind_question += size
        return self._ask()

    def answered(self) -> bool:
        """Take an answer: all before its question is shown; return whether another is to follow."""
        self._answers = True
        self._unseen, self._asked_at = self._behind_question, None
        return self._ask()

    def delay(self) -> float:
        """Return the seconds for which an answer is waited for, 0 if a frame may be sent now."""
        if self._asked_at is None or self._unseen < _MAX_UNSEEN_BYTES:
            return 0.0
        return max(0.0, self._asked_at + _PATIENCE_SECONDS - self._clock())

    def _ask(self) -> bool:
        if not self._answers or self.is_asked or self._unseen < _ASK_BYTES:
            return False
        self._asked_at, self._behind_question = self._clock(), 0
        return True


class NonBlockingWriter:
    """Writes at once what the terminal takes; the rest follows when it takes more."""

    def __init__(
        self, descriptor: int, loop: asyncio.AbstractEventLoop, on_free: Callable[[], None]
    ) -> None:
        """Write to what a descriptor stands for; `on_free` is called when all that waited left."""
        # A description of its own: not to wait is a property of the description, and the one
        # behind standard output is shared with the shell.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self._descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            # A terminal of another user cannot be opened again; writing to it may wait.
            self._descriptor = os.dup(descriptor)
        self._loop, self._on_free = loop, on_free
        self._waiting = b""

    @property
    def busy(self) -> bool:
        """Whether something is still waiting to be written."""
        return bool(self._waiting)

    def write(self, data: str) -> None:
        """Send data behind all that waits."""
        encoded = data.encode("utf-8", "replace")
        if self._waiting:
            self._waiting += encoded
            return
        self._waiting = self._remainder(encoded)
        if self._waiting:
            self._loop.add_writer(self._descriptor, self._resume)

    def close(self) -> None:
        """Send the rest, for which the terminal has two seconds, and let go."""
        if self._waiting and not self._loop.is_closed():
            self._loop.remove_writer(self._descriptor)
        self.drain(time.monotonic() + PARTING_SECONDS)
        os.close(self._descriptor)

    def drain(self, end: float) -> None:
        """Send the rest now, as far as the terminal takes it by an instant of the clock."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while self._waiting and (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self._waiting = self._remainder(self._waiting)

    def _resume(self) -> None:
        self._waiting = self._remainder(self._waiting)
        if not self._waiting:
            self._loop.remove_writer(self._descriptor)
            self._on_free()

    def _remainder(self, data: bytes) -> bytes:
        """Send what the terminal takes now and return what it does not."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                return data
            except OSError:
                # The terminal is gone; reading from it ends the process.
                return b""
        return b""
