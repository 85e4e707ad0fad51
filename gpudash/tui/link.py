"""What the way to the terminal carries: bytes without waiting, and no more frames than are seen.

Between a program and a terminal far away lie buffers for megabytes: frames would fill them that
are outdated when they are seen.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import select
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

QUESTION = "\x1b[6n"
"""Where the cursor is, which every terminal answers."""
PARTING_SECONDS = 2.0
"""How long the terminal may take for the last bytes, and for the last answer."""
_REPORT = re.compile(rb"\x1b\[(?:\?\d+;\d*\$y|\d+;\d+(R))")
_CUT_REPORT = re.compile(rb"\x1b(?:\[\??[\d;]*\$?)?\Z")
_LEAST_BYTES, _MOST_BYTES = 200, 3072
"""Between what and what may be on its way while more is sent."""
_WHOLE_BYTES = 1024
"""With room for so many, pictures are sent whole."""
_AHEAD_SECONDS = 0.1
"""What a link may have to carry before it carries what is sent next."""
_SLOWEST_LINK = 10_000
"""Bytes per second, for which a terminal is waited for before it is known whether it answers."""
_PATIENCE_SECONDS = 3.0
"""How long an answer may take before it is given up: a terminal that is attached elsewhere
never gives it."""


SEEN_PER_SECOND = 30.0
"""Frames for a terminal whose answers confirm what it has shown, so that none pile up."""


class FrameLimiter:
    """Lets some frames through at once and the others at a steady rate, as a held key's."""

    def __init__(
        self,
        burst: float = 3.0,
        per_second: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_second = per_second
        self._burst, self._clock = burst, clock
        self._credit, self._since = burst, clock()

    def delay(self) -> float:
        """Return the seconds until a frame may be sent, 0 if it may be now."""
        now = self._clock()
        self._credit = min(self._burst, self._credit + (now - self._since) * self.per_second)
        self._since = now
        return max(0.0, 0.999 - self._credit) / self.per_second

    def spend(self) -> None:
        """Count a frame that was sent."""
        self._credit -= 1.0


class Reports:
    """Counts a terminal's answers about modes and the cursor, wherever a read cut them."""

    def __init__(self) -> None:
        self.due = 0
        """Questions without an answer."""
        self._cut = b""

    def count(self, data: bytes) -> int:
        """Take what was read; return how many answers to `QUESTION` are in it."""
        data = self._cut + data
        cut = _CUT_REPORT.search(data)
        self._cut = cut[0] if cut else b""
        answers: list[bytes] = _REPORT.findall(data)
        self.due -= len(answers)
        return answers.count(b"R")


class _Question(NamedTuple):
    sent: int
    """Bytes that were sent before it."""
    ahead: int
    """How many of them were not seen yet."""
    asked_at: float


class Backlog:
    """What a terminal that answers questions was sent and has not shown yet.

    That a write succeeds does not mean that it is seen; the answer to a question behind it does.
    How much longer the answer takes behind more bytes tells what the link carries.
    """

    def __init__(self, sent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with bytes that were sent before the first question."""
        self._clock = clock
        self._sent, self._seen = sent, 0
        self._questions: deque[_Question] = deque()
        """Those that are not answered yet."""
        self._took: deque[tuple[float, int]] = deque(maxlen=16)
        """The seconds that the last answers took, and the bytes ahead of each."""
        self._heard_at = clock()
        """When the last answer came, or the question that is due was asked."""
        self._answers = False
        self.window = _MOST_BYTES
        """Bytes that may be on their way while more are sent."""

    @property
    def is_asked(self) -> bool:
        """Whether an answer is due that will come."""
        return self._answers and bool(self._questions)

    @property
    def wants_question(self) -> bool:
        """Whether enough was sent since the last question for another one."""
        known = self._questions[-1].sent if self._questions else self._seen
        return self._answers and self._sent - known >= self.window // 3

    @property
    def room(self) -> float:
        """Bytes of a picture that may be sent at once: over a slow link it comes in parts."""
        return math.inf if self.window >= _WHOLE_BYTES else self.window - self._sent + self._seen

    def sent(self, size: int) -> None:
        """Count bytes."""
        self._sent += size

    def asked(self) -> None:
        """Count a question behind all that was sent."""
        now = self._clock()
        if not self._questions:
            self._heard_at = now
        self._questions.append(_Question(self._sent, self._sent - self._seen, now))

    def answered(self) -> None:
        """Take an answer: all before the first question is shown."""
        self._answers, self._heard_at = True, self._clock()
        if self._questions:
            question = self._questions.popleft()
            self._seen = question.sent
            self._took.append((self._heard_at - question.asked_at, question.ahead))
            self._measure()

    def _measure(self) -> None:
        """Set the window by what the link carries, as far as that is known."""
        fastest, least = min(self._took)
        rates = sorted(
            (size - least) / max(seconds - fastest, 1e-3)
            for seconds, size in self._took
            if size - least >= min(_LEAST_BYTES, self.window // 2)
        )
        if rates:
            window = round(rates[len(rates) // 2] * _AHEAD_SECONDS)
            self.window = max(_LEAST_BYTES, min(_MOST_BYTES, window))

    def delay(self) -> float:
        """Return the seconds for which an answer is waited for, 0 if a frame may be sent now."""
        if not self._questions or self._sent - self._seen < self.window:
            return 0.0
        seconds = _PATIENCE_SECONDS
        if not self._answers:
            seconds = min(seconds, self._questions[0].sent / _SLOWEST_LINK)
        delay = self._heard_at + seconds - self._clock()
        if delay > 0:
            return delay
        self._questions.clear()
        self._seen = self._sent
        return 0.0


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
