"""The one door to plotext: curves of joined points for the chart that fills the screen.

Its import takes 130 ms and 15 MB, a picture of eight curves three times as long as `curves` needs.
So it is loaded for the large chart alone; what always stands on screen is drawn by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rich.segment import Segment
from rich.style import Style

from gpudash.tui.draw.chart import Chart, Curve, Frame, Scale
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.theme import Theme

_COLORED = re.compile(r"\x1b\[([0-9;]*)m")
_INDEXED = "38;5;"


def plotted(chart: Chart, parts: Frame, theme: Theme) -> list[Line]:
    """Return the curves of a chart on its canvas.

    Raises ImportError where plotext cannot be loaded, such as on a machine that it is not built
    for.
    """
    plotext = _blank(parts)
    styles = {}
    for number, curve in enumerate(chart.curves, 1):
        _add(plotext, curve, chart.scale, number, braille=theme.glyphs.braille)
        styles[f"{_INDEXED}{number}"] = curve.style
    text: str = plotext.figure.build().string()
    lines = [_line(row, styles, theme.base) for row in text.split("\n")[: parts.lines]]
    lines += [[] for _ in range(parts.lines - len(lines))]
    return [fitted(line, parts.cells, theme.base) for line in lines]


def _blank(parts: Frame) -> Any:
    """Return plotext, its figure without axes and colours, for instants and values from 0 to 1."""
    try:
        import plotext
    except OSError as error:
        raise ImportError(str(error)) from None
    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(parts.cells, parts.lines)
    figure.canvas("default")
    figure.axes(False)
    for axis in ("x", "y"):
        figure.ruler(axis).frequency(0).lim(0.0, 1.0).alignment("edge")
    figure.legend(False)
    return plotext


def _add(plotext: Any, curve: Curve, scale: Scale, color: int, *, braille: bool) -> None:
    """Add a curve whose points are joined, but not over a gap."""
    last = max(1, len(curve.values) - 1)
    known = [(x, value) for x, value in enumerate(curve.values) if value is not None]
    if not known:
        return
    marker = plotext.marker("braille" if braille else curve.mark, plotext.pixel(foreground=color))
    across = [x / last for x, _value in known]
    heights = [scale.share(value) for _x, value in known]
    signal = plotext.figure.signal(across, heights, marker=marker).lines()
    for number, ((before, _), (after, _)) in enumerate(pairwise(known), 1):
        if after - before > 1:
            signal.line(number, False)
    plotext.figure.draw(signal)


def _line(text: str, styles: Mapping[str, Style], blank: Style) -> Line:
    """Return a line of plotext's, whose colours are the numbers of the curves."""
    line: Line = []
    style = blank
    for number, part in enumerate(_COLORED.split(text)):
        if number % 2:
            style = styles.get(part, blank)
        elif part:
            line.append(Segment(part, style))
    return line
