"""Bytes to the terminal without ever waiting for it, and how far it is behind them.

Between a program and a terminal far away lie buffers for megabytes: that a write succeeds does
not mean that anybody sees it. So the terminal is asked something now and then, and its answer
says that all before the question has been shown.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


QUESTION = "\x1b[?2026$p"
"""Whether it knows synchronized output, which Textual wants to know too."""

_ASK_BYTES = 2048
_LEAST_WINDOW_BYTES = 4096
"""What may be unseen in any case, 0.4 s of a link with 10 KB/s."""
_WINDOW_SECONDS = 0.4
"""How long what may be unseen should take to be seen."""
_PATIENCE_SECONDS = 10.0


def first_question(environ: Mapping[str, str]) -> str:
    """Return the question as it can be asked of an unknown terminal, empty if it cannot."""
    return "" if environ.get("TERM_PROGRAM") == "Apple_Terminal" else QUESTION


class FlowControl:
    """Counts what a terminal that answers was sent and has not shown yet.

    How much that may be is learnt from how soon it answers.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers = False
        self._unseen = self._after_question = 0
        self._asked_at: float | None = None
        self._window = _LEAST_WINDOW_BYTES
        self._probe = 0, 0.0
        """Bytes that the due answer is behind, and an instant at which none of them was sent."""

    @property
    def answers(self) -> bool:
        """Whether the terminal has answered so far."""
        return self._answers

    @property
    def asked(self) -> bool:
        """Whether an answer is due."""
        return self._asked_at is not None

    @property
    def room(self) -> int:
        """Bytes that may be sent now; of a terminal that does not answer, at a time."""
        return max(0, self._window - self._unseen) if self._answers else self._window

    @property
    def excessive(self) -> bool:
        """Whether what comes next should wait for an answer."""
        return self.asked and self.room < _LEAST_WINDOW_BYTES // 4

    def sent(self, size: int) -> bool:
        """Count bytes; return whether the question is to follow them."""
        self._unseen += size
        # Before the first answer, too: somebody has asked at the start.
        self._after_question += size
        return not self.asked and self._ask(size, self._clock())

    def answered(self) -> bool:
        """Take an answer; return whether the question is to be sent again."""
        self._answers = True
        self._unseen = self._after_question
        if self._asked_at is None:
            # Whoever asked at the start did not say when.
            return self._ask(0, 0.0)
        self._learn()
        asked_at, self._asked_at = self._asked_at, None
        return self._ask(self._unseen, asked_at)

    def look(self) -> None:
        """Stop to ask a terminal that has not answered for long, until it does."""
        if self._asked_at is not None and self._clock() - self._asked_at > _PATIENCE_SECONDS:
            self._answers, self._asked_at = False, None

    def _ask(self, size: int, since: float) -> bool:
        """Note a question behind so many bytes that were all sent since an instant."""
        if not self._answers or self._unseen < _ASK_BYTES:
            return False
        self._asked_at, self._after_question = self._clock(), 0
        self._probe = size, since
        return True

    def _learn(self) -> None:
        """Fit the window to what an answer took; it was under way for a part of that time."""
        size, since = self._probe
        seconds = max(self._clock() - since, 0.001)
        fitting = int(size * _WINDOW_SECONDS / seconds)
        if fitting < size:
            self._window = max(_LEAST_WINDOW_BYTES, fitting)
        else:
            # No more at once than has been seen to pass, for a link may take a little at once.
            self._window = max(self._window, min(fitting, 2 * size))


_PARTING_SECONDS = 2.0


class NonBlockingWriter:
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


_ANSWER = b"\x1b[?2026;"


def count_replies(data: bytes) -> int:
    """Return how many answers stand in what was read."""
    return data.count(_ANSWER)


def drain_replies(descriptor: int, due: int, seconds: float) -> None:
    """Read until so many answers have come, and drop them; give up after so many seconds."""
    end = time.monotonic() + seconds
    heard = b""
    while count_replies(heard) < due and (left := end - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            return
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            return
        if not data:
            return
        heard += data
