"""The list of keys, made from the one table of them."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Click
from textual.screen import ModalScreen

from gpudash.cells import pad
from gpudash.tui.keymap import KEYS
from gpudash.tui.renderables.line import Line
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.lines import Lines

_WIDTH = 66
_GROUP_CELLS, _KEY_CELLS = 9, 7


class KeyList(Lines):
    """All keys by group, from a first line on."""

    def present(self, first: int, look: Theme) -> None:
        """Draw what fits."""
        self.show(rows(look)[first:])


class HelpScreen(ModalScreen[None]):
    """Shows the keys until one of several is pressed."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 60%; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,h,question_mark,f1,enter,space,ctrl+c", "close", "close", show=False),
        Binding("down,j", "scroll_keys(1)", "down", show=False),
        Binding("up,k", "scroll_keys(-1)", "up", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self, look: Theme) -> None:
        super().__init__()
        self._look = look
        self._first = 0
        self._keys = KeyList(look.panel, id="keys")

    def compose(self) -> ComposeResult:
        """Show the list alone."""
        yield self._keys

    def on_resize(self) -> None:
        """Fit the list to the terminal."""
        size = self.app.size
        self._keys.styles.width = max(1, min(_WIDTH, size.width))
        self._keys.styles.height = max(1, min(len(rows(self._look)), size.height))
        self.call_after_refresh(self.action_scroll_keys, 0)

    def action_scroll_keys(self, lines: int) -> None:
        """Scroll where the list does not fit."""
        last = max(0, len(rows(self._look)) - self._keys.size.height)
        self._first = max(0, min(self._first + lines, last))
        self._keys.present(self._first, self._look)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)

    def on_click(self, _event: Click) -> None:
        """Go back."""
        self.dismiss(None)


def rows(look: Theme) -> list[Line]:
    """Return the whole list, each group named on its first line."""
    lines: list[Line] = [[]]
    group = ""
    for key in KEYS:
        heading = "" if key.group == group else key.group
        group = key.group
        lines.append(
            [
                Segment("  " + pad(heading, _GROUP_CELLS), look.panel_dim),
                Segment(pad(key.shown, _KEY_CELLS), look.key),
                Segment(key.help, look.panel),
            ]
        )
    return [*lines, []]
