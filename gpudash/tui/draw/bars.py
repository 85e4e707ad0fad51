"""A value as a bar, and its past as a sparkline or an area of braille dots.

Bars are thin lines with half-cell steps: they keep the rows of neighbouring devices apart, where
full blocks would melt into one slab.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.table import bar_text
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
    lit, rest = bar_text(share, width, glyphs.bar)
    segments = [Segment(text, steps[step]) for text, step in _pieces(lit, width, len(steps))]
    return [*segments, Segment(rest, track)] if rest else segments


@lru_cache(maxsize=1024)
def _pieces(lit: str, width: int, steps: int) -> tuple[tuple[str, int], ...]:
    """Return the lit part as texts by colour step; there are few, each drawn often."""
    texts = (lit[step * width // steps : (step + 1) * width // steps] for step in range(steps))
    return tuple((text, step) for step, text in enumerate(texts) if text)


def sparkline(values: Sequence[float | None], top: float | None, cells: int, glyphs: Glyphs) -> str:
    """Return an area of one line; blank where nothing is known."""
    return area(values, top, (cells, 1), glyphs)[0] if top else " " * cells


BRAILLE = 0x2800
"""The blank braille character, to which the bits of the dots are added."""
_DOTS = 4
"""Dots of a braille cell, one above the other."""
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
"""The bits of the lowest 0 to 4 dots of each half of a cell."""


def points_of(cells: int, glyphs: Glyphs) -> int:
    """Return how many points a curve of this width has."""
    return 2 * cells if glyphs.braille else cells


def area(
    values: Sequence[float | None], top: float, size: tuple[int, int], glyphs: Glyphs
) -> list[str]:
    """Return `(cells, lines)` of the area below a curve, scaled to `top`; None is a gap."""
    cells, lines = size
    count = points_of(cells, glyphs)
    shown = [None] * (count - len(values)) + list(values[-count:])
    fine = _DOTS if glyphs.braille else len(glyphs.eighths) - 1
    heights = [_height(value, top, lines * fine) for value in shown]
    draw = _braille if glyphs.braille else _columns
    return [draw(heights, line * fine, glyphs) for line in reversed(range(lines))]


def height_style(steps: Sequence[Style], line: int, lines: int) -> Style:
    """Return the colour of one line of an area, the last of the steps at the top.

    A single line has the middle one.
    """
    if lines == 1:
        return steps[len(steps) // 2]
    return steps[(lines - 1 - line) * len(steps) // lines]


def _height(value: float | None, top: float, dots: int) -> int:
    """Return the lit dots of a point: at least one for zero, none for an unknown value."""
    if value is None:
        return 0
    return max(1, round(min(value / top, 1.0) * dots)) if top > 0 else 1


def _braille(heights: Sequence[int], floor: int, _glyphs: Glyphs) -> str:
    pairs = zip(heights[::2], heights[1::2], strict=True)
    dots = (_LEFT[_within(a, floor)] | _RIGHT[_within(b, floor)] for a, b in pairs)
    return "".join(chr(BRAILLE + each) if each else " " for each in dots)


def _within(height: int, floor: int) -> int:
    return max(0, min(_DOTS, height - floor))


def _columns(heights: Sequence[int], floor: int, glyphs: Glyphs) -> str:
    full = len(glyphs.eighths) - 1
    return "".join(glyphs.eighths[max(0, min(full, height - floor))] for height in heights)
