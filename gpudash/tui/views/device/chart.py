"""The chart of a device: which metric, which time range, and which devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.history import History
from gpudash.analysis.history.metrics import device_metrics, highest_possible
from gpudash.analysis.history.tracks import Extent
from gpudash.analysis.table import DeviceRow
from gpudash.feed.timeline import Timeline
from gpudash.model.device import Device, device_fields
from gpudash.model.fields import Field
from gpudash.model.snapshot import EMPTY, Snapshot
from gpudash.model.units import Unit, short
from gpudash.tui.draw.chart import Chart, Curve, Scale, scaled, tight
from gpudash.tui.draw.line import Line, cells_of, spread
from gpudash.tui.theme import Theme

if TYPE_CHECKING:
    from gpudash.feed.recording.reader import Recording

RANGES = (60, 300, 1800)
"""Seconds that one key goes through; zooming has more steps."""
ZOOMS = (15, 30, 60, 120, 300, 600, 900, 1800)
LONG = (3600, 21600, 86400)
"""Further steps of both if there is a history, which has numbers per minute."""
_MINUTE = 60
_MAX_LONG_POINTS = 240
_POINTS = 120
"""Points from which the numbers beside the chart are taken."""
_MAX_CURVES = 8
"""Maximum number of distinguishable curves in one chart."""
_MAX_POINTS = 480
"""Points of all curves together: plotext takes up to 100 us for each."""
_LINES_PER_TICK = 4
_COOL_CELSIUS = 20
_INSTEAD = ("gpu_utilization_percent", "memory_used_bytes")
"""What to chart for a device without the chosen metric."""


class Time(NamedTuple):
    """The right end of a chart: an instant on the history's clock, None for now; name and date."""

    until: float | None
    name: str
    at: datetime


class _Long(NamedTuple):
    """A chart of hours: its metric, its start, and the values by device."""

    field: str
    seconds: int
    start: datetime
    extents: Mapping[str, Sequence[Extent | None]] | None = None
    """None until read."""


class ChartedDevice(NamedTuple):
    """A charted device, and the style of its curve."""

    device: Device
    label: str
    style: Style
    number: int = 0
    """Its index among all devices."""


class MetricNumbers(NamedTuple):
    """A metric's values in the time of a chart."""

    low: float
    mean: float
    high: float


class Charting:
    """The user's choice of charts, and the charts themselves."""

    def __init__(self, history: History, past: Timeline[Snapshot]) -> None:
        self.wanted = device_metrics()[0]
        """The chosen metric; a device without it shows another."""
        seen = history.now - history.began
        self.seconds = RANGES[0] if seen <= RANGES[0] else RANGES[1]
        self.overlaid: set[str] = set()
        """The keys of devices compared with the one shown."""
        self._history, self._past = history, past
        self._long, self._asked = _Long("", 0, EMPTY.taken_at), _Long("", 0, EMPTY.taken_at)
        """The chart of hours read last, and the one requested last."""

    @property
    def is_loading(self) -> bool:
        """Whether the chart is still being read."""
        return self.seconds in LONG and self._long[:2] != self._asked[:2]

    def _steps(self, steps: tuple[int, ...]) -> tuple[int, ...]:
        return (*steps, *LONG) if self._past.reaches_back else steps

    def fields(self, device: Device) -> list[str]:
        """Return the metrics of a device that can be charted: all if it has no values now."""
        known = [name for name in device_metrics() if getattr(device, name) is not None]
        return known or list(device_metrics())

    def field(self, device: Device) -> Field:
        """Return the metric charted for a device."""
        known = self.fields(device)
        likely = (name for name in (self.wanted, *_INSTEAD) if name in known)
        return device_fields()[next(likely, known[0])]

    def step_field(self, device: Device, step: int) -> None:
        """Choose the next metric of a device."""
        known = self.fields(device)
        index = known.index(self.field(device).name)
        self.wanted = known[(index + step) % len(known)]

    def step_range(self) -> None:
        """Choose the next time range, the shortest after the longest."""
        longer = (each for each in self._steps(RANGES) if each > self.seconds)
        self.seconds = next(longer, RANGES[0])

    def zoom(self, step: int) -> None:
        """Choose a longer time range, or a shorter one if negative."""
        steps = self._steps(ZOOMS)
        index = min(range(len(steps)), key=lambda number: abs(steps[number] - self.seconds))
        self.seconds = steps[max(0, min(index + step, len(steps) - 1))]

    def toggle(self, keys: Iterable[str]) -> None:
        """Overlay devices, or remove them if all of them are overlaid."""
        asked = set(keys)
        if asked <= self.overlaid:
            self.overlaid -= asked
        else:
            self.overlaid |= asked

    def shown(self, rows: Sequence[DeviceRow], key: str, theme: Theme) -> list[ChartedDevice]:
        """Return the devices of the chart in order, each with its own style."""
        return [
            ChartedDevice(row.device, row.label, theme.curves[index % len(theme.curves)], index)
            for index, row in enumerate(rows)
            if row.device.key == key or row.device.key in self.overlaid
        ]

    def legible(
        self, shown: Sequence[ChartedDevice], key: str, field: Field, time: Time
    ) -> Sequence[ChartedDevice]:
        """Return the device `key` and the highest others, as many as can be distinguished."""
        if len(shown) <= _MAX_CURVES:
            return shown

        def height(each: ChartedDevice) -> tuple[bool, float]:
            numbers = self._numbers(each.device.key, field.name, time)
            return each.device.key == key, numbers.mean if numbers else float("-inf")

        kept = sorted(shown, key=height, reverse=True)[:_MAX_CURVES]
        return sorted(kept, key=lambda each: each.number)

    def chart(
        self,
        field: Field,
        shown: Sequence[ChartedDevice],
        time: Time,
        size: tuple[int, int],
    ) -> tuple[Chart, list[MetricNumbers | None]]:
        """Return the chart of these devices, in drawing order, and their numbers."""
        keys = [each.device.key for each in shown]
        numbers = [self._numbers(key, field.name, time) for key in keys]
        scale = self._scale(field, shown, [each for each in numbers if each is not None], size[1])
        # At most one point per second, the resolution of the kept samples.
        points = max(1, min(2 * size[0], _MAX_POINTS // max(1, len(shown)), self.seconds))
        curves = tuple(
            Curve(each.label, tuple(self._series(key, field.name, points, time)), each.style)
            for each, key in zip(shown, keys, strict=True)
        )
        return Chart(curves, scale, self.seconds, time.name, field.unit is Unit.BYTE), numbers

    def _series(self, key: str, name: str, points: int, time: Time) -> Sequence[float | None]:
        """Return the values of a curve, one more than `points` for the left end of the axis."""
        if self.seconds in LONG:
            minutes = self._extents(key, name, time)
            ends = [len(minutes) * each // (points + 1) for each in range(points + 2)]
            return [_mean(minutes[start:end]) for start, end in pairwise(ends) if start < end]
        seconds = self.seconds * (points + 1) / points
        return self._history.series(key, name, seconds, points + 1, time.until)

    def _extents(self, key: str, name: str, time: Time) -> Sequence[Extent | None]:
        """Return a metric over the time; for hours, what was read last, and read what is due."""
        if self.seconds not in LONG:
            return self._history.extents(key, name, self.seconds, _POINTS, time.until)
        points = min(_MAX_LONG_POINTS, self.seconds // _MINUTE)
        step = self.seconds // points
        end = datetime.fromtimestamp(time.at.timestamp() // step * step + step, time.at.tzinfo)
        asked = _Long(name, self.seconds, end - timedelta(seconds=self.seconds))
        if asked != self._asked:
            self._asked = asked
            self._past.read_past(lambda recording: _read(recording, asked, points), self._take)
        known = self._long.extents if self._long[:2] == asked[:2] else None
        return (known or {}).get(key, ())

    def _take(self, found: _Long | None) -> None:
        if found is None or found[:2] == self._asked[:2]:
            self._long = self._asked if found is None else found

    def _numbers(self, key: str, name: str, time: Time) -> MetricNumbers | None:
        extents = self._extents(key, name, time)
        known = [extent for extent in extents if extent is not None]
        if not known:
            return None
        mean = sum(extent.mean for extent in known) / len(known)
        low, high = min(extent.low for extent in known), max(extent.high for extent in known)
        return MetricNumbers(low, mean, high)

    def _scale(
        self,
        field: Field,
        shown: Sequence[ChartedDevice],
        numbers: Sequence[MetricNumbers],
        lines: int,
    ) -> Scale:
        low = min((each.low for each in numbers), default=0.0)
        high = max((each.high for each in numbers), default=0.0)
        count = max(1, lines // _LINES_PER_TICK)
        top = highest_possible(field, [each.device for each in shown])
        bottom = min(float(_COOL_CELSIUS), low) if field.unit is Unit.CELSIUS else min(0.0, low)
        if top is None:
            return tight((bottom, high), field.unit, count)
        return scaled(bottom, max(top, high), field.unit, count)


def _read(recording: Recording, asked: _Long, points: int) -> _Long:
    """Return values from a history's numbers per minute; raises GpudashError."""
    from gpudash.analysis.history.numbers import extents
    from gpudash.feed.recording.samples import charted_lines

    end = asked.start + timedelta(seconds=asked.seconds)
    lines = charted_lines(recording, asked.start, end, asked.seconds // points)
    known = extents(lines, asked.field, asked.start, asked.seconds, points)
    return asked._replace(extents=known)


def _mean(extents: Sequence[Extent | None]) -> float | None:
    known = [each.mean for each in extents if each is not None]
    return sum(known) / len(known) if known else None


_MAX_LEGEND_LINES = 2


def title(
    field: Field,
    of: str,
    device: Device,
    numbers: MetricNumbers | None,
    time: str,
    theme: Theme,
    cells: int,
) -> Line:
    """Return the charted metric, `of` which device, its numbers over the `time`, and that."""
    now = short(getattr(device, field.name), field.unit)
    head = [Segment(f" {field.label}{of}  ", theme.title), Segment(now, theme.strong)]
    right = [Segment(f" {time} ", theme.dim)]
    parts = [
        [Segment(f"{name} ", theme.dim), Segment(short(round(value), field.unit), theme.base)]
        for name, value in zip(("min", "mean", "max"), numbers or (), strict=False)
    ]
    room = cells - cells_of(head) - cells_of(right)
    gap = _gap(sum(map(cells_of, parts)), len(parts), room)
    while parts and sum(cells_of(part) + gap for part in parts) > room:
        parts.pop()
    line = [segment for part in parts for segment in (Segment(" " * gap, theme.dim), *part)]
    return spread([*head, *line], right, cells, theme.base)


def _gap(taken: int, count: int, room: int) -> int:
    """Return the gap between numbers, smaller if there is no room."""
    return next((gap for gap in (3, 2) if taken + count * gap <= room), 1)


def legend(
    shown: Sequence[ChartedDevice], asked: int, field: Field, theme: Theme, cells: int
) -> list[Line]:
    """Return each curve's coloured label and present value, in at most two lines.

    If there are more GPUs, `asked`, than can be shown, say which are.
    """
    lines: list[Line] = [[Segment(" GPU ", theme.heading)]]
    if len(shown) < asked:
        lines[0].append(Segment(f" {len(shown)} of {asked}, the highest by mean: ", theme.dim))
    for part in (_entry(each, field, theme) for each in shown):
        if cells_of(lines[-1]) + cells_of(part) > cells:
            if len(lines) == _MAX_LEGEND_LINES:
                break
            lines.append([Segment("     ", theme.heading)])
        lines[-1] += part
    return lines


def _entry(each: ChartedDevice, field: Field, theme: Theme) -> Line:
    value = short(getattr(each.device, field.name), field.unit)
    return [Segment(f" {each.label} ", each.style), Segment(f"{value} ", theme.dim)]
