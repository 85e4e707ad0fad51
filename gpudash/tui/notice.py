"""What an action led to, as the last line of every view tells it for some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 10.0
"""After so long it may not be true any more, and the keys want their place back."""


class Notice:
    """A text that goes by itself, or stays until the next action where it must be answered."""

    def __init__(self) -> None:
        self._text, self._until = "", float("inf")
        self.on_passing: Callable[[float], object] = lambda _seconds: None
        """Told in how many seconds a text will be gone: somebody has to draw then."""

    @property
    def text(self) -> str:
        """What is told, empty once its time is over."""
        return self._text if time.monotonic() < self._until else ""

    def tell(self, text: str, *, stays: bool = False) -> None:
        """Tell something else, or nothing."""
        passes = bool(text) and not stays
        self._text, self._until = text, float("inf")
        if passes:
            self._until = time.monotonic() + SECONDS
            self.on_passing(SECONDS)
