"""The last minutes of all GPUs together: curves side by side, as many as the width holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.history import History, Key
from gpudash.analysis.table import DeviceRow
from gpudash.model.device import Device
from gpudash.model.units import celsius, duration, percent, short_size, watts
from gpudash.tui.draw.bars import curve, height_style
from gpudash.tui.draw.line import Line, cells_of, fitted, joined, spread
from gpudash.tui.theme import Theme

COLUMN_SECONDS = (5, 10)
"""What a column stands for: the less, the younger the history, so that a curve soon fills."""
_POINTS = 2
"""Points in a column: the halves of a braille cell."""

Values = list[float | None]
Join = Callable[[Sequence[float]], float]


class Trends:
    """Series of a history, all of them up to the same instant."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._until = 0.0
        self._scales = {seconds: _Scale(seconds) for seconds in COLUMN_SECONDS}

    def show(self, moment: float | None) -> None:
        """Let all series end at an instant of the past, or now."""
        self._until = self._history.now if moment is None else moment
        for scale in self._scales.values():
            scale.show(self._until, self._history.began)

    def column_seconds(self, columns: int) -> int:
        """Return the seconds that each column stands for: what lets them hold everything."""
        age = self._until - self._history.began
        fitting = (seconds for seconds in COLUMN_SECONDS if columns * seconds >= age)
        return next(fitting, COLUMN_SECONDS[-1])

    def values(self, key: Key, field: str, columns: int) -> Values:
        """Return two points for each column, the later of the last one None until its time."""
        return self._joined((key, field, columns), (key,), field, columns, None)

    def joined(self, keys: Sequence[str], field: str, columns: int, join: Join) -> Values:
        """Return what `join` makes of the known values of several devices, point by point."""
        return self._joined((tuple(keys), field, columns, join), keys, field, columns, join)

    def _joined(
        self, name: object, keys: Sequence[Key], field: str, columns: int, join: Join | None
    ) -> Values:
        scale = self._scales[self.column_seconds(columns)]
        column, past = scale.past.get(name, (scale.column - columns, []))
        new = scale.column - column
        if new >= columns:
            past = self._points(scale, keys, field, columns, join)[:-_POINTS]
        elif new:
            finished = self._points(scale, keys, field, new + 1, join)[:-_POINTS]
            past = past[new * _POINTS :] + finished
        scale.past[name] = scale.column, past
        return past + self._points(scale, keys, field, 1, join)

    def _points(
        self, scale: _Scale, keys: Sequence[Key], field: str, columns: int, join: Join | None
    ) -> Values:
        """Return the points of whole columns, so that one begins where a column does."""
        begun = int(self._until // scale.point_seconds) - scale.column * _POINTS + 1
        count = (columns - 1) * _POINTS + begun
        seconds = count * scale.point_seconds
        rows = [self._history.series(key, field, seconds, count, self._until) for key in keys]
        points = (
            rows[0] if join is None else [_join(point, join) for point in zip(*rows, strict=True)]
        )
        return points + [None] * (_POINTS - begun)


class _Scale:
    """Columns of the same number of seconds, and what is known of all but the last."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.point_seconds = seconds / _POINTS
        self.column = -1
        """Number of the last column."""
        self.past: dict[object, tuple[int, Values]] = {}
        """Points of all columns but the last, and the number of the last one when they were."""
        self._began = 0.0

    def show(self, until: float, began: float) -> None:
        """Let the last column be that of an instant, in a history that began at another."""
        column = int(until // self.seconds)
        if began != self._began or column < self.column:
            self.past.clear()
        elif column > self.column:
            # What was not asked for meanwhile may be gone for good.
            self.past = {name: past for name, past in self.past.items() if past[0] == self.column}
        self.column, self._began = column, began


def _join(values: Sequence[float | None], join: Join) -> float | None:
    known = [value for value in values if value is not None]
    return join(known) if known else None


_MIN_CELLS, _MAX_ACROSS, _MARGIN, _BETWEEN, _LABEL = 36, 4, 1, 2, 5
_MIN_BAND, _ROOMY_BAND = 6, 10
"""Lines of the lowest charts that are worth another band of them, and one of lesser numbers."""


_FIELDS = (
    "gpu_utilization_percent",
    "memory_used_bytes",
    "power_usage_mw",
    "temperature_celsius",
)


def _mean(values: Sequence[float]) -> float:
    # `statistics` takes 3 ms to import.
    return sum(values) / len(values)


class _Chart(NamedTuple):
    """A number of all GPUs: how it is put together, how high it may be now, how it is written."""

    title: str
    field: str
    join: Join
    most: float
    text: Callable[[float | None], str]
    is_memory: bool = False
    is_live: bool = True
    """Whether its GPUs report it now, and not only in the past that the curve shows."""


_Band = list[tuple[_Chart, tuple[str, ...]]]
"""Charts that stand side by side, each with the devices that it is about."""


def any_chart(rows: Iterable[DeviceRow]) -> bool:
    """Return whether there is anything to chart: a GPU that is suspended or lost has no values."""
    gpus = (row.device for row in rows if not row.device.is_mig)
    return any(getattr(gpu, field) is not None for gpu in gpus for field in _FIELDS)


def charts(
    devices: Sequence[Device], trends: Trends, theme: Theme, cells: int, height: int
) -> list[Line]:
    """Return a title and curves in `height` lines, those of each GPU below where they fit.

    Nothing is returned where no GPU has values.
    """
    gpus = [device for device in devices if not device.is_mig]
    shown = _charts(gpus)
    across = min(_MAX_ACROSS, max(1, (cells - 2 * _MARGIN + _BETWEEN) // (_MIN_CELLS + _BETWEEN)))
    if not shown or height < 2:
        return []
    keys = tuple(gpu.key for gpu in gpus)
    bands = [[(chart, keys) for chart in shown[:across]]]
    each = _even(
        [(_of_one(gpu), (gpu.key,)) for gpu in gpus if not _has_no_utilization(gpu)], across
    )
    if sum(map(len, each)) > 1 and height >= (len(each) + 1) * _MIN_BAND:
        bands += each
    together = _even([(chart, keys) for chart in shown], across)
    if height >= (len(bands) - 1 + len(together)) * _ROOMY_BAND:
        bands[:1] = together
    lines: list[Line] = []
    for number, band in enumerate(bands):
        room = (height - len(lines)) // (len(bands) - number)
        space: list[Line] = [[]] if number and room > _MIN_BAND else []
        lines += space + _band(band, trends, theme, cells, room - len(space))
    return lines


def _even(band: _Band, across: int) -> list[_Band]:
    """Return charts in bands that are as full as each other, of `across` at most."""
    count = -(-len(band) // across)
    size = -(-len(band) // count) if count else 1
    return [band[start : start + size] for start in range(0, len(band), size)]


def _has_no_utilization(gpu: Device) -> bool:
    """Return whether a GPU has no utilization of its own, as in MIG mode."""
    return bool(gpu.mig_mode) and gpu.gpu_utilization_percent is None


def _band(
    band: _Band,
    trends: Trends,
    theme: Theme,
    cells: int,
    height: int,
) -> list[Line]:
    """Return charts side by side."""
    room = (cells - 2 * _MARGIN + _BETWEEN) // len(band) - _BETWEEN
    blocks = [_drawn(chart, keys, trends, theme, (room, height)) for chart, keys in band]
    margin, gap = Segment(" " * _MARGIN, theme.base), Segment(" " * _BETWEEN, theme.base)
    lines: list[Line] = []
    for row in zip_longest(*blocks):
        line: Line = [margin]
        for number, part in enumerate(row):
            line += [gap] if number else []
            line += fitted(part or [], room, theme.base)
        lines.append(joined(line))
    return lines


def _of_one(gpu: Device) -> _Chart:
    is_live = gpu.gpu_utilization_percent is not None
    title = f"GPU {gpu.index}"
    return _Chart(title, "gpu_utilization_percent", max, 100, percent, is_live=is_live)


def _charts(gpus: Sequence[Device]) -> list[_Chart]:
    """Return the charts that these GPUs have values for, the most important first."""
    known = [gpu.index for gpu in gpus if gpu.gpu_utilization_percent is not None]
    of = f", mean of {len(known)}" if len(known) != 1 else f", GPU {known[0]}"
    memory = _total(gpu.memory_total_bytes for gpu in gpus)
    power = _total(gpu.enforced_power_limit_mw for gpu in gpus)
    all_charts = (
        _Chart(
            f"UTILIZATION{of if len(gpus) > 1 else ''}",
            "gpu_utilization_percent",
            _mean,
            100,
            percent,
        ),
        _Chart("MEMORY", "memory_used_bytes", sum, memory, short_size, is_memory=True),
        _Chart("POWER", "power_usage_mw", sum, power, watts),
        _Chart(
            "TEMPERATURE, highest" if len(gpus) > 1 else "TEMPERATURE",
            "temperature_celsius",
            max,
            100,
            celsius,
        ),
    )
    return [
        chart
        for chart in all_charts
        if chart.most and any(getattr(gpu, chart.field) is not None for gpu in gpus)
    ]


def _total(values: Iterable[int | None]) -> float:
    return float(sum(value for value in values if value))


def _drawn(
    chart: _Chart, keys: Sequence[str], trends: Trends, theme: Theme, size: tuple[int, int]
) -> list[Line]:
    """Return the title with the value of now, and the curve beside its scale."""
    room, lines = size[0], size[1] - 1
    columns = max(1, room - _LABEL - 1)
    values = trends.joined(keys, chart.field, columns, chart.join)
    known = [value for value in values if value is not None]
    now = known[-1] if known and chart.is_live else None
    # What it was before a GPU was lost may be more than those that are left can reach.
    chart = chart._replace(most=max(chart.most, *known)) if known else chart
    steps = theme.memory if chart.is_memory else theme.utilization
    texts = curve(values, chart.most, (columns, lines), theme.glyphs)
    span = duration(columns * trends.column_seconds(columns))
    return [
        _heading(chart.title, chart.text(now), span, room, theme),
        *(
            [*_scale(chart, line, lines, theme), Segment(text, height_style(steps, line, lines))]
            for line, text in enumerate(texts)
        ),
    ]


def _heading(title: str, value: str, span: str, room: int, theme: Theme) -> Line:
    """Return title and value at the left, at the right the time that is shown if it fits."""
    left = [Segment(title, theme.heading), Segment(f"  {value}", theme.strong)]
    fitting = (text for text in (f"last {span}", span) if cells_of(left) + len(text) < room)
    return spread(left, [Segment(next(fitting, ""), theme.faint)], room, theme.base)


def _scale(chart: _Chart, line: int, lines: int, theme: Theme) -> Line:
    """Return what a line stands for, at the top, in the middle and at the bottom."""
    text = ""
    if line == 0:
        text = chart.text(chart.most)
    elif line == lines - 1:
        text = chart.text(0)
    elif line == lines // 2 and lines % 2 and lines > 4:
        text = chart.text(chart.most / 2)
    return [Segment(f"{text:>{_LABEL}} ", theme.faint)]
