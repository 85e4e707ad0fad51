"""All data of a device: its holders, its lease, and its metrics in columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.columns.leases import lease_holder
from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.columns.traffic import UNREAD, is_unread
from gpudash.analysis.health import levels
from gpudash.analysis.health.levels import memory_share
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.analysis.usage import is_unlisted, memory_of, memory_percent
from gpudash.model.device import Device, device_fields
from gpudash.model.fields import Field, Group
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import Level, state_of
from gpudash.model.text import cut, fold, pad, width
from gpudash.model.units import readable
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, cells_of, fitted, joined, with_signs
from gpudash.tui.theme import Theme

_LEVELS: Mapping[str, Callable[[Device], Level]] = {
    "gpu_utilization_percent": levels.utilization_level,
    "memory_used_bytes": levels.memory_level,
    "temperature_celsius": levels.temperature_level,
    "power_usage_mw": levels.power_level,
}
_UNIT = 5
_LABEL, _VALUE = 32, 14
_NUMBER = "0123456789.-"
Row = tuple[Line, str | None]
"""A line and the field that it shows."""


class DeviceDetails(NamedTuple):
    """A device, and how to show it."""

    device: Device
    charted: str
    """The charted field."""
    chartable: Collection[str]
    explained: bool
    """Whether each metric has its help sentence, including absent ones."""


def rows(field: Field, details: DeviceDetails, room: int, theme: Theme) -> list[Row]:
    """Return one metric in as many lines as it needs."""
    charted = field.name == details.charted
    mark = Segment(f"{theme.glyphs.tag} " if charted else "  ", theme.title)
    value = getattr(details.device, field.name)
    if field.name == "status" and value is not None:
        value = state_of(value).word
    text = UNREAD if is_unread(details.device, field.name) else readable(value, field.unit)
    text = with_signs(text, theme)
    chartable = field.name if field.name in details.chartable else None
    label_style = theme.strong if charted else theme.base if chartable else theme.dim
    style = _style(field, details.device, theme)
    if details.explained:
        lines = _explained(field, text, room - 2, (label_style, style), theme)
    else:
        lines = _plain(field.label, text, room - 2, (label_style, style), theme)
    blank = Segment("  ", theme.base)
    return [([blank if number else mark, *line], chartable) for number, line in enumerate(lines)]


def _style(field: Field, device: Device, theme: Theme) -> Style:
    if getattr(device, field.name) is None:
        return theme.faint
    level = _LEVELS.get(field.name)
    return theme.level(level(device)) if level else theme.base


def _plain(
    label: str, text: str, room: int, styles: tuple[Style, Style], theme: Theme
) -> list[Line]:
    """Return label and value in one line, or a long value on lines of its own."""
    value = _value(text, styles[1], theme)
    space = room - width(label) - cells_of(value)
    if space > 0:
        return [[Segment(label, styles[0]), Segment(" " * space, theme.base), *value]]
    named = [Segment(theme.cut(label, room), styles[0])]
    return [named, *([Segment(f"  {part}", styles[1])] for part in fold(text, room - 2))]


def _explained(
    field: Field, text: str, room: int, styles: tuple[Style, Style], theme: Theme
) -> list[Line]:
    """Return label and value with the help sentence beside them."""
    label = min(_LABEL, max(1, room // 3))
    named = Segment(pad(field.label, label, mark=theme.glyphs.ellipsis), styles[0])
    value = _value(text, styles[1], theme)
    gap = max(1, _VALUE - cells_of(value))
    left = [named, Segment(" " * gap, theme.base), *value, Segment("  ", theme.base)]
    taken = label + _VALUE + 2
    helps = fold(field.help_on_screen, max(8, room - taken))
    if cells_of(left) > taken:
        return [left, *_indented(helps, taken, theme)]
    first, *rest = _indented(helps, taken, theme)
    return [[*left, *first[1:]], *rest]


def _indented(texts: Iterable[str], indent: int, theme: Theme) -> list[Line]:
    return [[Segment(" " * indent, theme.base), Segment(text, theme.dim)] for text in texts]


def _value(text: str, style: Style, theme: Theme) -> Line:
    """Return a number and its unit in separate columns, or words aligned at the right."""
    unit = text.lstrip(_NUMBER)
    if unit and len(unit) <= 1 + _UNIT and unit[0] in " %/":
        number = text.removesuffix(unit)
        return [Segment(number, style), Segment(unit.ljust(1 + _UNIT), theme.dim)]
    return [Segment(text, style), Segment(" " * (_UNIT + 1), theme.base)]


_ORDER = (
    Group.UTILIZATION,
    Group.MEMORY,
    Group.POWER,
    Group.CLOCKS,
    Group.TEMPERATURE,
    Group.PCIE,
    Group.NVLINK,
    Group.RELIABILITY,
    Group.SETTINGS,
    Group.MIG,
    Group.STATE,
    Group.IDENTITY,
)
"""The groups; those that change and matter most come first."""
_SHOWN_ELSEWHERE = ("fault", "last_read")
_LONG = frozenset({"ecc_locations", "holder_pids", "supported_clocks_event_reasons"})
"""Rarely needed lists, shown only with explanations."""
_OF_INSTANCES = "parent_uuid"
"""A field that no whole GPU has, so that it is not reported missing there."""
_COLUMN, _EXPLAINED = 38, 76
"""Minimum width of a column: of only values, and with help sentences."""
_UUID_COLUMN = 58
_GAP = 3


class Sheet(NamedTuple):
    """Lines, and the positions of fields."""

    lines: list[Line]
    columns: list[list[tuple[int, str | None]]]
    """For each line, the end of each column and the field in it."""

    def field_at(self, x: int, y: int) -> str | None:
        """Return the field under a cell."""
        if not 0 <= y < len(self.columns):
            return None
        return next((field for end, field in self.columns[y] if x < end), None)


def sheet(details: DeviceDetails, cells: int, theme: Theme) -> Sheet:
    """Return all metrics of a device, its identity over the full width, absent ones last."""
    least = _EXPLAINED if details.explained else _COLUMN
    across = max(1, cells // least)
    shown = [field for field in device_fields().values() if field.name not in _SHOWN_ELSEWHERE]
    if not details.explained:
        known = (field for field in shown if _has_text(field, details.device))
        left_out = _LONG if details.device.status is None else {*_LONG, "state"}
        shown = [field for field in known if field.name not in left_out]
    room = cells // across - _GAP
    blocks = [_block(group, shown, details, room, theme) for group in _ORDER[:-1]]
    columns = _packed([block for block in blocks if block], across)
    out = Sheet([], [])
    _beside(columns, cells // across, theme, out)
    _identity(shown, details, cells, theme, out)
    return out


def _has_text(field: Field, device: Device) -> bool:
    """Whether a device has a value, or a rate that is just not read."""
    return getattr(device, field.name) is not None or is_unread(device, field.name)


def missing(details: DeviceDetails, key: str, cells: int, theme: Theme) -> list[Line]:
    """Return a line with the number of absent metrics; `key` lists and explains them."""
    count = sum(
        not _has_text(field, details.device)
        for field in device_fields().values()
        if field.name not in (*_SHOWN_ELSEWHERE, _OF_INSTANCES)
    )
    if details.explained or not count:
        return []
    reason = "Not on this device" if details.device.state == "ok" else "Not known now"
    text = f" {reason}: {count} metrics; {key} lists them"
    return [[], [Segment(theme.cut(text, cells), theme.dim)]]


def _block(
    group: Group, fields: Iterable[Field], details: DeviceDetails, room: int, theme: Theme
) -> list[Row]:
    """Return a heading and the metrics of one group, followed by a blank line."""
    lines: list[Row] = []
    for field in fields:
        if field.group is group:
            lines += rows(field, details, room, theme)
    heading: Row = ([Segment(f" {group.value}", theme.title)], None)
    return [heading, *lines, ([], None)] if lines else []


def _identity(
    fields: Iterable[Field], details: DeviceDetails, cells: int, theme: Theme, out: Sheet
) -> None:
    """Add the identity of the device, in columns wide enough for a UUID."""
    across = 1 if details.explained else max(1, cells // _UUID_COLUMN)
    room = cells // across
    most = room if details.explained else _UUID_COLUMN
    heading, *lines = _block(_ORDER[-1], fields, details, min(room, most) - _GAP, theme)
    out.lines.append(fitted(heading[0], cells, theme.base))
    out.columns.append([])
    height = max(1, -(-(len(lines) - 1) // across))
    parts = [lines[start : start + height] for start in range(0, len(lines) - 1, height)]
    _beside(parts, room, theme, out)


def _packed(blocks: Sequence[list[Row]], across: int) -> list[list[Row]]:
    """Return the blocks in columns, each added to the shortest."""
    columns: list[list[Row]] = [[] for _ in range(across)]
    for block in blocks:
        min(columns, key=len).extend(block)
    return columns


def _beside(columns: Sequence[list[Row]], room: int, theme: Theme, out: Sheet) -> None:
    """Add columns side by side, each in `room` cells."""
    empty: Row = ([], None)
    for beside in zip_longest(*columns, fillvalue=empty):
        line: Line = []
        for row in beside:
            line += fitted(row[0], room, theme.base)
        out.lines.append(line)
        out.columns.append([(room * (n + 1), row[1]) for n, row in enumerate(beside)])


_USED = {True: "used", False: "not used", None: "whether it is used cannot be seen"}


def lease_lines(snapshot: Snapshot, device: Device, theme: Theme, cells: int) -> list[Line]:
    """Return a line about the lease of a device, none if it is not leased."""
    lease = next((each for each in snapshot.leases if each.uuid == device.uuid), None)
    if lease is None:
        return []
    text = theme.cut(f" Leased by {lease_holder(lease, snapshot)}: ", cells)
    used = cut(_USED[lease.is_used], max(0, cells - len(text)), mark="")
    style = theme.level("warn") if lease.is_used is False else theme.base
    return [[Segment(text, theme.dim), Segment(used, style)]]


def last_lines(device: Device, theme: Theme, cells: int) -> list[Line]:
    """Return what an unresponsive device last held, and who held it."""
    last = device.last_read
    if last is None:
        return []
    texts = [f"{last.ago}: {last.memory} in use, by" if last.processes else str(last)]
    texts += [f"  {each}" for each in last.processes]
    return [[Segment(theme.cut(f" {text}", cells), theme.dim)] for text in texts] + [[]]


_HOLDER_ROLES = {"user": "owner", "type": "dim", "job": "dim"}


def shares_of(process: Process, device: Device) -> tuple[ProcessDevice, ...]:
    """Return a process's share of a device: for a GPU, those of its MIG instances too."""
    return tuple(
        share
        for share in process.devices
        if share.uuid == device.uuid or (not device.is_mig and share.index == device.index)
    )


def holders(snapshot: Snapshot, device: Device) -> list[ProcessRow]:
    """Return the processes on a device, in the order of the snapshot."""
    present = tuple(process for process in snapshot.processes if shares_of(process, device))
    sizes = {each.key: each.memory_total_bytes for each in snapshot.devices}
    here = replace(snapshot, processes=present)
    rows = []
    for row in process_rows(here):
        process = replace(row.process, devices=shares_of(row.process, device))
        total = memory_of(process.devices, sizes)
        percent = memory_percent(process.used_gpu_memory_bytes, total)
        rows.append(row._replace(process=process, gpu_memory_percent=percent))
    return rows


_MAX_HOLDERS = 4


class HolderTable:
    """Draws the first few processes of a device, with headings."""

    def __init__(self) -> None:
        self._grid = Grid(PROCESS_COLUMNS, _HOLDER_ROLES)

    def lines(self, rows: list[ProcessRow], nothing: str, theme: Theme, cells: int) -> list[Line]:
        """Return some processes, a line on how many more there are, and a blank line.

        `nothing` is the text if there is none.
        """
        if not rows:
            return [[Segment(f" {nothing}", theme.dim)], []]
        shown = rows if len(rows) <= _MAX_HOLDERS else rows[: _MAX_HOLDERS - 1]
        members = tuple(row.process.key for row in rows)
        lines = self._grid.rows(
            rows, members, cells, shown, lambda row: joined(self._grid.draw(row, theme))
        )
        if len(shown) < len(rows):
            gpu = rows[0].process.devices[0].index
            more = f"{len(rows) - len(shown)} more: filter gpu:{gpu}"
            lines.append([Segment(" " * MARGIN + more, theme.dim)])
        return [self._grid.heading(theme), *lines, []]


def no_processes_on(device: Device, snapshot: Snapshot) -> str:
    """Return that no process is listed, and whether memory is held all the same."""
    if is_unlisted(device, snapshot):
        return "Its process list is unavailable"
    if (memory_share(device) or 0) >= 0.05:
        return "No process is listed on it, though its memory is in use"
    return "No process is on it"
