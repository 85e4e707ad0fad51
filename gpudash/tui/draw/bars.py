"""Bars as thin lines with half-cell steps, coloured in a few steps along their length.

A line keeps the rows of neighbouring devices apart, where full blocks would melt into one slab.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style

from gpudash.tui.glyphs import UNICODE, Glyphs


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
