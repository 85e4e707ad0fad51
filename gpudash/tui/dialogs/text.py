"""Texts to read: the keys, from their one table; mistakes in the settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click
from textual.widgets import Static

from gpudash.analysis.columns.processes import PERCENTAGES
from gpudash.analysis.filter.terms import TERMS, Term
from gpudash.model.text import fold, pad, width
from gpudash.model.units import counted
from gpudash.tui.bindings import shown_key
from gpudash.tui.dialogs.dialog import Dialog
from gpudash.tui.draw.line import Line, fitted, in_view
from gpudash.tui.keymap import Key
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import Edit, content

COLUMN = 60
"""Width of a column."""

_MIN_COLUMN = 59
"""Minimum width of two columns, which fit a terminal of 120 with an edge."""

_KEY_CELLS, _TERM_CELLS, _INDENT = 7, 15, 2

_MIN_TEXT = 8
"""Minimum width of a wrapped text."""

_FILTER = "Filter"
_SEARCHED = "PID, owner, command, job"


class TextScreen(Dialog[None]):
    """Shows a text until it is closed; subclasses draw it in `lines`."""

    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,enter,ctrl+c,f10", "cancel", show=False),
        Binding("down,j", "scroll_lines(1)", show=False),
        Binding("up,k", "scroll_lines(-1)", show=False),
        Binding("pagedown,space", "scroll_pages(1)", show=False),
        Binding("pageup", "scroll_pages(-1)", show=False),
        Binding("home", "scroll_lines(-10000)", show=False),
        Binding("end", "scroll_lines(10000)", show=False),
    ]

    def __init__(self, title: str, theme: Theme) -> None:
        super().__init__(theme)
        self._text = Static(markup=False)
        self._box = VerticalScroll(self._text, can_focus=False)
        self._box.border_title = Content(title)

    @property
    def hint(self) -> str:
        """The keys to mention besides those that scroll."""
        return "Esc closes"

    def lines(self, cells: int) -> list[Line]:
        """Return the text for a width."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Show the text alone."""
        yield self._box

    def on_mount(self) -> None:
        """Show which part is in view, at any scroll position."""
        self.watch(self._box, "scroll_y", self._describe)

    def fit(self, cells: int, lines: int) -> None:
        """Redraw the text for another width."""
        cells = min(2 * COLUMN, cells) if cells >= 2 * _MIN_COLUMN else min(COLUMN, cells)
        self._text.update(content(self.lines(cells)))
        self._box.styles.width = cells + self.edges
        self.call_after_refresh(self._describe)

    def _describe(self) -> None:
        """Show the key that closes it, and which part is in view if not all."""
        room, count = self._box.size.height, self._box.virtual_size.height
        keys = self.hint
        if count > room > 0:
            first = round(self._box.scroll_y)
            place = in_view(first, min(room, count - first), count)
            texts = (f"j k PgDn scroll  {keys}  {place}", f"{keys}  {place}", keys)
            keys = next((text for text in texts if len(text) + 4 <= self._box.size.width), "")
        self._box.border_subtitle = Content(keys)

    def on_click(self, _event: Click) -> None:
        """Close by a click anywhere."""
        self.dismiss(None)


class HelpScreen(TextScreen):
    """Lists the keys and the terms of the filter, all or those that contain a typed text."""

    CSS = (
        TextScreen.CSS
        + """
    HelpScreen Edit { dock: top; display: none; padding: 0 2; }
    """
    )
    BINDINGS: ClassVar[list[Any]] = [
        # With these ids, they follow the user's keys for the overview.
        Binding("h,question_mark,f1", "cancel", show=False, id="screen.help"),
        Binding("slash,f", "search", show=False, id="filter.open"),
        Binding("enter", "keep", show=False),
    ]

    def __init__(
        self,
        theme: Theme,
        keys: Sequence[Key],
        *,
        terms: Sequence[Term[Any]] = TERMS,
        searched: str = _SEARCHED,
    ) -> None:
        """List the `terms` of the filter; plain words are `searched` for in these texts."""
        super().__init__("Keys", theme)
        self._keys, self._terms = keys, term_entries(terms, searched)
        self._edit = Edit(placeholder="a key, or words of what it does")

    @property
    def hint(self) -> str:
        """How to search, or to end the search."""
        finds = f"{shown_key(self._keys, 'filter.open')} finds  Esc closes"
        return "Esc shows all" if self._edit.display else finds

    def compose(self) -> ComposeResult:
        """Stack the input line and the text."""
        with self._box:
            yield self._edit
            yield self._text

    def lines(self, cells: int) -> list[Line]:
        """Return the matches, or everything, in as many columns as fit."""
        words = self._edit.value.casefold().split()

        def fits(*texts: str) -> bool:
            return all(word in " ".join(texts).casefold() for word in words)

        keys = [key for key in self._keys if fits(key.shown, key.help, key.group, key.words)]
        terms = [entry for entry in self._terms if fits(_FILTER, *entry)]
        if not keys and not terms:
            return [[Segment(" " * _INDENT + "no matches", self.palette.panel)]]
        return help_lines(keys, self.palette, cells, terms)

    def on_mount(self) -> None:
        """Search with each letter."""
        self.watch(self._edit, "value", lambda: self._fit(self.app.size), init=False)

    def action_search(self) -> None:
        """Start a search; the dialog keeps its height."""
        self._box.styles.height = self._box.outer_size.height
        self._edit.display = True
        self.set_focus(self._edit)

    def action_keep(self) -> None:
        """Scroll through the matches; close if nothing is typed."""
        if self.focused is None:
            self.action_cancel()
        self.set_focus(None)

    def action_cancel(self) -> None:
        """Show everything again after a search; else close."""
        if not self._edit.display:
            super().action_cancel()
        self.set_focus(None)
        self._edit.value, self._edit.display = "", False


class MistakesScreen(TextScreen):
    """Lists every mistake in the settings file in full; the rest of the file is in force."""

    BINDINGS: ClassVar[list[Any]] = [Binding("exclamation_mark", "cancel", show=False)]

    def __init__(self, theme: Theme, mistakes: Sequence[str]) -> None:
        super().__init__(f"{counted(len(mistakes), 'mistake')} in the settings", theme)
        self._mistakes = mistakes

    def lines(self, cells: int) -> list[Line]:
        """Return the mistakes, each wrapped to as many lines as it needs."""
        lines: list[Line] = []
        for mistake in self._mistakes:
            first, *rest = fold(mistake, max(1, cells - 3 * _INDENT))
            indents = [_INDENT, *[2 * _INDENT] * len(rest)]
            lines += [[]] if lines else []
            lines += [
                [Segment(" " * indent + text, self.palette.panel)]
                for indent, text in zip(indents, (first, *rest), strict=True)
            ]
        return lines


def term_entries(
    terms: Sequence[Term[Any]] = TERMS, searched: str = _SEARCHED
) -> list[tuple[str, str]]:
    """Return the elements of a filter, each with its meaning."""
    plain = f"plain words: in {searched}; - before a word: not"
    entries = [("", plain), *((term.example, term.help) for term in terms)]
    return [*entries, ("", PERCENTAGES)] if terms is TERMS else entries


def help_lines(
    keys: Sequence[Key],
    theme: Theme,
    cells: int,
    terms: Sequence[tuple[str, str]] | None = None,
) -> list[Line]:
    """Return everything, in two columns if they fit."""
    has_two = cells >= 2 * _MIN_COLUMN
    column = min(COLUMN, cells // 2 if has_two else cells)
    blocks = []
    entries = term_entries() if terms is None else terms
    of_terms = [_block("Filter terms", entries, theme, column, _TERM_CELLS)] if entries else []
    for name, group in groupby(keys, attrgetter("group")):
        shown = ((key.shown, key.help) for key in group)
        blocks.append(_block(name, shown, theme, column, _KEY_CELLS))
        if name == _FILTER:
            blocks += of_terms
            of_terms = []
    blocks += of_terms
    if not has_two:
        return [line for block in blocks for line in [*block, []]]
    left, right = _halves(blocks)
    return [
        [*fitted(one or [], column, theme.panel), *(other or [])]
        for one, other in zip_longest(left, right)
    ]


def _block(
    name: str, entries: Iterable[tuple[str, str]], theme: Theme, column: int, lead_cells: int
) -> list[Line]:
    """Return a title, and texts after the words that they explain, at least `lead_cells` wide."""
    lines: list[Line] = [[Segment(" " * _INDENT + name, theme.header_strong)]]
    for lead, text in entries:
        lines += _entry(
            pad(lead, max(lead_cells, width(lead))) if lead else "", text, theme, column
        )
    return lines


def _entry(lead: str, text: str, theme: Theme, column: int) -> list[Line]:
    """Return a text after the words that it explains, wrapped."""
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
    """Return blocks in two columns, as even as their order allows, without splitting any."""
    total = sum(len(block) + 1 for block in blocks)
    columns: tuple[list[Line], list[Line]] = ([], [])
    taken = 0
    for block in blocks:
        column = columns[0 if taken + (len(block) + 1) // 2 <= total // 2 else 1]
        column += [*block, []]
        taken += len(block) + 1
    return columns
