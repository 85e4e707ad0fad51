"""Closing a screen once, however often it is told to."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import Screen, ScreenResultType


class Closing(Screen[ScreenResultType]):
    """Closes while it is in front only: Textual would close whatever is, with its answer."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Go away with a result; once it has gone, or lies below another, do nothing."""
        if not self.is_active:
            return AwaitComplete()
        return super().dismiss(result)
