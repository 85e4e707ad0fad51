"""A terminal at the other end of a slow link."""

import os
import re
import select
import time
from datetime import datetime
from typing import Any

from tests.e2e.terminal import Terminal

_PIECE_SECONDS = 0.02
_CLOCK = re.compile(r"\b(\d\d:\d\d:\d\d)\b")
_DAY_SECONDS = 86400


class SlowTerminal(Terminal):
    """Shows so many bytes a second; keys and answers come through at once.

    A link with `buffer` takes any number of bytes from the program, as SSH does; one without
    takes no more than it carries, as a serial line does.
    """

    def __init__(
        self, *arguments: Any, bytes_per_second: int, buffer: bool = True, **options: Any
    ) -> None:
        self._rate, self._buffered = bytes_per_second, buffer
        self._piece = max(1, int(bytes_per_second * _PIECE_SECONDS))
        self._queue = bytearray()
        self._due = 0.0
        super().__init__(*arguments, **options)

    @property
    def queued(self) -> int:
        """Bytes that the program has sent and nobody has seen."""
        return len(self._queue)

    @property
    def age(self) -> float:
        """Seconds since the instant that a clock in the first line tells; 0 without one.

        A clock of which only the first of two changed digits has arrived is ahead: 0.
        """
        shown = _CLOCK.search(self.lines[0])
        if shown is None:
            return 0.0
        now = datetime.now()
        then = datetime.strptime(shown[1], "%H:%M:%S").replace(now.year, now.month, now.day)
        age = (now - then).total_seconds() % _DAY_SECONDS
        return age if age < _DAY_SECONDS / 2 else 0.0

    def oldest(self, seconds: float) -> float:
        """Watch the picture for so many seconds and return its greatest age."""
        end, worst = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            self.pump(0.05)
            worst = max(worst, self.age)
        return worst

    def pump(self, timeout: float) -> bool:
        """Show what arrives next within `timeout` seconds; False when nothing did."""
        end = time.monotonic() + timeout
        while self._open:
            self._take()
            now = time.monotonic()
            if self._queue and now >= self._due:
                self._arrive(now)
                return self._open
            if now >= end:
                return False
            wait = max(0.0, min(end, self._due if self._queue else end) - now)
            select.select([self._master] if self._has_room else [], [], [], wait)
        return super().pump(timeout)

    @property
    def _has_room(self) -> bool:
        return self._buffered or not self._queue

    def _take(self) -> None:
        """Take from the program what the link has room for."""
        if not self._has_room or not self.wait_readable(0):
            return
        try:
            data = os.read(self._master, 1 << 16 if self._buffered else self._piece)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._open = bool(data)
        self._queue += data

    def _arrive(self, now: float) -> None:
        piece = bytes(self._queue[: self._piece])
        del self._queue[: self._piece]
        self._due = max(self._due, now - _PIECE_SECONDS) + len(piece) / self._rate
        self._show(piece)
