"""Screens above each other: of each kind of dialog one at most, each closed once.

Keys and clicks may reach a screen after another has been put above it, or after it has gone: more
than one of them may be on the way while the terminal or the machine is slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen, ScreenResultType


class Closing(Screen[ScreenResultType]):
    """Closes while it is in front only: Textual would close whatever is, with its answer."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Go away with a result; once it has gone, or lies below another, do nothing."""
        if not self.is_active:
            return AwaitComplete()
        return super().dismiss(result)


def put_above(
    app: App[Any],
    dialog: ModalScreen[ScreenResultType],
    answered: Callable[[ScreenResultType | None], Any],
) -> bool:
    """Put a dialog in front; return False, and leave it, if there is one of its kind already."""
    if any(type(screen) is type(dialog) for screen in app.screen_stack):
        return False
    app.push_screen(dialog, answered)
    return True
