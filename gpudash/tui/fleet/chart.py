"""The past of an hour, a day or a week: a line for each GPU of a host, or the mean of all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.segment import Segment

from gpudash.analysis.history.metrics import highest_possible
from gpudash.fleet.sources import WITH_PAST
from gpudash.fleet.summary import gpu_index, gpu_of
from gpudash.model.device import device_fields
from gpudash.model.fields import label
from gpudash.model.fleet import ChartRequest, FleetChart, FleetLine, HostKey
from gpudash.model.units import Unit, counted, mean_known
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.chart import Chart, Curve, drawn, scaled, tight
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.fleet.model import SPANS, FleetModel
from gpudash.tui.theme import Theme

_SPAN_WORDS = dict(zip(SPANS, ("last hour", "last day", "last week"), strict=True))
_MAX_CURVES, _TICKS = 8, 4
_POINTS, _POINTS_OF_HOST = 60, 120
"""For a chart of all GPUs, which is expensive: for each point, the server reads every GPU."""
_MAX_NAMED, _MAX_CHARTED = 100, 1000
"""Hosts and GPUs for which a chart can be requested by name."""


def of_all(model: FleetModel) -> tuple[ChartRequest, ...]:
    """Return the chart of all GPUs to request, none if no source has it.

    With a filter, it is of the remaining hosts, if one query can name them.
    """
    if not model.time.reaches_back:
        return ()
    pasts = [source for source in model.snapshot.sources if source.kind in WITH_PAST]
    # The means of two servers do not give the mean of all.
    if len(pasts) != 1:
        return ()
    hosts: tuple[str, ...] = ()
    clusters = {row.host.cluster for row in model.rows}
    if model.is_filtered and len(clusters) == 1 and model.totals.gpus <= _MAX_CHARTED:
        hosts = tuple([row.host.name for row in model.rows[: _MAX_NAMED + 1]])
    if len(hosts) > _MAX_NAMED:
        hosts = ()
    return (_request(model, _POINTS, hosts, next(iter(clusters)) if hosts else None),)


def of_host(model: FleetModel, host: HostKey) -> tuple[ChartRequest, ...]:
    """Return the chart of a host's GPUs to request, none if no source has it."""
    if not model.time.reaches_back:
        return ()
    cluster, name = host
    return (_request(model, _POINTS_OF_HOST, (name,), cluster),)


def _request(
    model: FleetModel, points: int, hosts: tuple[str, ...], cluster: str | None
) -> ChartRequest:
    """Return the request for a chart up to the shown time, a line for each GPU of the hosts."""
    span = model.chart_seconds
    end = None if model.time.is_live else model.time.asked or model.snapshot.taken_at
    if end is not None:
        # One answer serves all times within a step.
        step = span / (points - 1)
        end = datetime.fromtimestamp(end.timestamp() // step * step, end.tzinfo)
    return ChartRequest(
        metric=model.chart_metric,
        span_seconds=span,
        hosts=hosts,
        cluster=cluster,
        by_device=bool(hosts),
        points=points,
        end=end,
    )


def answered(model: FleetModel, asked: ChartRequest) -> FleetChart | None:
    """Return the chart that answers a request of the page, None while there is none."""
    own = [each for each in model.snapshot.charts if _subject(each) == _subject(asked)]
    # An answer arrives with the present snapshot, even while time stands still.
    late = [each for each in model.history.latest.charts if _subject(each) == _subject(asked)]
    found = [each for each in (*own, *late) if asked.end in (None, each.end)] or own
    # Every server answers, even one that does not know the host.
    return max(found, key=lambda each: bool(each.lines), default=None)


def _subject(each: FleetChart | ChartRequest) -> tuple[object, ...]:
    """Return what an answer has in common with its request."""
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
        Segment(f" {label(model.chart_metric)}", theme.title),
        Segment(which, theme.dim),
        Segment(f"  {_SPAN_WORDS[model.chart_seconds]}", theme.dim),
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
    # With seconds, the last label leaves no room for the one before it.
    now = "now" if is_now else f"{found.end.astimezone():%H:%M}"
    figure = Chart(curves, scale, found.span_seconds, now, is_memory=unit is Unit.BYTE)
    return [
        spread(left, keys, cells, theme.base),
        *drawn(figure, cells, height - 1, theme),
    ]


def _mean(found: FleetChart | None, model: FleetModel) -> tuple[Sequence[FleetLine], str]:
    """Return the mean of the GPUs that pass the filter, and how many these are."""
    if found is None or not found.by_device:
        which = ", whatever the filter" if model.is_filtered and found is not None else ""
        return () if found is None else found.lines, f"  mean of all GPUs{which}"
    shown = {gpu_of(each) for row in model.rows for each in row.devices}
    lines = [line for line in found.lines if line.uuid in shown]
    steps = zip(*(line.values for line in lines), strict=True)
    mean = FleetLine(values=tuple(map(mean_known, steps)))
    return ((mean,) if lines else ()), f"  mean of {counted(len(lines), 'GPU')}"


def _of_each(found: FleetChart | None, model: FleetModel) -> tuple[Sequence[FleetLine], str]:
    """Return the lines drawn near the cursor, and a note if these are not all."""
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
