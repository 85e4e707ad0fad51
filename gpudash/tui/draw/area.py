"""A filled curve of several lines: braille, two points a cell, or columns of one point in ASCII."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from gpudash.tui.draw.line import Line
from gpudash.tui.glyphs import Glyphs

_DOTS = 4
"""Dots of a braille cell, one above the other."""

_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_BRAILLE = 0x2800


def points_of(cells: int, glyphs: Glyphs) -> int:
    """Return how many points a curve of so many cells shows."""
    return 2 * cells if glyphs.braille else cells


def area(
    values: Sequence[float | None],
    most: float,
    size: tuple[int, int],
    steps: Sequence[Style],
    glyphs: Glyphs,
) -> list[Line]:
    """Return `(cells, lines)` of a curve whose top is `most`, coloured by height; None is a gap."""
    cells, lines = size
    count = points_of(cells, glyphs)
    shown = [None] * (count - len(values)) + list(values[-count:])
    fine = _DOTS if glyphs.braille else len(glyphs.eighths) - 1
    heights = [_height(value, most, lines * fine) for value in shown]
    drawn = []
    for line in range(lines):
        floor = (lines - 1 - line) * fine
        text = _braille(heights, floor) if glyphs.braille else _columns(heights, floor, glyphs)
        drawn.append([Segment(text, steps[(lines - 1 - line) * len(steps) // lines])])
    return drawn


def _height(value: float | None, most: float, dots: int) -> int:
    """Return the lit dots of a point: one at least for zero, none for what is not known."""
    if value is None:
        return 0
    return max(1, round(min(value / most, 1.0) * dots)) if most > 0 else 1


def _braille(heights: Sequence[int], floor: int) -> str:
    pairs = zip(heights[::2], heights[1::2], strict=True)
    dots = (_LEFT[_within(a, floor)] | _RIGHT[_within(b, floor)] for a, b in pairs)
    return "".join(chr(_BRAILLE + each) if each else " " for each in dots)


def _within(height: int, floor: int) -> int:
    return max(0, min(_DOTS, height - floor))


def _columns(heights: Sequence[int], floor: int, glyphs: Glyphs) -> str:
    most = len(glyphs.eighths) - 1
    return "".join(glyphs.eighths[max(0, min(most, height - floor))] for height in heights)
