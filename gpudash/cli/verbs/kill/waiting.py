"""What the shell says while a strike takes its time, and when Ctrl-C ends the wait for it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection, Iterable, Sequence

from gpudash.actions.kill.pin import Target, named
from gpudash.actions.kill.run import Sending
from gpudash.actions.kill.signals import Signal
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal

_END_SECONDS = 1.0
"""An end that comes sooner is told by the result alone."""

_MEMORY_SECONDS = 3.0
"""The same of memory: the driver lets go of it later, and samples tell so later still."""

_RESULT_SECONDS = 1.0
"""For a result to be told that is known when Ctrl-C comes."""


class Waiting:
    """Keeps in mind what is waited for and what was sent; speaks on stderr."""

    def __init__(self, chosen: Signal) -> None:
        self._signal = chosen
        self._sent: list[Target] = []
        self._text, self._due, self._patience = "", 0.0, _END_SECONDS
        self._is_sent = threading.Event()
        self._telling = threading.Lock()
        """Held by whoever has the last word: Ctrl-C, or the result."""
        self._over = self._closing = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._mask: Collection[int] = ()

    def say(self, text: str) -> None:
        """Take what is waited for from now on, in words: the end, then the memory."""
        self._text, self._due = text, time.monotonic() + self._patience
        self._patience = _MEMORY_SECONDS

    def sent(self, sendings: Sequence[Sending]) -> None:
        """Take note of what was sent."""
        for each in sendings:
            if each.refusal is None and each.target not in self._sent:
                self._sent.append(each.target)
        self._is_sent.set()

    def pass_on(self) -> None:
        """Say once what is waited for, if that has lasted for a moment."""
        if self._text and time.monotonic() >= self._due:
            terminal.show_progress(f"{self._text}\n")
            self._text = ""

    def obey_ctrl_c(self) -> None:
        """Have Ctrl-C say what was sent before it ends us.

        That is done in a thread: the one that waits may be held for ever, by a home that does not
        answer as its record is written, and runs no handler then.
        """
        interrupt = {signal.SIGINT}
        # In all threads: it would end us silently in one that lets it through.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, interrupt)
        self._thread = threading.Thread(target=self._await, args=(interrupt,), daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leave it to the result to say what came of it."""
        with self._telling:
            self._over = True

    def close(self) -> None:
        """Leave Ctrl-C to others, once the result is told."""
        if self._thread is None or self._thread.ident is None:
            return
        self._over = self._closing = True
        self._is_sent.set()
        # It waits for a signal; and then, so that it is there to be woken, until we are closed.
        signal.pthread_kill(self._thread.ident, signal.SIGINT)
        self._closed.set()
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _await(self, interrupt: Iterable[int]) -> None:
        signal.sigwait(interrupt)
        # Who was stopped so that a tree goes as a whole must get its signal.
        self._is_sent.wait()
        with self._telling:
            if not self._over:
                # The terminal has put ^C where the line would begin.
                start = "\n" if terminal.progress_is_shown() else ""
                terminal.show_progress(f"{start}gpudash: {self._left}\n")
                os._exit(ExitStatus.INTERRUPTED)
        # That is told within a moment; unless nobody reads it.
        if not self._closed.wait(None if self._closing else _RESULT_SECONDS):
            os._exit(ExitStatus.INTERRUPTED)

    @property
    def _left(self) -> str:
        name, count = f"SIG{self._signal.name}", len(self._sent)
        if not count:
            return f"{name} reached nobody"
        ended = sum(not target.alive() for target in self._sent)
        one = count == 1
        whom = named(self._sent[0].process) if one else f"{count} processes"
        if ended == count:
            have = "which has ended" if one else "which have all ended"
            return f"{name} was sent to {whom}, {have}: what became of GPU memory is not known"
        some = f", of which {ended} {'has' if ended == 1 else 'have'} ended" if ended else ""
        rest = "the others" if ended else "it"
        return f"{name} was sent to {whom}{some}: what came of {rest} is not known"
