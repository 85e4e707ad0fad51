"""What a column is, and which columns a given width holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from gpudash.analysis.health.levels import Level
from gpudash.model.text import Align, width
from gpudash.model.units import ABSENT

Row = TypeVar("Row")

GAP = 2
"""Cells between two columns."""

_COMFORT_PRIORITY = 2
"""Columns up to this priority outlast the bars and the comfort of the growing column."""

_LEAST_GROWING = 8
_STAGES = ((10, 0), (10, 16), (16, 24), (24, 48))
"""How far bars and stretching columns grow before any of them grows further."""


class Column(Struct, Generic[Row], frozen=True, kw_only=True):
    """One column: its text, how bad a value is, and how much it matters.

    `width` is the most cells it takes; a growing one is content with them and takes the rest.
    Priority 0 always stands; the higher, the sooner a narrow screen does without. `share` (0 to
    1) may be drawn as a bar before the text; `short` may replace `text` where that does not fit.
    A column with `stretch` is `width` cells wide and up to so many where cells are left over.
    `worth` says of a row whether it is a reason to show the column, in place of any text at all.
    One that `ticks` says something else as time goes by, also of a row that is as it was.
    """

    key: str
    header: str
    text: Callable[[Row], str]
    sort_key: Callable[[Row], float | str]
    width: int
    align: Align = "<"
    priority: int = 0
    grows: bool = False
    level: Callable[[Row], Level] | None = None
    share: Callable[[Row], float | None] | None = None
    stretch: int = 0
    ticks: bool = False
    short: Callable[[Row], str] | None = None
    worth: Callable[[Row], bool] | None = None

    def is_told(self, rows: Iterable[Row]) -> bool:
        """Return whether any row is a reason to show it."""
        worth = self.worth or (lambda row: self.text(row) != ABSENT)
        return any(map(worth, rows))


def number(value: float | None) -> float:
    """Return what an absent value sorts as: less than any other."""
    return -1.0 if value is None else float(value)


class Place(Struct, Generic[Row], frozen=True):
    """A column that is shown, the cells of its text and those of the bar before it."""

    column: Column[Row]
    width: int
    bar: int = 0

    @property
    def cells(self) -> int:
        """All its cells, with the space between bar and text."""
        return self.width + (self.bar and self.bar + 1)


def fit(
    columns: Sequence[Column[Row]], rows: Collection[Row], room: int, *, bar: int = 0
) -> list[Place[Row]]:
    """Return the columns that `room` cells hold, bars taking at least `bar` cells or none.

    Columns are as wide as their content; one that no row has a reason for is left out unless it
    always stands, or there are no rows yet to tell.
    The least important go first. What is left over goes to the growing column, else to bars and
    stretching columns.
    """
    kept = [c for c in columns if c.priority == 0 or not rows or c.is_told(rows)]
    places = [Place(c, _content_width(c, rows), bar if c.share else 0) for c in kept]
    comfortable = True
    while taken(places) > room:
        least = max(reversed(places), key=lambda place: place.column.priority)
        if comfortable and least.column.priority <= _COMFORT_PRIORITY:
            comfortable = False
            places = [_narrow(place) for place in places]
        elif least.column.priority == 0:
            break
        else:
            places.remove(least)
    return _grown(places, max(room - taken(places), 0))


def taken(places: Sequence[Place[Row]]) -> int:
    """Return the cells of a line with these columns."""
    return sum(place.cells for place in places) + GAP * max(len(places) - 1, 0)


def _narrow(place: Place[Row]) -> Place[Row]:
    """Return the place without its bar, a growing one at its least."""
    column = place.column
    return Place(column, min(place.width, _LEAST_GROWING) if column.grows else place.width)


def _grown(places: Sequence[Place[Row]], spare: int) -> list[Place[Row]]:
    """Return the places with the spare cells given to the growing column, else to the bars."""
    if any(place.column.grows for place in places):
        return [
            Place(place.column, place.width + spare, place.bar) if place.column.grows else place
            for place in places
        ]
    grown = list(places)
    for most_bar, most_stretch in _STAGES:
        spare = _widened(grown, spare, most_bar, most_stretch)
    return grown


def _widened(places: list[Place[Row]], spare: int, most_bar: int, most_stretch: int) -> int:
    """Widen bars and stretching columns cell by cell in turn; return the cells still left."""
    while spare:
        before = spare
        for number, place in enumerate(places):
            column, cells, bar = place.column, place.width, place.bar
            if spare and bar and bar < most_bar:
                places[number], spare = Place(column, cells, bar + 1), spare - 1
            elif spare and cells < min(column.stretch, most_stretch):
                places[number], spare = Place(column, cells + 1, bar), spare - 1
        if spare == before:
            break
    return spare


def _content_width(column: Column[Row], rows: Collection[Row]) -> int:
    if column.stretch:
        return column.width
    widest = max((width(column.text(row)) for row in rows), default=0)
    return max(min(widest, column.width), width(column.header))
