"""Several curves over each other on one canvas: lines of dots, or each with a mark of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.tui.draw.area import points_of
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.scale import Scale
from gpudash.tui.glyphs import Glyphs

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The dots of a braille cell by line and column."""
_PATTERNS = (1, 3, 2)
"""Every how many columns a curve has a dot where it runs level, so that shape tells it too."""
_BLANK = " "


class Curve(NamedTuple):
    """The values of one device; None is a gap."""

    label: str
    mark: str
    """The character that draws it where there is no braille."""
    values: Sequence[float | None]
    style: Style
    place: int = 0
    """Which of several it is: neighbours have lines of another kind."""


def overlaid(
    curves: Sequence[Curve], scale: Scale, size: tuple[int, int], blank: Style, glyphs: Glyphs
) -> list[Line]:
    """Return `(cells, lines)` of all curves; where two meet the later one gives the colour."""
    cells, lines = size
    dots = [[0] * cells for _ in range(lines)]
    owners: list[list[Curve | None]] = [[None] * cells for _ in range(lines)]
    for curve in curves:
        levels = _levels(curve, scale, size, glyphs)
        if glyphs.braille:
            _dotted(levels, curve, dots, owners)
        else:
            _marked(levels, curve, owners)
    return [
        [_cell(bits, owner, blank) for bits, owner in zip(*row, strict=True)]
        for row in zip(dots, owners, strict=True)
    ]


def _levels(curve: Curve, scale: Scale, size: tuple[int, int], glyphs: Glyphs) -> list[int | None]:
    """Return the height of each point in dots from the top, aligned to the right."""
    cells, lines = size
    most = lines * (len(_DOTS) if glyphs.braille else 1) - 1
    count = points_of(cells, glyphs)
    shown = [None] * (count - len(curve.values)) + list(curve.values[-count:])
    return [None if value is None else most - round(scale.share(value) * most) for value in shown]


def _dotted(
    levels: Sequence[int | None],
    curve: Curve,
    dots: list[list[int]],
    owners: list[list[Curve | None]],
) -> None:
    """Draw a line of dots, rises and falls in full."""
    pattern = _PATTERNS[curve.place % len(_PATTERNS)]
    before: int | None = None
    for x, level in enumerate(levels):
        if level is not None and (x % pattern == 0 or level != before):
            start = level if before is None or before == level else before
            for y in range(min(start, level), max(start, level) + 1):
                line, cell = y // len(_DOTS), x // 2
                dots[line][cell] |= _DOTS[y % len(_DOTS)][x % 2]
                owners[line][cell] = curve
        before = level


def _marked(levels: Sequence[int | None], curve: Curve, owners: list[list[Curve | None]]) -> None:
    for x, level in enumerate(levels):
        if level is not None:
            owners[level][x] = curve


def _cell(bits: int, owner: Curve | None, blank: Style) -> Segment:
    if owner is None:
        return Segment(_BLANK, blank)
    return Segment(chr(_BRAILLE + bits) if bits else owner.mark, owner.style)
