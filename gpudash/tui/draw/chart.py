"""A chart of one metric: an area for one device, lines for several, between two named axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.labels import index_ranges
from gpudash.model.device import Device
from gpudash.model.text import pad, width
from gpudash.model.units import Unit, short, span
from gpudash.tui.draw.bars import BRAILLE, area, height_style, points_of
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.theme import Glyphs, Theme

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The dots of a braille cell by line and column."""
_PATTERNS = (1, 3, 2)
"""Every how many columns a level curve has a dot, so that its shape distinguishes it, too."""
_BLANK = " "


class Curve(NamedTuple):
    """The values of one device; None is a gap."""

    label: str
    mark: str
    """The character that draws it where there is no braille."""
    values: Sequence[float | None]
    style: Style
    number: int = 0
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
    pattern = _PATTERNS[curve.number % len(_PATTERNS)]
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
    return Segment(chr(BRAILLE + bits) if bits else owner.mark, owner.style)


_BYTES = frozenset({Unit.BYTE, Unit.BYTE_PER_SECOND})
_DECIMAL_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_NEAR = 0.6
"""How much of a step the top must be above the last round value to be named as well."""
_FINER = 4
"""Steps, of those between two named values, to which the ends of a tight scale are rounded."""
_TIME_STEPS = (1, 5, 10, 15, 30, 60, 120, 300, 600)
_TIME_CELLS, _MINUTE = 10, 60


class Scale(NamedTuple):
    """The values from bottom to top, some of them named."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Return how high a value stands, 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def scaled(low: float, high: float, unit: Unit, count: int) -> Scale:
    """Return a scale from `low` to exactly `high` with about `count` round values named."""
    if not high > low:
        high = low + 1
    step = _step((high - low) / max(1, count), unit)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    values = [number * step for number in range(first, last + 1)]
    if not values or high - values[-1] > _NEAR * step:
        values.append(high)
    return Scale(low, high, tuple((value, short(value, unit)) for value in values))


def tight(values: Iterable[float], unit: Unit, count: int) -> Scale:
    """Return the scale between round values that holds all `values` and wastes little."""
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    margin = (high - low) / 20 or abs(high) / 20 or 1.0
    step = _step((high - low + 2 * margin) / (_FINER * max(1, count)), unit)
    bottom = floor((low - margin) / step) * step
    return scaled(
        max(0.0, bottom) if low >= 0 else bottom, ceil((high + margin) / step) * step, unit, count
    )


def instants(seconds: float, cells: int, now: str) -> list[tuple[float, str]]:
    """Return the instants named below a chart as (share of its width, text), the last is `now`."""
    room = max(1, cells // _TIME_CELLS)
    least = _MINUTE if seconds > 2 * _MINUTE else 1
    steps = (step for step in _TIME_STEPS if step >= least and seconds / step <= room)
    step = next(steps, seconds)
    count = int(seconds / step + 1e-9)
    named = [
        (1 - number * step / seconds, f"-{span(number * step)}") for number in range(1, count + 1)
    ]
    return [*reversed(named), (1.0, now)]


def _step(least: float, unit: Unit) -> float:
    """Return the next round step: 1, 2, 2.5 or 5 of a power of ten, powers of two for bytes."""
    if least <= 0:
        return 1.0
    if unit in _BYTES:
        return max(1.0, 2.0 ** ceil(log(least, 2) - 1e-9))
    power = 10.0 ** floor(log(least, 10))
    return next(step * power for step in _DECIMAL_STEPS if step * power >= least * (1 - 1e-9))


_MIN_CELLS, _MIN_LINES = 24, 3
"""Below these a chart has no axis at its left, and none below it."""
_MAX_LABEL = 8
_END_POINTS = 4
"""How near to its right end a curve must have a value to be labelled there."""
_BLANKS_OR_DOTS = re.compile(r" +|[^ ]+")


class Chart(NamedTuple):
    """What is drawn, the curve of most interest last."""

    curves: Sequence[Curve]
    scale: Scale
    seconds: float
    """The span of the time axis."""
    now: str
    """What the right end of the time axis is called."""
    is_memory: bool = False


class Shown(NamedTuple):
    """A device that is charted, and the style of its curve."""

    device: Device
    label: str
    style: Style
    number: int = 0
    """Its number among all devices, which its curve keeps."""


class Numbers(NamedTuple):
    """A metric in the time of a chart."""

    low: float
    mean: float
    high: float


class Frame(NamedTuple):
    """How a chart divides its room: its axes and, between them, the canvas."""

    left: int
    right: int
    cells: int
    lines: int
    has_times: bool


Canvas = Callable[[Chart, Frame, Theme], list[Line]]
"""Draws the curves of a chart in the room between its axes."""


def frame(chart: Chart, cells: int, height: int) -> Frame:
    """Return the room of each part; canvas and axes are exactly `(cells, height)` together."""
    left = right = 0
    if cells >= _MIN_CELLS:
        left = 2 + max((width(text) for _value, text in chart.scale.ticks), default=0)
        if len(chart.curves) > 1:
            widest = max(width(curve.label) for curve in chart.curves)
            right = 1 + (min(_MAX_LABEL, widest + 2) if len(chart.curves) == 2 else _MAX_LABEL)
        left, right = min(left, cells // 3), min(right, cells // 3)
    has_times = height >= _MIN_LINES
    return Frame(left, right, cells - left - right, height - has_times, has_times)


def drawn(
    chart: Chart, cells: int, height: int, theme: Theme, canvas: Canvas | None = None
) -> list[Line]:
    """Return the chart in exactly `height` lines of `cells`, its curves drawn by `canvas`."""
    if cells <= 0 or height <= 0:
        return []
    parts = frame(chart, cells, height)
    ticks = _rows(((chart.scale.share(value), text) for value, text in chart.scale.ticks), parts)
    ends = _ends(chart, parts, theme) if parts.right else {}
    lines = []
    for row, line in enumerate((canvas or _canvas)(chart, parts, theme)):
        label = f"{pad(ticks.get(row, ''), parts.left - 1, '>')} " if parts.left else ""
        middle = _ruled(line, theme) if row in ticks else line
        lines.append(
            fitted([Segment(label, theme.dim), *middle, *ends.get(row, [])], cells, theme.base)
        )
    if parts.has_times:
        lines.append(_times(chart, parts, cells, theme))
    return lines


def _canvas(chart: Chart, parts: Frame, theme: Theme) -> list[Line]:
    size, scale, glyphs = (parts.cells, parts.lines), chart.scale, theme.glyphs
    if len(chart.curves) != 1:
        return overlaid(chart.curves, scale, size, theme.base, glyphs)
    values = [None if value is None else value - scale.low for value in chart.curves[0].values]
    steps = theme.memory if chart.is_memory else theme.utilization
    texts = area(values, scale.high - scale.low, size, glyphs)
    return [
        [Segment(text, height_style(steps, line, parts.lines))] for line, text in enumerate(texts)
    ]


def _rows(named: Iterable[tuple[float, str]], parts: Frame) -> dict[int, str]:
    """Return the texts by the line at whose height they stand, the first of two on one."""
    last = parts.lines - 1
    rows: dict[int, str] = {}
    for share, text in named:
        rows.setdefault(last - round(share * last), text)
    return rows


def _ends(chart: Chart, parts: Frame, theme: Theme) -> dict[int, Line]:
    """Return the labels of the curves at the heights where they end, by line."""
    last = parts.lines - 1
    rows: dict[int, list[Curve]] = {}
    for curve in chart.curves:
        value = next((v for v in reversed(curve.values[-_END_POINTS:]) if v is not None), None)
        if value is not None:
            rows.setdefault(last - round(chart.scale.share(value) * last), []).append(curve)
    return {
        row: [Segment(" ", theme.base), Segment(_names(curves, parts.right - 1), curves[-1].style)]
        for row, curves in rows.items()
    }


def _names(curves: Sequence[Curve], cells: int) -> str:
    """Return the labels of curves that end on one line, as many whole ones as fit."""
    for first in range(len(curves)):
        labels = [curve.label for curve in curves[first:]]
        text = ",".join(labels)
        if all(label.isdigit() for label in labels):
            text = index_ranges(map(int, labels))
        text += "+" if first else ""
        if width(text) <= cells:
            return text
    return ""


def _ruled(line: Line, theme: Theme) -> Line:
    """Return a line of the canvas with a faint rule where it is blank."""
    out: Line = []
    for text, style, _ in line:
        for part in _BLANKS_OR_DOTS.findall(text):
            blank = part[0] == " "
            out.append(
                Segment(
                    theme.glyphs.rule * len(part) if blank else part,
                    theme.track if blank else style,
                )
            )
    return out


def _times(chart: Chart, parts: Frame, cells: int, theme: Theme) -> Line:
    """Return the time axis: each text ends below its instant, the first begins there."""
    text = " " * parts.left
    for share, name in instants(chart.seconds, parts.cells, chart.now):
        end = parts.left + round(share * parts.cells)
        start = max(end - len(name), parts.left)
        if start > len(text) or not text.strip():
            text = text.ljust(start) + name
    return fitted([Segment(text, theme.dim)], cells, theme.base)
