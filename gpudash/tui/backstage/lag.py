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
_WINDOW_BYTES = 4096
"""What may be unseen before the next frame waits: 0.4 s of a link with 10 KB/s."""
_PATIENCE_SECONDS = 10.0


def first_question(environ: Mapping[str, str]) -> str:
    """Return the question as it can be asked of an unknown terminal, empty if it cannot."""
    return "" if environ.get("TERM_PROGRAM") == "Apple_Terminal" else QUESTION


class Lag:
    """Counts what a terminal that answers was sent and has not shown yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers = False
        self._unseen = self._after_question = 0
        self._asked_at: float | None = None

    @property
    def answers(self) -> bool:
        """Whether the terminal has answered so far."""
        return self._answers

    @property
    def asked(self) -> bool:
        """Whether an answer is due."""
        return self._asked_at is not None

    @property
    def excessive(self) -> bool:
        """Whether the next frame should wait for an answer."""
        return self.asked and self._unseen > _WINDOW_BYTES

    def sent(self, size: int) -> bool:
        """Count bytes; return whether the question is to follow them."""
        self._unseen += size
        # Before the first answer, too: somebody has asked at the start.
        self._after_question += size
        return not self.asked and self._ask()

    def answered(self) -> bool:
        """Take an answer; return whether the question is to be sent again."""
        self._answers = True
        self._asked_at, self._unseen = None, self._after_question
        return self._ask()

    def look(self) -> None:
        """Stop to ask a terminal that has not answered for long, until it does."""
        if self._asked_at is not None and self._clock() - self._asked_at > _PATIENCE_SECONDS:
            self._answers, self._asked_at = False, None

    def _ask(self) -> bool:
        if not self._answers or self._unseen < _ASK_BYTES:
            return False
        self._asked_at, self._after_question = self._clock(), 0
        return True
