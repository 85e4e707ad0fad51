"""The past of metrics by range queries, made only while their charts are on the screen."""

from __future__ import annotations

import time
from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from gpudash.fleet.prometheus.failures import MESSAGE_LENGTH, PrometheusError
from gpudash.fleet.prometheus.known import KnownHost, finite, names_by_label
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.workers import Outcome, RangeRow
from gpudash.fleet.source import chart_of
from gpudash.model.fleet import ChartRequest, FleetChart, FleetLine
from gpudash.model.text import clean

_MIN_STEP = 15.0
_MIN_PERIOD, _MAX_PERIOD = 30.0, 600.0
_WHOLE_PERIOD = 300.0
"""For a chart of all GPUs, which is expensive for the server."""
_RETRY_SECONDS = 30.0
_MAX_LINES = 1 << 10


class OpenChart:
    """A chart that is on the screen."""

    def __init__(self, request: ChartRequest) -> None:
        self.due_at = 0.0
        """When to query it, by the monotonic clock; infinity for never."""
        self.answer: FleetChart | None = None
        self._request = request
        self._at = None if request.end is None else request.end.timestamp()
        self._end = 0.0
        self._step = max(_MIN_STEP, request.span_seconds / (request.points - 1))

    def parameters(self, picture: Picture, now: float) -> list[tuple[str, str]] | None:
        """Return the parameters of its query, None if it cannot be made yet, or at all."""
        self.due_at = inf
        catalog = picture.inventory.catalog
        if not catalog.choices:
            self.due_at = time.monotonic() + 1
            return None
        request = self._request
        hosts = _hosts(picture, request)
        # Aligned, so that the server finds the same points in its cache.
        self._end = now - now % self._step if self._at is None else self._at
        expression = None
        if bool(hosts) == bool(request.hosts):
            percent = set(picture.percent_hosts())
            people = (each.people for each in picture.inventory.devices())
            expression = catalog.chart(
                request.metric,
                names_by_label(hosts),
                by_device=request.by_device,
                percent=names_by_label(percent.intersection(hosts) if hosts else percent),
                is_single=all(len(each) <= 1 for each in people),
            )
        if expression is None:
            self._finish((), "the exporters of these hosts have no such metric")
            return None
        start = self._end - self._step * (request.points - 1)
        span = [("start", f"{start:.3f}"), ("end", f"{self._end:.3f}")]
        return [("query", expression), *span, ("step", f"{self._step:.3f}")]

    def take(self, picture: Picture, result: Outcome | PrometheusError) -> None:
        """Store the answer to its query."""
        if isinstance(result, PrometheusError):
            self._finish(self.answer.lines if self.answer else (), str(result))
            self.due_at = time.monotonic() + _RETRY_SECONDS
            return
        lines = _joined(self._line(row, picture) for row in result.data.result[:_MAX_LINES])
        lines.sort(key=lambda line: (line.host or "", line.index or 0, line.uuid or ""))
        self._finish(tuple(lines), None)

    def _finish(self, lines: tuple[FleetLine, ...], message: str | None) -> None:
        min_period = _MIN_PERIOD if self._request.hosts else _WHOLE_PERIOD
        period = min(_MAX_PERIOD, max(min_period, self._step))
        self.due_at = time.monotonic() + period if self._at is None else inf
        why = None if message is None else clean(message, MESSAGE_LENGTH)
        self.answer = chart_of(self._request, self._end, self._step, lines, why)

    def _line(self, row: RangeRow, picture: Picture) -> FleetLine:
        points = self._request.points
        values: list[float | None] = [None] * points
        start = self._end - self._step * (points - 1)
        for at, text in row.values:
            index = round((at - start) / self._step)
            value = finite(text)
            if 0 <= index < points and value is not None:
                values[index] = value
        inventory = picture.inventory
        device = inventory.device_of(row.metric) if self._request.by_device else None
        host = inventory.host_of(row.metric)
        return FleetLine(
            host=None if host is None else host.name,
            uuid=None if device is None else device.full_uuid,
            index=None if device is None else device.index,
            values=tuple(values),
        )


def _joined(lines: Iterable[FleetLine]) -> list[FleetLine]:
    """Return lines with those of one host or device joined: it may have been renamed."""
    found: dict[object, FleetLine] = {}
    for line in lines:
        key = line.host, line.index, line.uuid
        known = found.get(key)
        if known is not None:
            pairs = zip(known.values, line.values, strict=True)
            known = replace(known, values=tuple([b if a is None else a for a, b in pairs]))
        found[key] = known or line
    return list(found.values())


def _hosts(picture: Picture, request: ChartRequest) -> list[KnownHost]:
    return [
        host
        for host in picture.inventory.hosts.values()
        if host.name in request.hosts and request.cluster in (None, host.cluster)
    ]
