"""Rows under columns as styled lines: numbers, bars, headings, nothing around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpudash.analysis.health.levels import Level
from gpudash.analysis.table import GAP, Place
from gpudash.model.text import clean, cut, pad, width
from gpudash.model.units import ABSENT
from gpudash.output.ansi import Style

Line = list[tuple[str, Style]]
"""One line: texts and how they look."""

Row = TypeVar("Row")

_NUMBER = "0123456789."
_EIGHTHS = " ▏▎▍▌▋▊▉"
_BARS: dict[Level, Style] = {"unknown": "dim", "ok": "green", "warn": "yellow", "critical": "red"}
# A number that is fine needs no colour of its own: what is coloured stands out.
_NUMBERS: dict[Level, Style] = {**_BARS, "ok": "plain"}


def heading(places: Sequence[Place[Row]]) -> Line:
    """Return the headers, each over its bar and text."""
    line: Line = []
    for place in places:
        align = "<" if place.bar else place.column.align
        line += [(pad(place.column.header, place.cells, align), "dim"), (" " * GAP, "plain")]
    return line[:-1]


def body(places: Sequence[Place[Row]], rows: Sequence[Row], *, ascii: bool) -> list[Line]:
    """Return one line for each row."""
    lines: list[Line] = [[] for _ in rows]
    for place in places:
        for line, row, text in zip(lines, rows, _texts(place, rows, ascii), strict=True):
            gap: Line = [(" " * GAP, "plain")] if line else []
            line.extend(gap + _bar_before(place, row, ascii) + _cell(place, row, text))
    return lines


def fitted(line: Line, room: int) -> Line:
    """Return a line cut to that many cells."""
    out: Line = []
    for text, style in line:
        out.append((cut(text, room, mark=""), style))
        room -= width(out[-1][0])
    return out


def shown(text: str, ascii: bool) -> str:
    """Return text fit for a terminal, with `ascii` everything beyond that escaped.

    A recording or another host may hold what no reader of this one has cleaned.
    """
    safe = clean(text)
    return safe.encode("ascii", "backslashreplace").decode("ascii") if ascii else safe


def ellipsis(ascii: bool) -> str:
    """Return what stands for a part left out."""
    return "..." if ascii else "…"


def bar(share: float, cells: int, *, ascii: bool) -> str:
    """Return a bar over that many cells, `share` of it filled; blocks show a sliver above 0."""
    share = min(max(share, 0.0), 1.0)
    if ascii:
        filled = round(share * cells)
        return "#" * filled + "." * (cells - filled)
    eighths = max(round(share * cells * 8), share > 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(cells)


def _texts(place: Place[Row], rows: Sequence[Row], ascii: bool) -> list[str]:
    """Return the texts of a column cut to its width, in the short form if any is too long."""
    column = place.column
    texts = [shown(column.text(row), ascii) for row in rows]
    if column.short and any(width(text) > place.width for text in texts):
        texts = [shown(column.short(row), ascii) for row in rows]
    return [pad(text, place.width, column.align, mark=ellipsis(ascii)) for text in texts]


def _bar_before(place: Place[Row], row: Row, ascii: bool) -> Line:
    share = place.column.share
    if not place.bar or share is None:
        return []
    value = share(row)
    drawn = " " * place.bar if value is None else bar(value, place.bar, ascii=ascii)
    return [(drawn, _style(_BARS, place.column.level, row)), (" ", "plain")]


def _cell(place: Place[Row], row: Row, text: str) -> Line:
    """Return a text in its style; behind a number, its unit and what it is compared with dim."""
    level = place.column.level
    if text.strip() == ABSENT:
        return [(text, "dim")]
    if place.column.align == "<":
        return [(text, _style(_BARS, level, row))]
    unit = text.lstrip(" ").lstrip(_NUMBER)
    # `3m07s` is one number of two units; what stands behind a slash is another one.
    unit = unit if "/" in unit or not any(map(str.isdigit, unit)) else ""
    number = text.removesuffix(unit)
    return [(number, _style(_NUMBERS, level, row)), (unit, "dim")]


def _style(styles: dict[Level, Style], level: Callable[[Row], Level] | None, row: Row) -> Style:
    return styles[level(row)] if level else "plain"
