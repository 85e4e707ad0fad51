"""Tables row by row: columns fitted to a width, each value written once and drawn with a theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from rich.segment import Segment

from gpudash.cells import pad, width
from gpudash.layout import GAP, Column, Place, fit
from gpudash.tui.renderables.bars import bar
from gpudash.tui.theme import Theme
from gpudash.units import ABSENT

Row = TypeVar("Row")

MARGIN = 1
"""Cells left blank at both ends of a row."""

_MARGIN, _GAP = " " * MARGIN, " " * GAP
_ARROWS = {True: "▼", False: "▲"}
_WHOLE_TEXTS = frozenset({"pid", "time"})
"""Columns aligned to the right whose text does not end in a unit."""


class Grid(Generic[Row]):
    """Columns that stay as they are until the width or the rows change or a value outgrows one."""

    def __init__(
        self, columns: Sequence[Column[Row]], roles: Mapping[str, str], *, bar: int = 0
    ) -> None:
        self.places: list[Place[Row]] = []
        self.outgrown = False
        self._columns = columns
        self._roles = roles
        self._bar = bar
        self._fitted_to: object = None

    def fit(self, rows: Sequence[Row], identity: object, room: int) -> None:
        """Choose the columns for a line of `room` cells, if `identity` of the rows changed."""
        if self._fitted_to == (identity, room) and not self.outgrown:
            return
        self._fitted_to, self.outgrown = (identity, room), False
        self.places = fit(self._columns, rows, room - 2 * MARGIN, bar=self._bar)

    def heading(self, theme: Theme, *, sorted_by: str = "", down: bool = False) -> list[Segment]:
        """Return the headings; the one that orders the rows has an arrow in the gap at its side."""
        text, gap = "", _MARGIN
        start = end = arrow = 0
        for place in self.places:
            header, align = place.column.header, "<" if place.bar else place.column.align
            text, gap = text + gap + pad(header, place.cells, align), _GAP
            if place.column.key == sorted_by and align == ">":
                end = len(text)
                start = arrow = end - len(header) - 1
            elif place.column.key == sorted_by:
                start = len(text) - place.cells
                arrow = start + len(header)
                end = arrow + 1
        text += gap
        if end:
            text = text[:arrow] + _ARROWS[down] + text[arrow + 1 :]
        return [
            Segment(text[:start], theme.heading),
            Segment(text[start:end], theme.sorted),
            Segment(text[end:], theme.heading),
        ]

    def draw(self, row: Row, theme: Theme, *, keep: int | None = None) -> list[Segment]:
        """Return the values of a row; `keep` stops after so many columns."""
        segments = [Segment(_MARGIN, theme.base)]
        for number, place in enumerate(self.places[:keep]):
            if number:
                segments.append(Segment(_GAP, theme.base))
            if place.bar and place.column.share is not None:
                steps = theme.memory if place.column.key == "memory" else theme.utilization
                segments += bar(place.column.share(row), place.bar, steps, theme.track)
                segments.append(Segment(" ", theme.base))
            self._value(place, row, theme, segments)
        return segments

    def column_at(self, x: int) -> str | None:
        """Return the key of the column that cell `x` of a row belongs to."""
        right = MARGIN
        for place in self.places:
            right += place.cells + GAP
            if x < right:
                return place.column.key
        return None

    def _value(self, place: Place[Row], row: Row, theme: Theme, segments: list[Segment]) -> None:
        column, cells = place.column, place.width
        text = column.text(row)
        if len(text) > cells and width(text) > cells:
            if column.short is not None:
                text = column.short(row)
            elif cells < column.width:
                self.outgrown = True
        if text == ABSENT:
            style = theme.faint
        elif column.level is not None:
            style = theme.level(column.level(row))
        else:
            style = getattr(theme, self._roles.get(column.key, "base"))
        if len(text) < cells and text.isascii():
            text = text.rjust(cells) if column.align == ">" else text.ljust(cells)
        else:
            text = pad(text, cells, column.align)
        unit = 0 if column.align == "<" or column.key in _WHOLE_TEXTS else _unit(text)
        if unit and style is not theme.faint:
            segments.append(Segment(text[:-unit], style))
            segments.append(Segment(text[-unit:], theme.dim))
        else:
            segments.append(Segment(text, style))


def _unit(text: str) -> int:
    """Return how many characters at the end are a unit or a limit: `%`, `G`, `/700W`."""
    slash = text.find("/")
    if slash >= 0:
        return len(text) - slash
    bare = text.rstrip("%CWGMKTBHhz")
    return len(text) - len(bare) if bare.strip() else 0
