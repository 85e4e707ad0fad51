"""Flow control of the terminal's link: output that never waits, and only frames that are seen.

Buffers of megabytes may lie between a program and a distant terminal: they would fill with frames
that are outdated when they are seen.
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
"""Asks for the position of the cursor, which every terminal answers."""
PARTING_SECONDS = 2.0
"""How long the terminal may take for the last bytes, and for the last answer."""
_REPORT = re.compile(rb"\x1b\[(?:\?\d+;\d*\$y|\d+;\d+(R))")
_CUT_REPORT = re.compile(rb"\x1b(?:\[\??[\d;]*\$?)?\Z")
_LEAST_BYTES, _MOST_BYTES = 200, 3072
"""Limits of the bytes that may be in transit while more are sent."""
_WHOLE_BYTES = 1024
"""With room for this many, pictures are sent whole."""
_AHEAD_SECONDS = 0.1
"""How far ahead of the link bytes are sent."""
_SLOWEST_LINK = 10_000
"""Bytes per second, for waiting for a terminal before it is known to answer."""
_PATIENCE_SECONDS = 3.0
"""How long to wait for an answer: a terminal attached elsewhere never sends one."""


SEEN_PER_SECOND = 30.0
"""Frames for a terminal whose answers confirm what it has shown, so that none pile up."""


class FrameLimiter:
    """Passes some frames at once and the others at a steady rate, as for a held key."""

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
        """Return the seconds until a frame may be sent, 0 for now."""
        now = self._clock()
        self._credit = min(self._burst, self._credit + (now - self._since) * self.per_second)
        self._since = now
        return max(0.0, 0.999 - self._credit) / self.per_second

    def spend(self) -> None:
        """Count a sent frame."""
        self._credit -= 1.0


class Reports:
    """Counts a terminal's answers about modes and the cursor, even if split between reads."""

    def __init__(self) -> None:
        self.due = 0
        """Unanswered questions."""
        self._cut = b""

    def count(self, data: bytes) -> int:
        """Process input; return how many answers to `QUESTION` it contains."""
        data = self._cut + data
        cut = _CUT_REPORT.search(data)
        self._cut = cut[0] if cut else b""
        answers: list[bytes] = _REPORT.findall(data)
        self.due -= len(answers)
        return answers.count(b"R")


class _Question(NamedTuple):
    sent: int
    """Bytes sent before it."""
    ahead: int
    """How many of them had not been seen."""
    asked_at: float


class Backlog:
    """What was sent to a terminal that answers questions, and not shown yet.

    A successful write does not mean that it was seen; the answer to a question after it does. How
    much longer the answer takes after more bytes shows the speed of the link.
    """

    def __init__(self, sent: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the number of bytes sent before the first question."""
        self._clock = clock
        self._sent, self._seen = sent, 0
        self._questions: deque[_Question] = deque()
        """Unanswered questions."""
        self._took: deque[tuple[float, int]] = deque(maxlen=16)
        """The seconds that the last answers took, and the bytes ahead of each."""
        self._heard_at = clock()
        """Time of the last answer, or of the first unanswered question."""
        self._answers = False
        self.window = _MOST_BYTES
        """Bytes that may be in transit while more are sent."""

    @property
    def is_asked(self) -> bool:
        """Whether an answer is expected."""
        return self._answers and bool(self._questions)

    @property
    def wants_question(self) -> bool:
        """Whether enough was sent since the last question for another one."""
        known = self._questions[-1].sent if self._questions else self._seen
        return self._answers and self._sent - known >= self.window // 3

    @property
    def room(self) -> float:
        """Bytes of a picture that may be sent at once: a slow link gets it in parts."""
        return math.inf if self.window >= _WHOLE_BYTES else self.window - self._sent + self._seen

    def sent(self, size: int) -> None:
        """Count bytes."""
        self._sent += size

    def asked(self) -> None:
        """Count a question after everything sent."""
        now = self._clock()
        if not self._questions:
            self._heard_at = now
        self._questions.append(_Question(self._sent, self._sent - self._seen, now))

    def answered(self) -> None:
        """Process an answer: everything before the first question has been shown."""
        self._answers, self._heard_at = True, self._clock()
        if self._questions:
            question = self._questions.popleft()
            self._seen = question.sent
            self._took.append((self._heard_at - question.asked_at, question.ahead))
            self._measure()

    def _measure(self) -> None:
        """Set the window by the speed of the link, as far as known."""
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
        """Return how many seconds to wait for an answer, 0 if a frame may be sent now."""
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
    """Writes as much as the terminal accepts; the rest follows when it accepts more."""

    def __init__(
        self, descriptor: int, loop: asyncio.AbstractEventLoop, on_free: Callable[[], None]
    ) -> None:
        """Write to a descriptor's file; `on_free` is called when everything pending was sent."""
        # With an open file description of its own, as nonblocking mode belongs to that, and the one
        # of standard output is shared with the shell.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self._descriptor = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            # Another user's terminal cannot be opened again; writing to it may block.
            self._descriptor = os.dup(descriptor)
        self._loop, self._on_free = loop, on_free
        self._waiting = b""

    @property
    def busy(self) -> bool:
        """Whether data are pending."""
        return bool(self._waiting)

    def write(self, data: str) -> None:
        """Send data after everything pending."""
        encoded = data.encode("utf-8", "replace")
        if self._waiting:
            self._waiting += encoded
            return
        self._waiting = self._remainder(encoded)
        if self._waiting:
            self._loop.add_writer(self._descriptor, self._resume)

    def close(self) -> None:
        """Send the rest, for at most two seconds, and close."""
        if self._waiting and not self._loop.is_closed():
            self._loop.remove_writer(self._descriptor)
        self.drain(time.monotonic() + PARTING_SECONDS)
        os.close(self._descriptor)

    def drain(self, end: float) -> None:
        """Send the rest now, as far as the terminal accepts it by an instant of the clock."""
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
        """Send what the terminal accepts now, and return the rest."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                return data
            except OSError:
                # The terminal is gone; reading from it ends the process.
                return b""
        return b""
