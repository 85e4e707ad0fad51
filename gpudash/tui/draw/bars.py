"""Bars as thin lines with half-cell steps, coloured in a few steps along their length.

A line keeps the rows of neighbouring devices apart, where full blocks would melt into one slab.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from operator import add

from rich.segment import Segment
from rich.style import Style

from gpudash.tui.draw.chart import area
from gpudash.tui.theme import UNICODE, Glyphs


def bar(
    share: float | None,
    width: int,
    steps: Sequence[Style],
    track: Style,
    glyphs: Glyphs = UNICODE,
) -> list[Segment]:
    """Return a bar of exactly `width` cells; an unknown share leaves it blank."""
    if share is None:
        return [Segment(" " * width, track)]
    pieces = _drawn(_halves(share, width), width, len(steps), glyphs)
    return [Segment(text, track if step is None else steps[step]) for text, step in pieces]


@lru_cache(maxsize=1024)
def _drawn(
    halves: int, width: int, steps: int, glyphs: Glyphs
) -> tuple[tuple[str, int | None], ...]:
    """Return the texts of a bar with so many lit halves, each with its step, None for the track.

    There are few, and each is drawn often.
    """
    whole, half = divmod(halves, 2)
    pieces: list[tuple[str, int | None]] = []
    for step in range(steps):
        start, end = step * width // steps, (step + 1) * width // steps
        lit = max(0, min(end, whole) - start)
        tip = glyphs.bar_half if half and start <= whole < end else ""
        if lit or tip:
            pieces.append((glyphs.bar_whole * lit + tip, step))
    rest = width - whole - half
    if rest:
        pieces.append((glyphs.bar_track * rest, None))
    return tuple(pieces)


def _halves(share: float, width: int) -> int:
    """Return the lit half cells: none only at zero, all only at one."""
    if share <= 0:
        return 0
    if share >= 1:
        return 2 * width
    return max(1, min(2 * width - 1, round(share * 2 * width)))


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
    past = _sparkline_drawn(tuple(values[:-_POINTS]), most, cells - 1, lines, glyphs)
    # It is another at every tick, and would only push the others out of what is remembered.
    last = _draw(values[-_POINTS:], most, 1, lines, glyphs)
    return list(map(add, past, last))


def _draw(
    values: Sequence[float | None], most: float, cells: int, lines: int, glyphs: Glyphs
) -> tuple[str, ...]:
    points = values if glyphs.braille else peaks(values)
    drawn = area(points, most, (cells, lines), _NO_STYLE, glyphs)
    return tuple(line[0].text for line in drawn)


_sparkline_drawn = lru_cache(maxsize=1024)(_draw)


def peaks(values: Sequence[float | None]) -> list[float | None]:
    """Return the higher of each pair of values."""
    return [
        left if right is None else right if left is None else max(left, right)
        for left, right in zip_longest(values[::2], values[1::2])
    ]
