"""The past over an hour, a day or a week: a line for each GPU of one host, or the mean of all."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.analysis.history.metrics import highest_possible
from gpudash.fleet.summary import gpu_index
from gpudash.model.device import device_fields
from gpudash.model.fields import label
from gpudash.model.fleet import ChartRequest, FleetChart, FleetLine
from gpudash.model.text import cut
from gpudash.model.units import Unit
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.chart import Chart, Curve, drawn, scaled, tight
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.fleet.head import local_time
from gpudash.tui.fleet.model import SPANS, FleetModel
from gpudash.tui.theme import Theme

_SPAN_WORDS = dict(zip(SPANS, ("last hour", "last day", "last week"), strict=True))
_MAX_CURVES, _TICKS = 8, 4


def answered(model: FleetModel, asked: ChartRequest) -> FleetChart | None:
    """Return the chart that answers a request of the page, None while there is none."""
    known = model.snapshot.charts
    if model.time.asked is None:
        # An answer comes with the present, also while time stands still.
        known += model.history.latest.charts
    found = [each for each in known if _subject(each) == _subject(asked)]
    # Each server answers, also one that does not know the host.
    return max(found, key=lambda each: bool(each.lines), default=None)


def _subject(each: FleetChart | ChartRequest) -> tuple[object, ...]:
    """Return what of a chart an answer has in common with its request."""
    return each.metric, each.span_seconds, each.cluster, each.hosts, each.by_device


def past(model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
    """Return a heading and the chart, nothing where no source has a past."""
    if not model.charts:
        return []
    (asked,) = model.charts
    found = answered(model, asked)
    lines, which = ((), "") if found is None else _shown(found, model)
    left = [
        Segment(f" {label(model.chart.metric)}", theme.title),
        Segment(which if asked.by_device else "  mean of all GPUs", theme.dim),
        Segment(f"  {_SPAN_WORDS[model.chart.span_seconds]}", theme.dim),
    ]
    metric, less, more = (
        shown_key(model.keys, f"fleet.{name}") for name in ("metric", "zoom_in", "zoom_out")
    )
    keys = [Segment(f"{metric} metric  {less} {more} time ", theme.dim)]
    if found is None or not found.lines:
        why = f"asking{theme.glyphs.ellipsis}" if found is None else "nothing is known"
        text = str(found.message) if found is not None and found.message else why
        mark = theme.glyphs.ellipsis
        return [
            spread(left, keys, cells, theme.base),
            [Segment(f" {cut(text, max(0, cells - 2), mark=mark)}", theme.dim)],
        ]
    unit = device_fields()[found.metric].unit
    curves = tuple(
        Curve(f"GPU {_name(line.index)}", line.values, theme.curves[number % len(theme.curves)])
        for number, line in enumerate(lines)
    )
    known = [value for line in lines for value in line.values if value is not None]
    devices = (device for row in model.rows for device in row.host.devices)
    top = highest_possible(device_fields()[found.metric], devices)
    is_percent = unit is Unit.PERCENT
    scale = scaled(0, 100, unit, _TICKS) if is_percent else tight(known, unit, _TICKS, top)
    age = (model.snapshot.taken_at - found.end).total_seconds()
    now = "now" if model.time.is_live and age <= 2 * found.step_seconds else local_time(found.end)
    figure = Chart(curves, scale, found.span_seconds, now, is_memory=unit is Unit.BYTE)
    return [
        spread(left, keys, cells, theme.base),
        *drawn(figure, cells, height - 1, theme),
    ]


def _shown(found: FleetChart, model: FleetModel) -> tuple[Sequence[FleetLine], str]:
    """Return the lines that are drawn, and which of how many if not all: those at the cursor."""
    lines = found.lines
    if len(lines) <= _MAX_CURVES:
        return lines, ""
    selected = model.gpus.selected
    index = None if selected is None else gpu_index(selected.host, selected.device)
    at = next((n for n, line in enumerate(lines) if line.index == index), 0)
    first = at // _MAX_CURVES * _MAX_CURVES
    shown = lines[first : first + _MAX_CURVES]
    names = dict.fromkeys((_name(shown[0].index), _name(shown[-1].index)))
    return shown, f"  GPU {'-'.join(names)}, {len(shown)} of {len(lines)}, at the cursor"


def _name(index: int | None) -> str:
    return "?" if index is None else str(index)
