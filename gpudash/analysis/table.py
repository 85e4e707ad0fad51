"""Tables for print and screen: columns fitted to a width, bars, and the rows of devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpudash.analysis.health.findings import findings_by_device, statuses
from gpudash.analysis.labels import gpu_ranges, mig_labels
from gpudash.analysis.status import status_level
from gpudash.analysis.usage import memory_of, memory_percent
from gpudash.model.device import Device, device_labels
from gpudash.model.process import Process
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.state import Level, State
from gpudash.model.text import Align, width
from gpudash.model.units import ABSENT

Row = TypeVar("Row")

GAP = 2
"""Cells between two columns."""

COMFORT_PRIORITY = 2
"""Columns up to this priority are kept before bars and the growing column's full width."""

_MIN_GROWING = 8
_STAGES = ((10, 0), (10, 16), (16, 24), (24, 48))
"""How far bars and stretching columns grow before any of them grows further."""


class Column(Struct, Generic[Row], frozen=True, kw_only=True):
    """One column: its text, how bad a value is, and how much it matters.

    `width` is its maximum, `least` its minimum, so that a percentage that reaches 100 moves
    nothing; one that grows also takes the rest. Priority 0 is always shown; higher ones are omitted
    first on a narrow screen. `share` (0 to 1) may be drawn as a bar before the text; `short` may
    replace a `text` that does not fit. A column with `stretch` has `width` cells, and up to
    `stretch` if there is room. `worth` decides whether a row is a reason to show the column;
    without it, any text is. The text of one that `ticks` changes with time even if its row does
    not.
    """

    key: str
    header: str
    text: Callable[[Row], str]
    sort_key: Callable[[Row], float | str | tuple[float, ...]] = lambda _row: 0.0
    width: int
    least: int = 0
    align: Align = "<"
    priority: int = 0
    grows: bool = False
    level: Callable[[Row], Level] | None = None
    share: Callable[[Row], float | None] | None = None
    stretch: int = 0
    ticks: bool = False
    short: Callable[[Row], str] | None = None
    worth: Callable[[Row], bool] | None = None

    def has_content(self, rows: Iterable[Row]) -> bool:
        """Return whether any row is a reason to show it."""
        worth = self.worth or (lambda row: self.text(row) != ABSENT)
        return any(map(worth, rows))


def word(
    key: str, header: str, value: Callable[[Row], str | None], width: int, **more: Any
) -> Column[Row]:
    """Return a column of words, which also sort its rows."""
    more.setdefault("sort_key", lambda row: value(row) or "")
    return Column(
        key=key, header=header, text=lambda row: value(row) or ABSENT, width=width, **more
    )


def amount(
    key: str,
    header: str,
    value: Callable[[Row], float | None],
    text: Callable[[Any], str],
    width: int,
    *,
    graded: Callable[[float | None], Level] | None = None,
    **more: Any,
) -> Column[Row]:
    """Return a column of numbers in the format of `text`, with unknown ones sorted lowest.

    `graded` is their level, if it follows from the number alone.
    """
    if graded is not None:
        more["level"] = lambda row: graded(value(row))
    return Column(
        key=key,
        header=header,
        text=lambda row: text(value(row)),
        sort_key=lambda row: number(value(row)),
        width=width,
        align=">",
        **more,
    )


def number(value: float | None) -> float:
    """Return the sort key of a value; an absent one is less than any other."""
    return -1.0 if value is None else float(value)


def waste(value: float | None) -> Level:
    """Return the level of an amount that should be zero."""
    return "warn" if value else "unknown"


def work(value: float | None) -> Level:
    """Return the level of a utilization: zero is a warning, as something is kept for it."""
    return "unknown" if value is None else "ok" if value else "warn"


def largest_first(column: Column[Row]) -> bool:
    """Whether a column is first sorted from the largest: numbers are, words are not."""
    return column.align == ">"


class FittedColumn(Struct, Generic[Row], frozen=True):
    """A visible column, with the widths of its text and of the bar before it."""

    column: Column[Row]
    width: int
    bar: int = 0

    @property
    def cells(self) -> int:
        """Its whole width, with the space between bar and text."""
        return self.width + (self.bar and self.bar + 1)


def fit(
    columns: Sequence[Column[Row]],
    rows: Collection[Row],
    room: int,
    *,
    bar: int = 0,
    sorted_by: str = "",
) -> list[FittedColumn[Row]]:
    """Return the columns that fit into `room` cells, with bars of at least `bar` cells or none.

    Columns are as wide as their content; those without content are left out unless they are always
    shown, or there are no rows yet. The least important are omitted first, and never the one that
    orders the rows. The rest goes to the growing column; without one, to omitted ones that fit,
    then to bars and stretching columns.
    """
    kept = [c for c in columns if c.priority == 0 or not rows or c.has_content(rows)]
    fitted = [FittedColumn(c, _content_width(c, rows), bar if c.share else 0) for c in kept]
    omitted: list[FittedColumn[Row]] = []
    is_roomy = True
    while line_cells(fitted) > room:
        omissible = [each for each in fitted if each.column.key != sorted_by] or fitted
        last = max(reversed(omissible), key=lambda each: each.column.priority)
        if is_roomy and last.column.priority <= COMFORT_PRIORITY:
            is_roomy = False
            fitted = [_narrow(each) for each in fitted]
        elif last.column.priority == 0:
            fitted = _squeezed(fitted, line_cells(fitted) - room)
            break
        else:
            fitted.remove(last)
            omitted.append(last)
    if is_roomy and not any(each.column.grows for each in fitted):
        for each in reversed(omitted):
            if line_cells([*fitted, each]) <= room:
                fitted.append(each)
    fitted.sort(key=lambda each: kept.index(each.column))
    return _grown(fitted, max(room - line_cells(fitted), 0))


def line_cells(fitted: Sequence[FittedColumn[Row]]) -> int:
    """Return the width of a line with these columns."""
    return sum(each.cells for each in fitted) + GAP * max(len(fitted) - 1, 0)


def _narrow(fitted: FittedColumn[Row]) -> FittedColumn[Row]:
    """Return a column without its bar, a growing one at its minimum."""
    column = fitted.column
    return FittedColumn(column, min(fitted.width, _MIN_GROWING) if column.grows else fitted.width)


def _squeezed(fitted: list[FittedColumn[Row]], excess: int) -> list[FittedColumn[Row]]:
    """Return the columns, with the widest text column narrowed by the excess, as far as it goes.

    Text cut there has a mark, but at the edge of the screen it has none.
    """
    words = [each for each in fitted if not largest_first(each.column)]
    widest = max(words, key=lambda each: each.width, default=None)
    if widest is not None:
        left = max(widest.width - excess, min(widest.width, _MIN_GROWING))
        fitted[fitted.index(widest)] = FittedColumn(widest.column, left)
    return fitted


def _grown(fitted: Sequence[FittedColumn[Row]], spare: int) -> list[FittedColumn[Row]]:
    """Return the columns with the spare cells given to the growing column, else to the bars."""
    if any(each.column.grows for each in fitted):
        return [
            FittedColumn(each.column, each.width + spare, each.bar) if each.column.grows else each
            for each in fitted
        ]
    grown = list(fitted)
    for max_bar, max_stretch in _STAGES:
        spare = _widened(grown, spare, max_bar, max_stretch)
    return grown


def _widened(fitted: list[FittedColumn[Row]], spare: int, max_bar: int, max_stretch: int) -> int:
    """Widen bars and stretching columns cell by cell in turn; return the cells still left."""
    while spare:
        before = spare
        for number, each in enumerate(fitted):
            column, cells, bar = each.column, each.width, each.bar
            if spare and bar and bar < max_bar:
                fitted[number], spare = FittedColumn(column, cells, bar + 1), spare - 1
            elif spare and cells < min(column.stretch, max_stretch):
                fitted[number], spare = FittedColumn(column, cells + 1, bar), spare - 1
        if spare == before:
            break
    return spare


def _content_width(column: Column[Row], rows: Collection[Row]) -> int:
    if column.stretch:
        return column.width
    widest = max((width(column.text(row)) for row in rows), default=0)
    return max(min(widest, column.width), width(column.header), column.least)


class BarGlyphs(Struct, frozen=True):
    """The characters of bars."""

    whole: str
    parts: tuple[str, ...]
    """Partly lit cells, the emptiest first."""
    track: str
    only_zero_is_empty: bool = True
    only_one_is_full: bool = True


def bar_text(share: float, cells: int, glyphs: BarGlyphs) -> tuple[str, str]:
    """Return the lit part of a bar and the rest of its `cells`; `share` is from 0 to 1."""
    steps = len(glyphs.parts) + 1
    lit = round(min(max(share, 0.0), 1.0) * cells * steps)
    if 0 < share < 1:
        lit = max(glyphs.only_zero_is_empty, min(cells * steps - glyphs.only_one_is_full, lit))
    whole, part = divmod(lit, steps)
    text = glyphs.whole * whole + (glyphs.parts[part - 1] if part else "")
    return text, glyphs.track * (cells - len(text))


class DeviceRow(Struct, frozen=True):
    """A device with its label, its state, and the findings about it."""

    device: Device
    label: str
    state: State
    findings: tuple[Finding, ...] = ()

    @property
    def level(self) -> Level:
        """How bad its status is."""
        return status_level(self.state, self.findings)


class ProcessRow(NamedTuple):
    """A process, the labels of its devices, and its age when the snapshot was taken.

    `gpu_memory_percent` is its share of the memory of all its devices. `branch` is the part of a
    tree's lines before its command.
    """

    process: Process
    gpus: str
    age_seconds: float | None
    gpu_memory_percent: float | None = None
    branch: str = ""

    def is_as(self, other: ProcessRow) -> bool:
        """Whether it differs from a later row only by the passage of time."""
        return (
            replace(self.process, idle_seconds=other.process.idle_seconds) == other.process
            and self.gpus == other.gpus
            and self.gpu_memory_percent == other.gpu_memory_percent
            and self.branch == other.branch
        )


def device_rows(snapshot: Snapshot) -> list[DeviceRow]:
    """Return the devices of a snapshot, in its order."""
    labels, concerned = device_labels(snapshot.devices), findings_by_device(snapshot)
    states = statuses(snapshot, concerned)
    return [
        DeviceRow(device, labels[device.key], states[device.key], concerned.get(device.key, ()))
        for device in snapshot.devices
    ]


def process_rows(snapshot: Snapshot) -> list[ProcessRow]:
    """Return the processes of a snapshot, in its order."""
    labels = mig_labels(snapshot.devices)
    memory = {device.key: device.memory_total_bytes for device in snapshot.devices}
    sets: dict[object, _DeviceSet] = {}
    rows = []
    for process in snapshot.processes:
        # Many processes share a few sets of devices.
        where = tuple([device.uuid or device.index for device in process.devices])
        devices = sets.get(where)
        if devices is None:
            devices = sets[where] = _DeviceSet(
                gpu_ranges(process.devices, labels), memory_of(process.devices, memory)
            )
        rows.append(
            ProcessRow(
                process,
                devices.gpus,
                age_seconds(process, snapshot),
                memory_percent(process.used_gpu_memory_bytes, devices.memory_total_bytes),
            )
        )
    return rows


def rows_per_gpu(snapshot: Snapshot, row: ProcessRow) -> list[ProcessRow]:
    """Return a row for each GPU of a process, with its use of that one."""
    if len(row.process.devices) < 2:
        return [row]
    labels = mig_labels(snapshot.devices)
    memory = {device.key: device.memory_total_bytes for device in snapshot.devices}
    return [
        row._replace(
            process=replace(row.process, devices=share),
            gpus=gpu_ranges(share, labels),
            gpu_memory_percent=memory_percent(
                share[0].used_gpu_memory_bytes, memory_of(share, memory)
            ),
        )
        for share in ((device,) for device in row.process.devices)
    ]


def age_seconds(process: Process, snapshot: Snapshot) -> float | None:
    """Return how long a process had run when a snapshot was taken, None if unknown."""
    if process.create_time is None:
        return None
    return snapshot.taken_at.timestamp() - process.create_time


class _DeviceSet(Struct, frozen=True):
    """A set of devices: their labels, and their total memory, None if one is unknown."""

    gpus: str
    memory_total_bytes: int | None
