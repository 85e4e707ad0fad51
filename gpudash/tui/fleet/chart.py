"""The past over an hour, a day or a week: a line for each GPU of one host, or the mean of all."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.model.device import device_fields
from gpudash.model.fields import label
from gpudash.model.fleet import FleetChart
from gpudash.model.text import cut
from gpudash.model.units import Unit
from gpudash.tui.draw.chart import Chart, Curve, drawn, scaled, tight
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.fleet.head import clock
from gpudash.tui.fleet.model import SPANS, FleetModel
from gpudash.tui.theme import Theme

_SPAN_WORDS = dict(zip(SPANS, ("last hour", "last day", "last week"), strict=True))
_MAX_CURVES, _TICKS = 8, 4


def answered(model: FleetModel) -> FleetChart | None:
    """Return the chart that the page asks for, None while there is none."""
    host = None if model.host is None else model.host[1]
    fitting = (
        each
        for each in model.snapshot.charts
        if (each.metric, each.span_seconds) == (model.chart.metric, model.chart.span_seconds)
        and each.by_device == (host is not None)
        and all(line.host in (None, host) for line in each.lines)
    )
    return next(fitting, None)


def past(model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
    """Return a heading and the chart, nothing where no source has a past."""
    if not model.request.charts:
        return []
    found = answered(model)
    left = [
        Segment(f" {label(model.chart.metric)}", theme.title),
        Segment("" if model.host else "  mean of all GPUs", theme.dim),
        Segment(f"  {_SPAN_WORDS[model.chart.span_seconds]}", theme.dim),
    ]
    keys = [Segment("Tab metric  + - time ", theme.dim)]
    if found is None or not found.lines:
        why = f"asking{theme.glyphs.ellipsis}" if found is None else "nothing is known"
        text = str(found.message) if found is not None and found.message else why
        mark = theme.glyphs.ellipsis
        return [
            spread(left, keys, cells, theme.base),
            [Segment(f" {cut(text, max(0, cells - 2), mark=mark)}", theme.dim)],
        ]
    unit = device_fields()[found.metric].unit
    lines = found.lines[-_MAX_CURVES:]
    curves = tuple(
        Curve(f"GPU {_name(line.index)}", line.values, theme.curves[number % len(theme.curves)])
        for number, line in enumerate(lines)
    )
    known = [value for line in lines for value in line.values if value is not None]
    is_percent = unit is Unit.PERCENT
    scale = scaled(0, 100, unit, _TICKS) if is_percent else tight(known, unit, _TICKS)
    age = (model.snapshot.taken_at - found.end).total_seconds()
    now = "now" if model.time.moment is None and age <= 2 * found.step_seconds else clock(found.end)
    figure = Chart(curves, scale, found.span_seconds, now, is_memory=unit is Unit.BYTE)
    return [
        spread(left, keys, cells, theme.base),
        *drawn(figure, cells, height - 1, theme),
    ]


def _name(index: int | None) -> str:
    return "?" if index is None else str(index)
