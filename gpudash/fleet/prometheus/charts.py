"""The past of metrics by range queries, asked for only while they are on the screen."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from math import inf, isfinite

from gpudash.fleet.prometheus.failures import MESSAGE_LENGTH, PrometheusError
from gpudash.fleet.prometheus.inventory import Host
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.queries import Names
from gpudash.fleet.prometheus.workers import RangeRow
from gpudash.model.fleet import ChartRequest, FleetChart, FleetLine
from gpudash.model.text import clean

_MIN_STEP = 15.0
_MIN_PERIOD, _MAX_PERIOD = 30.0, 600.0
_WHOLE_PERIOD = 300.0
"""Of a chart of all GPUs, which is dear for the server."""
_RETRY_SECONDS = 30.0
_MAX_LINES = 1 << 10


class _Chart:
    """A chart that is on the screen."""

    def __init__(self, request: ChartRequest, at: float | None) -> None:
        self.request, self.at = request, at
        self.due_at = 0.0
        self.end = 0.0
        self.step = max(_MIN_STEP, request.span_seconds / (request.points - 1))
        self.answer: FleetChart | None = None


class Charts:
    """What was asked for, and the answers; `due_at` is when there is something to ask for."""

    def __init__(self) -> None:
        self._charts: dict[tuple[ChartRequest, float | None], _Chart] = {}

    @property
    def due_at(self) -> float:
        """By the monotonic clock, infinity for never."""
        return min((chart.due_at for chart in self._charts.values()), default=inf)

    def ask(self, requests: Iterable[ChartRequest], at: float | None) -> None:
        """Replace what is on the screen."""
        known = self._charts
        keys = [(request, at) for request in requests]
        self._charts = {key: known.get(key) or _Chart(*key) for key in keys}

    def answers(self) -> tuple[FleetChart, ...]:
        """Return what has arrived."""
        return tuple(chart.answer for chart in self._charts.values() if chart.answer is not None)

    def next(self, picture: Picture, now: float) -> tuple[_Chart, list[tuple[str, str]]] | None:
        """Return what is due with the parameters of its query, None if it cannot be asked yet."""
        chart = min(self._charts.values(), key=lambda chart: chart.due_at)
        chart.due_at = inf
        layout = picture.inventory.layout
        if not layout.choices:
            chart.due_at = time.monotonic() + 1
            return None
        request = chart.request
        hosts = _hosts(picture, request)
        # Aligned, so that the server finds the same points in its cache.
        chart.end = now - now % chart.step if chart.at is None else chart.at
        expression = None
        if bool(hosts) == bool(request.hosts):
            expression = layout.chart(
                request.metric,
                _names(hosts),
                by_device=request.by_device,
                has_percent=picture.has_percent(request.hosts),
            )
        if expression is None:
            self._finish(chart, (), "the exporters of these hosts have no such metric")
            return None
        start = chart.end - chart.step * (request.points - 1)
        span = [("start", f"{start:.3f}"), ("end", f"{chart.end:.3f}")]
        return chart, [("query", expression), *span, ("step", f"{chart.step:.3f}")]

    def take(
        self, chart: _Chart, result: Sequence[RangeRow] | PrometheusError, picture: Picture
    ) -> None:
        """Take the answer to a query."""
        if isinstance(result, PrometheusError):
            self._finish(chart, chart.answer.lines if chart.answer else (), str(result))
            chart.due_at = time.monotonic() + _RETRY_SECONDS
            return
        lines = [_line(row, chart, picture) for row in result[:_MAX_LINES]]
        lines.sort(key=lambda line: (line.host or "", line.index or 0, line.uuid or ""))
        self._finish(chart, tuple(lines), None)

    def _finish(self, chart: _Chart, lines: tuple[FleetLine, ...], message: str | None) -> None:
        request = chart.request
        min_period = _MIN_PERIOD if request.hosts else _WHOLE_PERIOD
        period = min(_MAX_PERIOD, max(min_period, chart.step))
        chart.due_at = time.monotonic() + period if chart.at is None else inf
        chart.answer = FleetChart(
            metric=request.metric,
            span_seconds=request.span_seconds,
            by_device=request.by_device,
            cluster=None if request.cluster is None else clean(request.cluster),
            hosts=tuple(map(clean, request.hosts)),
            end=datetime.fromtimestamp(chart.end, timezone.utc),
            step_seconds=chart.step,
            lines=lines,
            message=None if message is None else clean(message, MESSAGE_LENGTH),
        )


def _hosts(picture: Picture, request: ChartRequest) -> list[Host]:
    names = set(request.hosts)
    return [
        host
        for host in picture.inventory.hosts.values()
        if host.name in names and request.cluster in (None, host.cluster)
    ]


def _names(hosts: Iterable[Host]) -> Names:
    names: Names = {}
    for host in hosts:
        names.setdefault((host.label[0], host.key[0]), []).append(host.label[1])
    return names


def _line(row: RangeRow, chart: _Chart, picture: Picture) -> FleetLine:
    points = chart.request.points
    values: list[float | None] = [None] * points
    start = chart.end - chart.step * (points - 1)
    for at, text in row.values:
        index = round((at - start) / chart.step)
        value = _finite(text)
        if 0 <= index < points and value is not None:
            values[index] = value
    inventory = picture.inventory
    device = inventory.device_of(row.metric) if chart.request.by_device else None
    host = inventory.host_of(row.metric)
    return FleetLine(
        host=None if host is None else host.name,
        uuid=None if device is None else device.full_uuid,
        index=None if device is None else device.index,
        values=tuple(values),
    )


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
