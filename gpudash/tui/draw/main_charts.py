"""The past of all GPUs beside each other, on one time axis.

It ends with now at the right, and grows to the left, a column every two seconds, until it is full;
then columns cover twice the time, so that it always shows the whole past.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment

from gpudash.analysis.history import History, Key
from gpudash.analysis.history.metrics import device_metrics, highest_possible
from gpudash.model.device import Device, chart_fields
from gpudash.model.fields import Field
from gpudash.model.snapshot import Host
from gpudash.model.units import Unit, duration, mean_known, short
from gpudash.tui.draw.bars import area, height_style, points_of
from gpudash.tui.draw.line import Line, fitted, joined, spread
from gpudash.tui.theme import Glyphs, Theme

MAX_SECONDS = 1800
"""The longest time shown; beyond it, each new column displaces the oldest."""
_MIN_SECONDS = 2
"""The shortest time of a column: each half of a braille character has a second."""
_MAX_KEPT = 1024

Values = list[float | None]


class _Finished(Struct, frozen=True):
    """All columns of a curve but the last, which never change."""

    seconds: int
    first: int
    end: int
    texts: list[str]


class Trends:
    """Curves of a history, all ending at the same instant."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._until = self._began = 0.0
        self._finished: dict[object, _Finished] = {}

    def show(self, moment: float | None) -> None:
        """Let all curves end at an instant of the past, or now."""
        self._until = self._history.now if moment is None else moment
        if self._began != self._history.began or len(self._finished) > _MAX_KEPT:
            self._finished.clear()
        self._began = self._history.began

    def column_seconds(self, cells: int) -> int:
        """Return the time of a column, doubled until `cells` hold everything."""
        seconds = _MIN_SECONDS
        while (
            2 * seconds * cells <= MAX_SECONDS
            and self._until // seconds - self._began // seconds >= cells
        ):
            seconds *= 2
        return seconds

    def filled(self, cells: int) -> str:
        """Return the time from the first value to the instant shown, and of how much it may be."""
        first, column, seconds = self._columns(cells)
        span = duration(max(1.0, self._until - max(self._began, float(first * seconds))))
        is_full = column - first + 1 >= cells
        return span if is_full else f"{span} of {duration(seconds * cells)}"

    def values(self, keys: Sequence[Key], field: str, cells: int, glyphs: Glyphs) -> Values:
        """Return the mean of the keys' known values at each point of `cells` columns."""
        first, column, seconds = self._columns(cells)
        points = self._points(keys, field, range(first, column + 1), seconds, glyphs)
        return [None] * (cells * points_of(1, glyphs) - len(points)) + points

    def lines(
        self,
        keys: Sequence[Key],
        field: str,
        top: float | None,
        size: tuple[int, int],
        glyphs: Glyphs,
    ) -> list[str]:
        """Return that mean as an area in lines of `cells`; blank where unknown."""
        cells, height = size
        if not top:
            return [" " * cells] * height
        first, column, seconds = self._columns(cells)
        name = (*keys, field, top, size, glyphs.braille)
        done = self._finished.get(name)
        if done is None or done.seconds != seconds or not done.first <= first <= done.end <= column:
            done = _Finished(seconds, first, first, [""] * height)

        columns = range(done.end, column + 1)
        points = self._points(keys, field, columns, seconds, glyphs)
        new = area(points, top, (len(columns), height), glyphs)
        texts = [
            old[first - done.first :] + text[:-1] for old, text in zip(done.texts, new, strict=True)
        ]
        self._finished[name] = _Finished(seconds, first, column, texts)
        before = " " * (cells - (column - first) - 1)
        return [before + old + text[-1] for old, text in zip(texts, new, strict=True)]

    def _columns(self, cells: int) -> tuple[int, int, int]:
        """Return the numbers of the first and of the last column, and the time of each."""
        seconds = self.column_seconds(cells)
        column = int(self._until // seconds)
        first = max(int(self._began // seconds), column - cells + 1)
        return min(first, column), column, seconds

    def _points(
        self, keys: Sequence[Key], field: str, columns: range, seconds: int, glyphs: Glyphs
    ) -> Values:
        """Return the points of columns, the last of which is that of the instant shown."""
        each = points_of(1, glyphs)
        width = seconds / each
        count = max(1, int(self._until // width) - columns.start * each + 1)
        series = self._history.series
        rows = [series(key, field, count * width, count, self._until) for key in keys]
        points = rows[0] if len(rows) == 1 else [*map(mean_known, zip(*rows, strict=True))]
        # Half a column at either end would differ from the next, as the curve moves by whole ones.
        early = max(0, int(self._began // width) - columns.start * each)
        late = len(columns) * each - count
        return points[early : early + 1] * early + points[early:] + points[-1:] * late


_MARGIN, _GAP = 1, 3
_WIDE, _MIN_BLOCK = 160, 24
"""Width from which metrics are side by side, and minimum width of a curve with its label."""
_FIRST = ("gpu_utilization_percent", "memory_used_bytes", "power_usage_mw", "temperature_celsius")
_VALUE = 7


class _Band(Struct, frozen=True):
    """A curve: its subject, its maximum, its present value."""

    label: str
    keys: tuple[Key, ...]
    field: str
    value: str
    unit: Unit
    top: float | None
    """None means the highest value in the block."""


class _Block(Struct, frozen=True):
    """Curves below each other, and the title above them."""

    title: str
    unit: Unit
    bands: list[_Band]
    extras: list[_Band]
    """Extra curves if there is room: the mean of all, and the host."""


def curve_count(devices: Iterable[Device], cells: int, metric: str = "") -> int:
    """Return how many curves are stacked, 0 if no GPU has values.

    A GPU without values is suspended or lost.
    """
    gpus = [device for device in devices if not device.is_mig]
    fields = _known(gpus, [metric, *_FIRST])
    if not fields:
        return 0
    if len(gpus) == 1:
        return len(_FIRST)
    count = max(len(_charted(gpus, field)) for field in fields[: 2 if cells >= _WIDE else 1])
    return count + (2 if count > 1 else 1)


def charted_fields(devices: Iterable[Device]) -> list[Field]:
    """Return all metrics with values on some GPU, the usual ones first."""
    gpus = [device for device in devices if not device.is_mig]
    return _known(gpus, [*_FIRST, *device_metrics()])


def _known(gpus: Sequence[Device], names: Iterable[str]) -> list[Field]:
    return [
        chart_fields()[name]
        for name in dict.fromkeys(names)
        if name and any(getattr(gpu, name) is not None for gpu in gpus)
    ]


def charts(
    host: Host,
    devices: Sequence[Device],
    trends: Trends,
    theme: Theme,
    size: tuple[int, int],
    metric: str = "",
) -> list[Line]:
    """Return a title and a curve for each GPU in exactly the lines and cells of `size`.

    A single GPU has a curve for each of some metrics. Empty if no GPU has values.
    """
    cells, height = size
    gpus = [device for device in devices if not device.is_mig]
    fields = _known(gpus, [metric, *_FIRST])
    if not fields or height < 2:
        return []
    blocks = _blocks(host, gpus, fields, cells, height - 1)
    share, rest = divmod(cells - 2 * _MARGIN + _GAP, len(blocks))
    room = share - _GAP
    # The remainder goes after the first block, so that the last one ends like all other lines.
    rooms = [room + rest, *[room] * (len(blocks) - 1)]
    label = max(len(band.label) for block in blocks for band in (*block.bands, *block.extras))
    curve = max(1, room - label - 1 - _VALUE)
    blocks = [_scaled(block, trends, (curve, height - 1), theme.glyphs) for block in blocks]
    drawn = [_drawn(block, trends, theme, (label, curve, height - 1)) for block in blocks]
    margin, gap = Segment(" " * _MARGIN, theme.base), Segment(" " * _GAP, theme.base)
    lines: list[Line] = [_heading(blocks, rooms, trends, theme, (cells, curve))]
    for row in range(height - 1):
        line = [margin]
        for number, block_lines in enumerate(drawn):
            line += [gap] if number else []
            line += fitted(block_lines[row], rooms[number], theme.base)
        lines.append(joined(line))
    return lines


def _blocks(
    host: Host, gpus: Sequence[Device], fields: Sequence[Field], cells: int, height: int
) -> list[_Block]:
    if len(gpus) == 1:
        return _of_one(gpus[0], fields, height, 2 if cells >= _WIDE else 1)
    if cells >= _WIDE and len(gpus) <= height:
        return [_of_all(host, gpus, field) for field in fields[:2]]
    block = _of_all(host, gpus, fields[0])
    across = -(-len(block.bands) // height)
    if across == 1:
        return [block]
    if (cells - 2 * _MARGIN + _GAP) // across - _GAP < _MIN_BLOCK:
        return [replace(block, bands=block.extras[:1], extras=block.extras[1:])]
    size = -(-len(block.bands) // across)
    parts = [block.bands[start : start + size] for start in range(0, len(block.bands), size)]
    return [
        replace(block, title="" if number else block.title, bands=part, extras=[])
        for number, part in enumerate(parts)
    ]


def _of_one(gpu: Device, fields: Sequence[Field], height: int, across: int) -> list[_Block]:
    """Return the curves of some metrics in this many columns."""
    shown = [field for field in fields if field.name in _FIRST or field is fields[0]]
    size = min(height, -(-len(shown) // across))
    bands = [_band(field.label, [gpu], field) for field in shown[: size * across]]
    return [
        _Block("" if start else f"GPU {gpu.index}", Unit.NONE, bands[start : start + size], [])
        for start in range(0, len(bands), size)
    ]


def _of_all(host: Host, gpus: Sequence[Device], field: Field) -> _Block:
    """Return the curves of a metric: of each GPU that has it or is lost, then of all together."""
    shown = _charted(gpus, field)
    mean = _band("mean", shown, field)
    bands = [replace(_band(str(gpu.index), [gpu], field), top=mean.top) for gpu in shown]
    if field.unit is Unit.BYTE:
        extra = _host_band("RAM", "memory_used_bytes", host, field.unit, host.memory_total_bytes)
    else:
        extra = _host_band("CPU", "cpu_percent", host, Unit.PERCENT, 100)
    return _Block(field.label, field.unit, bands, [mean, extra] if len(shown) > 1 else [extra])


def _charted(gpus: Sequence[Device], field: Field) -> list[Device]:
    return [gpu for gpu in gpus if gpu.state != "ok" or getattr(gpu, field.name) is not None]


def _band(label: str, gpus: Sequence[Device], field: Field) -> _Band:
    value = mean_known(getattr(gpu, field.name) for gpu in gpus)
    keys = tuple(gpu.key for gpu in gpus)
    top = highest_possible(field, gpus)
    return _Band(label, keys, field.name, _whole(value, field.unit), field.unit, top)


def _host_band(label: str, field: str, host: Host, unit: Unit, top: float | None) -> _Band:
    return _Band(label, (None,), field, _whole(getattr(host, field), unit), unit, top)


def _whole(value: float | None, unit: Unit) -> str:
    """Return a value without the decimals that a mean has and its neighbours lack."""
    return short(None if value is None else round(value), unit)


def _scaled(block: _Block, trends: Trends, size: tuple[int, int], glyphs: Glyphs) -> _Block:
    """Return a block with a common scale for the GPUs of one metric, given in the title.

    If the host's scale differs, the title adds it.
    """
    cells, height = size
    missing = [band for band in block.bands if band.top is None]
    if missing:
        values = [v for b in missing for v in trends.values(b.keys, b.field, cells, glyphs)]
        highest = max((value for value in values if value is not None), default=0.0)
        # In large steps, so that curves rarely have to be redrawn.
        top = 2.0 ** ceil(log(highest, 2)) if highest > 0 else 1.0
        every = [replace(each, top=each.top or top) for each in (*block.bands, *block.extras)]
        count = len(block.bands)
        block = replace(block, bands=every[:count], extras=every[count:])
    tops = {band.top for band in block.bands}
    if block.unit is Unit.NONE or not block.title or len(tops) != 1:
        return block
    reach = short(tops.pop(), block.unit)
    shown = [(band.label, short(band.top, band.unit)) for band, _ in _heights(block, height)]
    others = [f", {label} to {other}" for label, other in shown if other != reach]
    scale = f"{short(0, block.unit)} to {reach}{''.join(others)}"
    return replace(block, title=f"{block.title}  {scale}")


def _heading(
    blocks: Sequence[_Block],
    rooms: Sequence[int],
    trends: Trends,
    theme: Theme,
    size: tuple[int, int],
) -> Line:
    """Return the titles, and at the right end the time of all curves and that of a column."""
    cells, curve = size
    left: Line = [Segment(" " * _MARGIN, theme.base)]
    for block, room in zip(blocks, rooms, strict=True):
        title = [Segment(block.title, theme.heading)]
        left += [*fitted(title, room, theme.base), Segment(" " * _GAP, theme.base)]
    text = f" last {trends.filled(curve)}, {duration(trends.column_seconds(curve))} a column "
    return spread(left, [Segment(text, theme.dim)], cells, theme.base)


def _drawn(block: _Block, trends: Trends, theme: Theme, size: tuple[int, int, int]) -> list[Line]:
    """Return the curves of a block in this many lines, with labels at their left."""
    label, cells, height = size
    lines: list[Line] = []
    for band, count in _heights(block, height):
        steps = theme.memory if band.unit is Unit.BYTE else theme.utilization
        texts = trends.lines(band.keys, band.field, band.top, (cells, count), theme.glyphs)
        for number, text in enumerate(texts):
            name, value = ("", "") if number else (band.label, band.value)
            lines.append(
                [
                    Segment(f"{name:>{label}} ", theme.strong),
                    Segment(text, height_style(steps, number, count)),
                    Segment(f"{value:>{_VALUE}}", theme.base),
                ]
            )
    return lines + [[] for _ in range(height - len(lines))]


def _heights(block: _Block, height: int) -> list[tuple[_Band, int]]:
    """Return the lines of each curve, divided equally."""
    shown = [*block.bands, *block.extras][: max(len(block.bands), height)]
    return [(band, height // len(shown)) for band in shown]
