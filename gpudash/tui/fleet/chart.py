"""The past over an hour, a day or a week: a line for each GPU of one host, or the mean of all."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.analysis.history.metrics import highest_possible
from gpudash.fleet.summary import gpu_index, gpu_of
from gpudash.model.device import device_fields
from gpudash.model.fields import label
from gpudash.model.fleet import ChartRequest, FleetChart, FleetLine
from gpudash.model.units import Unit, counted, mean_known
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.chart import Chart, Curve, drawn, scaled, tight
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.fleet.chart_choice import SPANS
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.theme import Theme

_SPAN_WORDS = dict(zip(SPANS, ("last hour", "last day", "last week"), strict=True))
_MAX_CURVES, _TICKS = 8, 4


def answered(model: FleetModel, asked: ChartRequest) -> FleetChart | None:
    """Return the chart that answers a request of the page, None while there is none."""
    own = [each for each in model.snapshot.charts if _subject(each) == _subject(asked)]
    # An answer comes with the present, also while time stands still.
    late = [each for each in model.history.latest.charts if _subject(each) == _subject(asked)]
    found = [each for each in (*own, *late) if asked.end in (None, each.end)] or own
    # Each server answers, also one that does not know the host.
    return max(found, key=lambda each: bool(each.lines), default=None)


def _subject(each: FleetChart | ChartRequest) -> tuple[object, ...]:
    """Return what of a chart an answer has in common with its request."""
    return each.metric, each.span_seconds, each.cluster, each.hosts, each.by_device


def past(
    model: FleetModel, theme: Theme, cells: int, height: int, *, is_mean: bool = False
) -> list[Line]:
    """Return a heading and the chart, of each GPU or of their mean; nothing without a past."""
    if not model.charts:
        return []
    (asked,) = model.charts
    found = answered(model, asked)
    lines, which = (_mean if is_mean else _of_each)(found, model)
    left = [
        Segment(f" {label(model.chart.metric)}", theme.title),
        Segment(which, theme.dim),
        Segment(f"  {_SPAN_WORDS[model.chart.span_seconds]}", theme.dim),
    ]
    metric, less, more = (
        shown_key(model.keys, f"fleet.{name}") for name in ("metric", "zoom_in", "zoom_out")
    )
    keys = [Segment(f"{metric} metric  {less} {more} time ", theme.dim)]
    if found is None or not lines:
        why = f"asking{theme.glyphs.ellipsis}" if found is None else "nothing is known"
        text = str(found.message) if found is not None and found.message else why
        return [
            spread(left, keys, cells, theme.base),
            [Segment(f" {theme.cut(text, cells - 2)}", theme.dim)],
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
    is_now = model.time.is_live and age <= 2 * found.step_seconds
    # With seconds the name of the end leaves the one before it no room.
    now = "now" if is_now else f"{found.end.astimezone():%H:%M}"
    figure = Chart(curves, scale, found.span_seconds, now, is_memory=unit is Unit.BYTE)
    return [
        spread(left, keys, cells, theme.base),
        *drawn(figure, cells, height - 1, theme),
    ]


def _mean(found: FleetChart | None, model: FleetModel) -> tuple[Sequence[FleetLine], str]:
    """Return the mean of the GPUs that pass the filter, and of how many that is."""
    if found is None or not found.by_device:
        which = ", whatever the filter" if model.is_filtered and found is not None else ""
        return () if found is None else found.lines, f"  mean of all GPUs{which}"
    shown = {gpu_of(each) for row in model.rows for each in row.devices}
    lines = [line for line in found.lines if line.uuid in shown]
    steps = zip(*(line.values for line in lines), strict=True)
    mean = FleetLine(values=tuple(map(mean_known, steps)))
    return ((mean,) if lines else ()), f"  mean of {counted(len(lines), 'GPU')}"


def _of_each(found: FleetChart | None, model: FleetModel) -> tuple[Sequence[FleetLine], str]:
    """Return the lines that are drawn, and which of how many if not all: those at the cursor."""
    lines = () if found is None else found.lines
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
