"""The list of keys, made from the one table of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, zip_longest
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Click
from textual.screen import ModalScreen

from gpudash.analysis.filter.terms import TERMS
from gpudash.model.text import fold, pad, width
from gpudash.tui.draw.line import Line, cells_of, fitted, spread
from gpudash.tui.keymap import Key
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import Closing
from gpudash.tui.widgets.lines import Lines, Wheel

COLUMN = 60
"""Cells of a column."""

_KEY_CELLS, _TERM_CELLS, _INDENT = 7, 15, 2

_MIN_TEXT = 8
"""Cells that a folded text has at least."""

_FILTER = "Filter"
_FILTER_INTRO = "plain words: in PID, owner, command, job; - before a word: not"


def help_lines(keys: Sequence[Key], theme: Theme, cells: int) -> list[Line]:
    """Return everything, in two columns where they fit."""
    blocks = []
    column = min(COLUMN, cells)
    for name, group in groupby(keys, _group):
        blocks.append(_block(name, list(group), theme, column))
        if name == _FILTER:
            blocks.append(_terms(theme, column))
    if cells < 2 * COLUMN:
        return [line for block in blocks for line in [*block, []]]
    left, right = _halves(blocks)
    return [
        [*fitted(one or [], COLUMN, theme.panel), *fitted(other or [], COLUMN, theme.panel)]
        for one, other in zip_longest(left, right)
    ]


def _group(key: Key) -> str:
    return key.group


def _block(name: str, keys: Sequence[Key], theme: Theme, column: int) -> list[Line]:
    lines = [_title(name, theme)]
    for key in keys:
        shown = pad(key.shown, max(_KEY_CELLS, min(width(key.shown), 2 * _KEY_CELLS)))
        lines += _entry(shown, key.help, theme, column)
    return lines


def _terms(theme: Theme, column: int) -> list[Line]:
    lines = [_title("Filter terms", theme), *_entry("", _FILTER_INTRO, theme, column)]
    for term in TERMS:
        example = pad(term.example, max(_TERM_CELLS, width(term.example)))
        lines += _entry(example, term.help, theme, column)
    return lines


def _title(name: str, theme: Theme) -> Line:
    return [Segment(" " * _INDENT + name, theme.header_strong)]


def _entry(lead: str, text: str, theme: Theme, column: int) -> list[Line]:
    """Return a text behind what it explains, on as many lines as it takes."""
    lead += " " if lead else ""
    leads = [lead, " " * width(lead)]
    return [
        [
            Segment(" " * _INDENT, theme.panel),
            Segment(leads[min(number, 1)], theme.key),
            Segment(part, theme.panel),
        ]
        for number, part in enumerate(
            fold(text, max(_MIN_TEXT, column - 2 * _INDENT - width(lead)))
        )
    ]


def _halves(blocks: Sequence[list[Line]]) -> tuple[list[Line], list[Line]]:
    """Return whole blocks in two columns as even as their order allows."""
    total = sum(len(block) + 1 for block in blocks)
    columns: tuple[list[Line], list[Line]] = ([], [])
    taken = 0
    for block in blocks:
        column = columns[0 if taken + (len(block) + 1) // 2 <= total // 2 else 1]
        column += [*block, []]
        taken += len(block) + 1
    return columns


_FRAME_LINES = 2
"""The blank line above the list and the line that says what closes it."""


class HelpScreen(Wheel, ModalScreen[None], Closing[None]):
    """Lists the keys until it is closed."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: transparent; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,h,question_mark,f1,enter,ctrl+c,f10", "close", "close", show=False),
        Binding("down,j", "scroll_keys(1)", "down", show=False),
        Binding("up,k", "scroll_keys(-1)", "up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "a page down", show=False),
        Binding("pageup", "scroll_pages(-1)", "a page up", show=False),
        Binding("home", "scroll_keys(-10000)", "to the top", show=False),
        Binding("end", "scroll_keys(10000)", "to the bottom", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self, theme: Theme, keys: Sequence[Key]) -> None:
        super().__init__()
        self._theme, self._list = theme, keys
        self._first = 0
        self._lines: list[Line] = []
        self._keys = Lines(theme.panel, id="keys")

    def compose(self) -> ComposeResult:
        """Show the list alone."""
        yield self._keys

    def on_resize(self) -> None:
        """Fit the list to the terminal."""
        size = self.app.size
        width = 2 * COLUMN if size.width >= 2 * COLUMN else min(COLUMN, size.width)
        self._lines = help_lines(self._list, self._theme, width)
        self._keys.styles.width = max(1, width)
        self._keys.styles.height = max(1, min(len(self._lines) + _FRAME_LINES, size.height))
        self.call_after_refresh(self.action_scroll_keys, 0)

    def action_scroll_keys(self, lines: int) -> None:
        """Scroll where the list does not fit."""
        last = max(0, len(self._lines) - self._room)
        self._first = max(0, min(self._first + lines, last))
        shown = self._lines[self._first : self._first + self._room]
        self._keys.show([[], *shown, *[[]] * (self._room - len(shown)), self._bottom()])

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        self.action_scroll_keys(pages * max(1, self._room - 1))

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)

    def on_click(self, _event: Click) -> None:
        """Go back."""
        self.dismiss(None)

    def turned(self, lines: int) -> None:
        """Scroll by the wheel."""
        self.action_scroll_keys(lines)

    @property
    def _room(self) -> int:
        return max(1, self._keys.size.height - _FRAME_LINES)

    def _bottom(self) -> Line:
        """Return what closes the list, and which part of it is in view if not all is."""
        theme, cells = self._theme, self._keys.size.width
        left = [Segment("  Esc", theme.key), Segment(" close", theme.panel_dim)]
        if len(self._lines) <= self._room:
            return spread(left, [], cells, theme.panel)
        keys = [Segment("   j k PgDn PgUp", theme.key), Segment(" scroll", theme.panel_dim)]
        last = min(self._first + self._room, len(self._lines))
        right = [Segment(f"  {self._first + 1}-{last} of {len(self._lines)}  ", theme.panel_dim)]
        for part in (keys, keys[:1], []):
            if cells_of([*left, *part, *right]) <= cells:
                return spread([*left, *part], right, cells, theme.panel)
        return spread(left, [], cells, theme.panel)
