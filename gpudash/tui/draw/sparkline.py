"""Curves of two values a cell, one line high in the rows of a table or as high as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from operator import add

from rich.style import Style

from gpudash.tui.draw.area import area
from gpudash.tui.glyphs import Glyphs

_NO_STYLE = (Style.null(),)
_POINTS = 2
"""Values that share a cell."""


def sparkline(
    values: Sequence[float | None], most: float | None, cells: int, glyphs: Glyphs
) -> str:
    """Return a pair of values in each of `cells` cells; blank where nothing is known."""
    return curve(values, most, (cells, 1), glyphs)[0] if most else " " * cells


def curve(
    values: Sequence[float | None], most: float, size: tuple[int, int], glyphs: Glyphs
) -> list[str]:
    """Return the lines of a curve; all but its last cell is drawn once for many ticks."""
    cells, lines = size
    past = _drawn(tuple(values[:-_POINTS]), most, cells - 1, lines, glyphs)
    # It is another at every tick, and would only push the others out of what is remembered.
    last = _draw(values[-_POINTS:], most, 1, lines, glyphs)
    return list(map(add, past, last))


def _draw(
    values: Sequence[float | None], most: float, cells: int, lines: int, glyphs: Glyphs
) -> tuple[str, ...]:
    points = values if glyphs.braille else peaks(values)
    drawn = area(points, most, (cells, lines), _NO_STYLE, glyphs)
    return tuple(line[0].text for line in drawn)


_drawn = lru_cache(maxsize=1024)(_draw)


def peaks(values: Sequence[float | None]) -> list[float | None]:
    """Return the higher of each pair of values."""
    return [
        left if right is None else right if left is None else max(left, right)
        for left, right in zip_longest(values[::2], values[1::2])
    ]
