"""Tables row by row: columns fitted to a width, each value formatted once and drawn in a theme."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.table import GAP, Column, FittedColumn, fit
from gpudash.model.text import cut, fold, pad, width
from gpudash.model.units import ABSENT
from gpudash.tui.draw.bars import bar
from gpudash.tui.draw.line import Line, joined
from gpudash.tui.theme import Theme

Row = TypeVar("Row")

Curve = Callable[[Row, int, Theme], str]
"""Draws the past of a row's value in a number of cells."""

Part = tuple[Segment, ...]
"""A value of a row with the gap before it; usually the same object if unchanged."""

MARGIN = 1
"""Blank cells at both ends of a row."""

_MARGIN, _GAP = " " * MARGIN, " " * GAP
_MAX_DRAWN = 1024
"""Drawn values cached per column: most stay the same for long."""
_WHOLE_TEXTS = frozenset({"pid", "time", "idle", "elapsed", "left"})
"""Right-aligned columns whose text does not end in a unit."""


def trend(key: str, field: str, header: str, width: int, priority: int) -> Column[Any]:
    """Return a column for the past of a field of a row's device, a dash if that has no value."""
    return Column(
        key=key,
        header=header,
        text=lambda row: ABSENT if getattr(row.device, field, None) is None else "",
        sort_key=lambda row: "",
        width=width,
        stretch=48,
        priority=priority,
    )


def with_trends(
    columns: Iterable[Column[Row]], trends: Mapping[str, Column[Row]]
) -> list[Column[Row]]:
    """Return columns with those of their past after some of them, by key."""
    pairs = ((column, trends.get(column.key)) for column in columns)
    return [each for pair in pairs for each in pair if each is not None]


class Grid(Generic[Row]):
    """Columns kept until the width or the rows change, or a value outgrows them or adds one.

    `roles` names a column's style in the theme; `curves` draws the stretching columns.
    """

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        roles: Mapping[str, str],
        *,
        bar: int = 0,
        curves: Mapping[str, Curve[Row]] | None = None,
    ) -> None:
        self.fitted: list[FittedColumn[Row]] = []
        self.outgrown = False
        self._columns = columns
        self._roles = roles
        self._bar = bar
        self._curves = curves or {}
        self._absent: list[Column[Row]] = []
        self._themed_for: tuple[list[FittedColumn[Row]], Theme] | None = None
        self._styles: list[Style] = []
        """The style of each column for values without a level."""
        # The style is kept so that its id is not reused.
        self._drawn: list[dict[tuple[str, int], tuple[Style, Part]]] = []
        self._ticking: list[int] = []
        """The indices of columns that change with time alone."""
        self._margin: Part = ()
        self._fitted_to: object = None
        self._seen: object = None
        """The rows last fitted: those of one snapshot are one object."""

    def fit(self, rows: Sequence[Row], identity: object, room: int, *, sorted_by: str = "") -> None:
        """Choose the columns for a line of `room` cells, if `identity` of the rows changed.

        They include the one that rows are `sorted_by`.
        """
        absent = () if rows is self._seen else self._absent
        self._seen = rows
        if (
            self._fitted_to == (identity, room, sorted_by)
            and not self.outgrown
            and not any(column.has_content(rows) for column in absent)
        ):
            return
        self._fitted_to, self.outgrown = (identity, room, sorted_by), False
        self._absent = [c for c in self._columns if c.priority and not c.has_content(rows)]
        self.fitted = fit(
            self._columns, rows, room - 2 * MARGIN, bar=self._bar, sorted_by=sorted_by
        )

    def rows(
        self,
        everything: Sequence[Row],
        identity: object,
        room: int,
        visible: Iterable[Row],
        draw: Callable[[Row], Line],
        *,
        sorted_by: str = "",
    ) -> list[Line]:
        """Return a line for each visible row, with columns fitted to `everything`; see `fit`.

        `draw` makes a line of a row. Columns found too narrow are widened.
        """
        shown = [*visible]
        self.fit(everything, identity, room, sorted_by=sorted_by)
        lines = [draw(row) for row in shown]
        if self.outgrown:
            self.fit(everything, identity, room, sorted_by=sorted_by)
            lines = [draw(row) for row in shown]
        return lines

    def heading(
        self,
        theme: Theme,
        *,
        sorted_by: str = "",
        down: bool = False,
        names: Mapping[str, str] | None = None,
    ) -> list[Segment]:
        """Return the headings; an arrow before one marks the order of the rows.

        `names` replaces headings, by the key of the column.
        """
        text, gap = "", _MARGIN
        start = end = 0
        for fitted in self.fitted:
            header = (names or {}).get(fitted.column.key, fitted.column.header)
            align = "<" if fitted.bar else fitted.column.align
            text, gap = text + gap + pad(header, fitted.cells, align), _GAP
            if fitted.column.key == sorted_by:
                start = len(text) - (len(header) if align == ">" else fitted.cells) - 1
                end = start + 1 + len(header)
        text += gap
        if end:
            sign = theme.glyphs.arrow_down if down else theme.glyphs.arrow_up
            text = text[:start] + sign + text[start + 1 :]
        return [
            Segment(text[:start], theme.heading),
            Segment(text[start:end], theme.sorted),
            Segment(text[end:], theme.heading),
        ]

    def draw(
        self, row: Row, theme: Theme, *, keep: int | None = None, mark: str = "", shift: int = 0
    ) -> list[Segment]:
        """Return the values of a row, stopping after `keep` columns.

        `mark` is drawn in the margin; `shift` omits the first cells of the growing column.
        """
        return [*chain(*self.parts(row, theme, keep=keep, mark=mark, shift=shift))]

    def parts(
        self, row: Row, theme: Theme, *, keep: int | None = None, mark: str = "", shift: int = 0
    ) -> list[Part]:
        """Return the margin and each value of a row with the gap before it; see `draw`."""
        self._apply_theme(theme)
        parts = [(Segment(mark, theme.warn),) if mark else self._margin]
        for number, fitted in enumerate(self.fitted[:keep]):
            if fitted.bar or fitted.column.stretch or (shift and fitted.column.grows):
                parts.append(self._special(number, row, theme, shift))
            else:
                parts.append(self._value(number, row, theme, _GAP if number else ""))
        return parts

    def tick(self, row: Row, theme: Theme, before: Sequence[Part]) -> list[Part]:
        """Return the parts of a row that has only aged."""
        parts = [*before]
        for number in self._ticking:
            parts[number + 1] = self._value(number, row, theme, _GAP if number else "")
        return parts

    @property
    def starts(self) -> list[int]:
        """The cells at which the columns begin."""
        starts, x = [], MARGIN
        for fitted in self.fitted:
            starts.append(x)
            x += fitted.cells + GAP
        return starts

    @property
    def sortable(self) -> list[str]:
        """The keys of the columns, in their order."""
        return [each.column.key for each in self.fitted]

    def column_at(self, x: int) -> str | None:
        """Return the key of the column that cell `x` of a row belongs to."""
        right = MARGIN
        for fitted in self.fitted:
            right += fitted.cells + GAP
            if x < right:
                return fitted.column.key
        return None

    def _apply_theme(self, theme: Theme) -> None:
        """Prepare the styles of the columns, again only for other columns or another theme."""
        if self._themed_for and self._themed_for[0] is self.fitted and self._themed_for[1] is theme:
            return
        self._themed_for = self.fitted, theme
        self._styles = [self._of_column(fitted.column, theme) for fitted in self.fitted]
        self._drawn = [{} for _ in self.fitted]
        self._ticking = [n for n, fitted in enumerate(self.fitted) if fitted.column.ticks]
        self._margin = (Segment(_MARGIN, theme.base),)

    def _special(self, number: int, row: Row, theme: Theme, shift: int) -> Part:
        """Return a value drawn specially after a gap: with a bar, as a curve, or shifted."""
        fitted = self.fitted[number]
        column = fitted.column
        segments = [Segment(_GAP if number else "", theme.base)]
        if fitted.bar and column.share is not None:
            steps = theme.memory if column.key == "memory" else theme.utilization
            segments += bar(column.share(row), fitted.bar, steps, theme.track, theme.glyphs)
            segments.append(Segment(" ", theme.base))
        if column.stretch:
            text = self._curves[column.key](row, fitted.width, theme)
            segments.append(Segment(text, self._style(number, row, theme)))
        elif shift and column.grows:
            text = pad(_tail(column.text(row), shift, theme), fitted.width)
            segments.append(Segment(text, theme.base))
        else:
            segments += self._value(number, row, theme, "")
        return tuple(segments)

    def _value(self, number: int, row: Row, theme: Theme, gap: str) -> Part:
        """Return a value after a gap, cached once drawn."""
        fitted, known = self.fitted[number], self._drawn[number]
        column, cells = fitted.column, fitted.width
        text = column.text(row)
        if len(text) > cells and width(text) > cells:
            if column.short is not None:
                text = column.short(row)
            elif cells < column.width:
                self.outgrown = True
        if text == ABSENT:
            text, style = theme.absent, theme.faint
        else:
            style = self._style(number, row, theme)
        drawn = known.get((text, id(style)))
        if drawn is None:
            if len(known) >= _MAX_DRAWN:
                known.clear()
            value = _aligned(column, text, cells, style, theme)
            drawn = style, tuple(joined((Segment(gap, theme.base), *value)))
            known[text, id(style)] = drawn
        return drawn[1]

    def _style(self, number: int, row: Row, theme: Theme) -> Style:
        """Return the style of a value: by its level, or by its column."""
        level = self.fitted[number].column.level
        return self._styles[number] if level is None else theme.level(level(row))

    def _of_column(self, column: Column[Row], theme: Theme) -> Style:
        """Return the style of a column; the middle one of several steps."""
        role: Style | tuple[Style, ...] = getattr(theme, self._roles.get(column.key, "base"))
        return role[len(role) // 2] if isinstance(role, tuple) else role


def within_margins(text: str, style: Style, cells: int) -> list[Line]:
    """Return a text, wrapped to as many lines as needed."""
    texts = fold(text, max(1, cells - 2 * MARGIN))
    return [[Segment(_MARGIN + text, style)] for text in texts]


def _aligned(column: Column[Row], text: str, cells: int, style: Style, theme: Theme) -> Part:
    """Return a text padded to its cells, with its unit in another style."""
    if len(text) < cells and text.isascii():
        text = text.rjust(cells) if column.align == ">" else text.ljust(cells)
    else:
        text = pad(text, cells, column.align, mark=theme.glyphs.ellipsis)
    unit = 0 if column.align == "<" or column.key in _WHOLE_TEXTS else _unit(text)
    if unit and style is not theme.faint:
        return Segment(text[:-unit], style), Segment(text[-unit:], theme.dim)
    return (Segment(text, style),)


def _tail(text: str, shift: int, theme: Theme) -> str:
    """Return a text without its first cells, with a mark in their place."""
    gone = width(cut(text, shift, mark=""))
    rest = text[len(cut(text, shift, mark="")) :] if gone else text
    return theme.glyphs.ellipsis + rest if rest else ""


def _unit(text: str) -> int:
    """Return how many characters at the end are a unit or a limit: `%`, `G`, `/700W`."""
    slash = text.find("/")
    if slash >= 0:
        return len(text) - slash
    bare = text.rstrip("%CWGMKTBHhz")
    return len(text) - len(bare) if bare.strip() else 0
