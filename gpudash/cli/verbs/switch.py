"""A signal that turns something on, and off again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class Switch:
    """On and off by turns with each signal; `descriptor` can be read when one has come."""

    def __init__(self, number: signal.Signals) -> None:
        self.is_on = False
        self.descriptor, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(number, self._turn)
        # Whoever started us may have kept it off for a while, and the mask is inherited.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])

    def read(self) -> None:
        """Take note of the signals that have come."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 64)

    def _turn(self, _number: int, _frame: object) -> None:
        self.is_on = not self.is_on
