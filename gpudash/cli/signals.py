"""Signals that commands react to: Ctrl-C, requests to end, and one that is a switch."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def exit_on_ctrl_c() -> None:
    """Let Ctrl-C end this process at once and silently, also within a call that never returns."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SignalToggle:
    """On and off in turn with each signal; `descriptor` becomes readable when one has come."""

    def __init__(self, number: signal.Signals) -> None:
        self.is_on = False
        self.descriptor, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(number, self._turn)
        # The screen blocks it until its collector can take it, and the mask is inherited.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])

    def drain(self) -> None:
        """Make `descriptor` unreadable until the next signal."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 64)

    def _turn(self, _number: int, _frame: object) -> None:
        self.is_on = not self.is_on


class EndSignals:
    """Takes note of SIGINT, SIGTERM and SIGHUP, unless the caller had them ignored."""

    def __init__(self) -> None:
        self.status: int | None = None
        """The exit status of the first that came, None as long as there was none."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self.status = 128 + number
