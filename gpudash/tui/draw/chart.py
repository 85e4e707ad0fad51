"""A chart of one metric: an area for one device, lines for several, between two named axes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.labels import index_ranges
from gpudash.model.device import Device
from gpudash.model.text import pad, width
from gpudash.tui.draw.area import area
from gpudash.tui.draw.curves import Curve, overlaid
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.draw.scale import Scale, instants
from gpudash.tui.theme import Theme

_LEAST_CELLS, _LEAST_LINES = 24, 3
"""Below these a chart has no axis at its left, and none below it."""
_MOST_LABEL = 8
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
    """A device that is charted, and the look of its curve."""

    device: Device
    label: str
    style: Style
    place: int = 0
    """Its place among all devices, which its curve keeps."""


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
    if cells >= _LEAST_CELLS:
        left = 2 + max((width(text) for _value, text in chart.scale.ticks), default=0)
        if len(chart.curves) > 1:
            widest = max(width(curve.label) for curve in chart.curves)
            right = 1 + (min(_MOST_LABEL, widest + 2) if len(chart.curves) == 2 else _MOST_LABEL)
        left, right = min(left, cells // 3), min(right, cells // 3)
    has_times = height >= _LEAST_LINES
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
    return area(values, scale.high - scale.low, size, steps, glyphs)


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
