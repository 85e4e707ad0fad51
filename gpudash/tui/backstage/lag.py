"""How far the terminal is behind what it was sent, by its own answers.

Between a program and a terminal far away lie buffers for megabytes: that a write succeeds does
not mean that anybody sees it. So the terminal is asked something now and then, and its answer
says that all before the question has been shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

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


class Lag:
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
