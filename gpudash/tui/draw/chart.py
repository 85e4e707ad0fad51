"""A chart between two axes, drawn by plotext: an area for one curve, lines for several.

This is the only import of plotext. It takes 130 ms and 15 MB, so it happens when the first chart is
opened; charts redrawn at every tick of the main screen are drawn in `bars`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import groupby, pairwise
from math import ceil, floor, log
from operator import itemgetter
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.model.text import clean, width
from gpudash.model.units import Unit, short, span
from gpudash.system.memory import give_back_freed
from gpudash.tui.draw.bars import BRAILLE, height_style
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.theme import Theme

_BYTES = frozenset({Unit.BYTE, Unit.BYTE_PER_SECOND})
_DECIMAL_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_NEAR = 0.6
"""Part of a step by which the top must exceed the last round value to be labelled too."""
_FINER = 4
"""Divisions of a labelled step, to which the ends of a tight scale are rounded."""
_TIME_STEPS = (
    *(1, 5, 10, 15, 30, 60, 120, 300, 600, 1200),
    *(3600, 7200, 14400, 21600, 43200, 86400, 2 * 86400),
)
_TIME_CELLS = 10
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_BESIDE_END = 5
"""Cells between the last label and the middle of the one before."""


class Scale(NamedTuple):
    """The values from bottom to top, some of them labelled."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()


def scaled(low: float, high: float, unit: Unit, count: int) -> Scale:
    """Return a scale from `low` to exactly `high` with about `count` round values labelled."""
    if not high > low:
        high = low + 1
    step = _step((high - low) / max(1, count), unit)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    values = [min(max(low, number * step), high) for number in range(first, last + 1)]
    if not values or high - values[-1] > _NEAR * step:
        values.append(high)
    return Scale(low, high, tuple((value, short(value, unit)) for value in values))


def tight(values: Iterable[float], unit: Unit, count: int, most: float | None = None) -> Scale:
    """Return a tight scale between round values that holds all `values`.

    It exceeds `most`, if known, only if a value does.
    """
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    margin = (high - low) / 20 or abs(high) / 20 or 1.0
    step = _step((high - low + 2 * margin) / (_FINER * max(1, count)), unit)
    bottom = floor((low - margin) / step) * step
    top = ceil((high + margin) / step) * step
    if most is not None:
        top = max(high, min(top, most))
    return scaled(max(0.0, bottom) if low >= 0 else bottom, top, unit, count)


def _step(least: float, unit: Unit) -> float:
    """Return the next round step: 1, 2, 2.5 or 5 of a power of ten, powers of two for bytes."""
    if least <= 0:
        return 1.0
    if unit in _BYTES:
        return max(1.0, 2.0 ** ceil(log(least, 2) - 1e-9))
    power = 10.0 ** floor(log(least, 10))
    return next(step * power for step in _DECIMAL_STEPS if step * power >= least * (1 - 1e-9))


def instants(seconds: float, cells: int, now: str) -> list[tuple[float, str]]:
    """Return the instants labelled below a chart as (share of its width, text), the last `now`.

    They are whole days in a chart of more than two days, whole minutes in one of more than two
    minutes. Those that would leave the last no room are left out.
    """
    room = max(1, cells // _TIME_CELLS)
    least = _DAY if seconds > 2 * _DAY else _MINUTE if seconds > 2 * _MINUTE else 1
    steps = (step for step in _TIME_STEPS if step >= least and seconds / step <= room)
    step = next(steps, seconds)
    first = ceil((width(now) + _BESIDE_END) / max(1, cells) * seconds / step)
    count = int(seconds / step + 1e-9)
    named = []
    for number in range(first, count + 1):
        behind = number * step
        # Next to 20h, a day is 24h.
        text = f"{behind / _HOUR:g}h" if _HOUR <= step < _DAY else span(behind)
        named.append((1 - behind / seconds, f"-{text}"))
    return [*reversed(named), (1.0, now)]


class Curve(NamedTuple):
    """The values of one device, from the left end to now; None is a gap."""

    label: str
    values: tuple[float | None, ...]
    style: Style


class Chart(NamedTuple):
    """The contents of a chart, the most important curve last."""

    curves: tuple[Curve, ...]
    scale: Scale
    seconds: float
    """The span of the time axis."""
    now: str
    """The label of the right end of the time axis."""
    is_memory: bool = False


@cache
def load() -> tuple[Any, str]:
    """Import plotext, in a thread so that keys still work.

    Return it, or None and why it cannot be imported.
    """
    try:
        import plotext
    except (ImportError, OSError) as error:
        return None, clean(str(error).partition("\n")[0])
    plotext.terminal.limit(False, False)
    return plotext, ""


def is_loaded() -> bool:
    """Return whether plotext was loaded, or found missing."""
    return bool(load.cache_info().currsize)


def drawn(chart: Chart, cells: int, height: int, theme: Theme) -> Sequence[Line]:
    """Return the chart in exactly `height` lines of `cells`; a message if plotext is missing."""
    if cells <= 0 or height <= 0:
        return []
    plotext, failure = load() if is_loaded() else (None, "")
    if plotext is None:
        text = f" no charts: {failure}" if failure else f" loading{theme.glyphs.ellipsis}"
        remark = fitted([Segment(text, theme.dim)], cells, theme.base)
        return [remark, *([Segment(" " * cells, theme.base)] for _ in range(height - 1))]
    return _drawn(chart, cells, height, theme)


_AXIS, _TICK, _GRID = 101, 102, 103
"""Those of plotext's 256 colours that stand for parts of a chart; curves count from 1."""
_MIN_CELLS, _MIN_LINES = 20, 4
"""Cells from which a chart has an axis at its left, and lines from which it has one below."""
_LABELLED_CELLS = 40
"""Cells from which several curves are labelled at the right end."""
_COLORED = re.compile(r"\x1b\[([0-9;]*)m")
_INDEXED = re.compile(r"38;5;([0-9]+)$")
_IN_ASCII = str.maketrans("─│┼├┤┬┴┌┐└┘", "-|+++++++++")


@lru_cache(maxsize=4)
def _drawn(chart: Chart, cells: int, height: int, theme: Theme) -> Sequence[Line]:
    """Draw a chart; cached for the same data, size and theme.

    No view has more than three, and one of eight curves takes 400 KB.
    """
    figure = _figure(chart, cells, height)
    is_single = len(chart.curves) == 1
    # Curves without a colour of their own are drawn with the last character of their labels.
    styles_used = Counter(curve.style for curve in chart.curves)
    for number, curve in enumerate(chart.curves, 1):
        letter = "*" if is_single else curve.label[-1:]
        is_shared = styles_used[curve.style] > 1
        marker = letter if is_shared or not theme.glyphs.braille else "braille"
        _add(figure, curve, chart.scale, number, marker)
    rows = [_cells_of(row) for row in figure.build().string().split("\n")[:height]]
    if is_single:
        _fill(rows, "" if theme.glyphs.braille else ":")
    styles = {_AXIS: theme.track, _TICK: theme.dim, _GRID: theme.track}
    styles |= {number: curve.style for number, curve in enumerate(chart.curves, 1)}
    lines = []
    for y, row in enumerate(rows):
        if is_single:
            steps = theme.memory if chart.is_memory else theme.utilization
            styles[1] = height_style(steps, y, height)
        line = []
        for color, group in groupby(row, key=itemgetter(1)):
            text = "".join(char for char, _ in group)
            if not theme.glyphs.braille:
                text = text.translate(_IN_ASCII)
                if color == _GRID:
                    text = text.replace("-", ".")
            line.append(Segment(text, styles.get(color, theme.base)))
        lines.append(fitted(line, cells, theme.base))
    # plotext takes 30 MB for eight noisy curves.
    give_back_freed()
    return lines + [[Segment(" " * cells, theme.base)] for _ in range(height - len(lines))]


def _figure(chart: Chart, cells: int, height: int) -> Any:
    """Return plotext's only figure, cleared, with the axes of a chart."""
    plotext, _ = load()
    figure, pixel = plotext.figure, plotext.pixel
    figure.clear()
    figure.plot_size(cells, height)
    figure.canvas("default")
    figure.legend(False)
    figure.axes(False)
    for axis, side in (("x", "lower"), ("x", "upper"), ("y", "left"), ("y", "right")):
        low, high = (0.0, 1.0) if axis == "x" else (chart.scale.low, chart.scale.high)
        ruler = figure.ruler(axis, side).frequency(0).lim(low, high).alignment("edge")
        ruler.pixel(pixel(foreground=_TICK))
    axis_pixel, scale = pixel(foreground=_AXIS), chart.scale
    if cells >= _MIN_CELLS:
        figure.axes(True, axis="y", side="left", pixel=axis_pixel)
        ruler = figure.ruler("y", "left")
        ruler.ticks([value for value, _ in scale.ticks], [text for _, text in scale.ticks])
        ruler.grid(True, pixel=pixel(foreground=_GRID))
    if height >= _MIN_LINES:
        figure.axes(True, axis="x", side="lower", pixel=axis_pixel)
        named = instants(chart.seconds, cells, chart.now)
        figure.ruler("x", "lower").ticks([x for x, _ in named], [text for _, text in named])
    if len(chart.curves) > 1 and cells >= _LABELLED_CELLS:
        ends = [
            (curve.values[-1], plotext.colorize(curve.label).fill(pixel(foreground=number)))
            for number, curve in enumerate(chart.curves, 1)
            if curve.values and curve.values[-1] is not None
        ]
        if ends:
            figure.ruler("y", "right").ticks([v for v, _ in ends], [text for _, text in ends])
    return figure


def _add(figure: Any, curve: Curve, scale: Scale, number: int, marker: str) -> None:
    """Add a curve with its points joined, except over a gap."""
    last = max(1, len(curve.values) - 1)
    known = [(x, value) for x, value in enumerate(curve.values) if value is not None]
    if not known:
        return
    across = [x / last for x, _ in known]
    heights = [min(max(value, scale.low), scale.high) for _, value in known]
    plotext, _ = load()
    pixel = plotext.pixel(foreground=number)
    signal = figure.signal(across, heights, marker=plotext.marker(marker, pixel)).lines()
    for index, ((before, _), (after, _)) in enumerate(pairwise(known), 1):
        if after - before > 1:
            signal.line(index, False)
    figure.draw(signal)


def _cells_of(text: str) -> list[tuple[str, int]]:
    """Return the characters of a plotext line with their colour numbers, 0 for none.

    Only printable characters are kept.
    """
    color, row = 0, []
    for number, part in enumerate(_COLORED.split(text)):
        if number % 2:
            found = _INDEXED.search(part)
            color = int(found[1]) if found else 0 if part in ("", "0") else color
        else:
            row += [(char, color) for char in part if char.isprintable()]
    return row


_HALVES = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The dots of a braille cell, each half from top to bottom."""
_ALL_DOTS = 0xFF


def _fill(rows: list[list[tuple[str, int]]], mark: str) -> None:
    """Fill the area below the only curve with dots, or with `mark`.

    plotext fills point by point, which takes 320 ms for a chart of 200x55.
    """
    below = [[False, False] for _ in range(max(map(len, rows), default=0))]
    for row in rows:
        for x, (char, color) in enumerate(row):
            if color in (_AXIS, _TICK):
                continue
            if mark:
                row[x] = (mark, 1) if color != 1 and below[x][0] else row[x]
                below[x][0] = below[x][0] or color == 1
            elif color == 1 or any(below[x]):
                bits = _lit(ord(char) - BRAILLE if color == 1 else 0, below[x])
                row[x] = chr(BRAILLE + bits), 1


def _lit(bits: int, below: list[bool]) -> int:
    """Return the dots of a cell including those below others, and note the halves with any."""
    if all(below):
        return _ALL_DOTS
    for half, dots in enumerate(_HALVES):
        for dot in dots:
            below[half] = below[half] or bool(bits & dot)
            bits |= dot if below[half] else 0
    return bits
