"""The visible part of a process listing, with one line selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from msgspec import Struct
from rich.segment import Segment

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.forest import in_ascii
from gpudash.analysis.history.metrics import ProcessKey
from gpudash.analysis.table import ProcessRow
from gpudash.model.text import width
from gpudash.tui.draw.grid import MARGIN, Grid, Part
from gpudash.tui.draw.line import Line, cells_of, fitted, highlighted, in_view, spread
from gpudash.tui.listing import Listing
from gpudash.tui.theme import Theme

_MIN_FILTER = 10
"""Minimum cells of the filter: below it, less important parts are left out."""


def position(listing: Listing, window: range, theme: Theme, cells: int) -> Line:
    """Return `/alice  3 of 20  2 tagged  1-10 of 40`, or the most important parts that fit."""
    parts: Line = []
    if listing.matching < len(listing.everything):
        parts.append(Segment(f" {share(listing)} ", theme.sorted))
    if tagged := len(listing.tagged_rows):
        parts.append(Segment(f" {tagged} tagged ", theme.mark))
    if which := in_view(window.start, len(window), len(listing.rows)):
        parts.append(Segment(f" {which} ", theme.heading))
    typed = listing.filter.text.strip()
    needed = min(width(typed), _MIN_FILTER) + 3 if typed else 0
    while parts and cells_of(parts) + needed > cells:
        parts.pop()
    if typed:
        text = theme.cut(typed, max(1, cells - cells_of(parts) - 3))
        parts.insert(0, Segment(f" /{text} ", theme.mark))
    return parts


def share(listing: Listing) -> str:
    """Return `3 of 20`: how many processes match."""
    return f"{listing.matching} of {len(listing.everything)}"


NOTHING_FITS = "No process matches the filter"

_MAX_POSITION = 27
"""Cells freed for the position if it does not fit beside the headings."""

_ROLES = {"user": "owner", "type": "dim", "job": "dim"}


class _Drawn(Struct, frozen=True):
    """A row as last drawn, and what it depended on."""

    cause: object
    row: ProcessRow
    parts: list[Part]
    line: Line


def _key(row: ProcessRow) -> tuple[ProcessKey, str]:
    """Return the key of a process's row: there may be one for each GPU."""
    return row.process.key, row.gpus


class ProcessTable:
    """Draws a listing around its cursor, with headings above and notes below."""

    def __init__(self) -> None:
        self.top = 0
        """Index in the listing of the first line in view."""
        self.grid = Grid(PROCESS_COLUMNS, _ROLES)
        self._shift = 0
        self._known: dict[tuple[ProcessKey, str], _Drawn] = {}

    def choose(self, keys: Sequence[str]) -> None:
        """Show these columns in this order, as far as they fit; all if none are given."""
        by_key = {column.key: column for column in PROCESS_COLUMNS}
        columns = tuple(by_key[key] for key in keys) or PROCESS_COLUMNS
        self.grid = Grid(columns, _ROLES)
        self._known.clear()

    def scroll(self, cells: int, listing: Listing) -> None:
        """Show the command lines from a later or earlier cell on."""
        column = next((p for p in self.grid.fitted if p.column.grows), None)
        if column is not None:
            longest = max((width(column.column.text(row)) for row in listing.rows), default=0)
            self._shift = max(0, min(self._shift + cells, longest + 1 - column.width))

    def lines(
        self,
        listing: Listing,
        notes: Sequence[str],
        theme: Theme,
        cells: int,
        height: int,
        *,
        empty_text: Callable[[], str],
        focused: bool = True,
    ) -> list[Line]:
        """Return headings and processes in `height` lines, and notes if there is room.

        `empty_text` returns the text for an empty list.
        """
        window = listing.window(height - 1)
        self.top = window.start
        lines = self._drawn(listing, window, theme, cells)
        index = listing.cursor - window.start
        if listing.selected is not None:
            lines[index] = highlighted(lines[index], theme, cells, focused=focused)
        elif not lines:
            word = NOTHING_FITS if listing.everything else empty_text()
            lines = [_dim(word, theme, cells)]
        lines += _notes(notes, theme, cells, height - 1 - len(lines))
        return [self._title(listing, window, theme, cells), *lines]

    def _drawn(self, listing: Listing, window: range, theme: Theme, cells: int) -> list[Line]:
        """Draw the rows, widening columns that are too narrow."""
        shown = (listing.rows[index] for index in window)
        lines = self.grid.rows(
            listing.rows or listing.everything,
            listing.members,
            cells,
            (in_ascii(row) if theme.is_ascii else row for row in shown),
            lambda row: self._line(listing, row, theme),
            sorted_by=listing.leading[0],
        )
        keys = {_key(listing.rows[index]) for index in window}
        self._known = {key: line for key, line in self._known.items() if key in keys}
        return lines

    def _line(self, listing: Listing, row: ProcessRow, theme: Theme) -> Line:
        """Return the line of a row, the same object while nothing changes."""
        key, is_tagged = _key(row), row.process.key in listing.tagged
        cause = id(self.grid.fitted), id(theme), self._shift, is_tagged
        known = self._known.get(key)
        if known is not None and known.cause == cause and known.row.is_as(row):
            parts = self.grid.tick(row, theme, known.parts)
            line = known.line if parts == known.parts else [*chain(*parts)]
        else:
            mark = theme.glyphs.tag[:MARGIN] if is_tagged else ""
            parts = self.grid.parts(row, theme, mark=mark, shift=self._shift)
            line = [*chain(*parts)]
        self._known[key] = _Drawn(cause, row, parts, line)
        return line

    def _title(self, listing: Listing, window: range, theme: Theme, cells: int) -> Line:
        """Return the headings, the last of which may give way to the position."""
        key, descending = listing.leading
        titles = self.grid.heading(theme, sorted_by=key, down=descending)
        whole = position(listing, window, theme, cells)
        taken = len("".join(segment.text for segment in titles).rstrip())
        if taken + cells_of(whole) > cells:
            end = cells - min(cells_of(whole), _MAX_POSITION)
            start = max((x - 1 for x in self.grid.starts if x - 1 <= end), default=0)
            titles = fitted(titles, start, theme.base)
            whole = position(listing, window, theme, cells - start)
        return spread(titles, whole, cells, theme.base)


def _dim(text: str, theme: Theme, cells: int) -> Line:
    text = theme.cut(text, cells - 2 * MARGIN)
    return [Segment(" " * MARGIN + text, theme.dim)]


def _notes(notes: Sequence[str], theme: Theme, cells: int, room: int) -> list[Line]:
    """Return as many notes as fit in `room` lines, after a blank one."""
    lines = [_dim(note, theme, cells) for note in notes[: max(0, room - 1)]]
    return [[], *lines] if lines else []
