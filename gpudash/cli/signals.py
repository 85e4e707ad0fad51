"""Signals: one ends a command at once, lets it clean up, or is noted for a loop.

A one-shot and a collector keep the defaults: Ctrl-C ends even a driver's call.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_SECONDS = 0.001


def exit_on_signals(status: int | None = None) -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise SystemExit, so that open resources are closed.

    The first one decides the status unless one is given, and later ones do not interrupt the
    cleanup. Those that the parent ignored stay ignored.
    """
    numbers = _not_ignored()

    def leave(number: int, _frame: object) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number if status is None else status)

    def dropped(error: sys.UnraisableHookArgs) -> None:
        # Within a callback of a weak reference, of which each import has one: raise it again after.
        if not isinstance(error.exc_value, SystemExit):
            sys.__unraisablehook__(error)
            return
        code = error.exc_value.code
        signal.signal(signal.SIGALRM, lambda *_: sys.exit(code))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    for number in numbers:
        signal.signal(number, leave)
    sys.unraisablehook = dropped


class NotedSignals:
    """Signals noted for a loop, which they wake: `descriptor` is readable after each.

    SIGUSR1 releases the GPUs until the next one. With `ends`, SIGINT, SIGTERM and SIGHUP are noted
    too, unless the parent ignored them.
    """

    def __init__(self, *, ends: bool) -> None:
        self.is_released = False
        self.status: int | None = None
        """The exit status of the first signal that asks to end, None if there was none."""
        self.descriptor, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGUSR1, self._toggle)
        # The screen blocks it until its collector can receive it, and the mask is inherited.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        for number in _not_ignored() if ends else ():
            signal.signal(number, self._note)

    def drain(self) -> None:
        """Make `descriptor` unreadable until the next signal."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 64)

    def _toggle(self, _number: int, _frame: object) -> None:
        self.is_released = not self.is_released

    def _note(self, number: int, _frame: object) -> None:
        self.status = self.status or 128 + number


def _not_ignored() -> list[signal.Signals]:
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
