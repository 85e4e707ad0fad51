"""The part of a process listing that is in view, one line of which is selected."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.cells import cut
from gpudash.columns import PROCESS_COLUMNS
from gpudash.tui.listing import Listing
from gpudash.tui.renderables.grid import MARGIN, Grid
from gpudash.tui.renderables.line import Line, fitted, joined, spread
from gpudash.tui.theme import Theme

NOTHING = "No running processes found"

_ROLES = {"user": "owner", "type": "dim", "job": "dim"}


class ProcessTable:
    """Draws a listing around its cursor, under headings and with notes below."""

    def __init__(self) -> None:
        self.top = 0
        """Place in the listing of the first line in view."""
        self._grid = Grid(PROCESS_COLUMNS, _ROLES)

    @property
    def sortable(self) -> list[str]:
        """The keys of the columns on screen, in their order."""
        return [place.column.key for place in self._grid.places]

    def column_at(self, x: int) -> str | None:
        """Return the key of the column that cell `x` belongs to."""
        return self._grid.column_at(x)

    def lines(
        self, listing: Listing, notes: Sequence[str], theme: Theme, cells: int, height: int
    ) -> list[Line]:
        """Return headings and processes in `height` lines, and notes where room is left."""
        window = listing.window(height - 1)
        self.top = window.start
        lines = self._drawn(listing, window, theme, cells)
        if lines:
            place = listing.cursor - window.start
            lines[place] = _highlighted(lines[place], theme, cells)
        else:
            lines = [[Segment(" " * MARGIN + NOTHING, theme.dim)]]
        lines += _notes(notes, theme, cells, height - 1 - len(lines))
        return [self._title(listing, window, theme, cells), *lines]

    def _drawn(self, listing: Listing, window: range, theme: Theme, cells: int) -> list[Line]:
        """Draw the rows; columns that prove too narrow are widened."""
        lines: list[Line] = []
        for _attempt in range(2):
            self._grid.fit(listing.rows, listing.members, cells)
            lines = [joined(self._grid.draw(listing.rows[index], theme)) for index in window]
            if not self._grid.outgrown:
                break
        return lines

    def _title(self, listing: Listing, window: range, theme: Theme, cells: int) -> Line:
        titles = self._grid.heading(theme, sorted_by=listing.sort_key, down=listing.descending)
        position = []
        if len(window) < len(listing.rows):
            text = f" {window.start + 1}-{window.stop} of {len(listing.rows)} "
            position = [Segment(text, theme.heading)]
        return spread(titles, position, cells, theme.base)


def _highlighted(line: Line, theme: Theme, cells: int) -> Line:
    return joined(
        Segment(text, (style or theme.base) + theme.selected)
        for text, style, _ in fitted(line, cells, theme.base)
    )


def _notes(notes: Sequence[str], theme: Theme, cells: int, room: int) -> list[Line]:
    """Return as many notes as `room` lines hold, after a blank one."""
    lines = [
        [Segment(" " * MARGIN + cut(note, cells - 2 * MARGIN), theme.dim)]
        for note in notes[: max(0, room - 1)]
    ]
    return [[], *lines] if lines else []
