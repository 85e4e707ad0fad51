"""Every metric of a device under the headings of its groups, in as many columns as fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment

from gpudash.model.device_fields import DEVICE_FIELDS, DeviceField
from gpudash.model.fields import Group
from gpudash.model.text import fold
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.draw.metric_rows import Details, Row, rows
from gpudash.tui.theme import Theme

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
"""The groups, what changes and matters most first."""

_TOLD_ELSEWHERE = "fault"
_OF_INSTANCES = "parent_uuid"
"""What no whole GPU has, so that it is not missed there."""
_COLUMN, _EXPLAINED = 38, 76
"""Cells of a column at least: of values alone, and with their help sentences."""
_UUID_COLUMN = 58
_MARGIN, _GAP = 1, 3


class Sheet(NamedTuple):
    """Lines, and which field is shown where."""

    lines: list[Line]
    places: list[list[tuple[int, str | None]]]
    """For each line the cell at which each of its columns ends and the field in it."""

    def field_at(self, x: int, y: int) -> str | None:
        """Return the field under a cell."""
        if not 0 <= y < len(self.places):
            return None
        return next((field for end, field in self.places[y] if x < end), None)


def sheet(details: Details, cells: int, theme: Theme) -> Sheet:
    """Return all metrics that a device has, its identity over the whole width, absent ones last."""
    least = _EXPLAINED if details.explained else _COLUMN
    across = max(1, cells // least)
    shown = [field for field in DEVICE_FIELDS if field.name != _TOLD_ELSEWHERE]
    if not details.explained:
        shown = [field for field in shown if getattr(details.device, field.name) is not None]
    room = cells // across - _GAP
    blocks = [_block(group, shown, details, room, theme) for group in _ORDER[:-1]]
    columns = _packed([block for block in blocks if block], across)
    out = Sheet([], [])
    _beside(columns, cells // across, theme, out)
    _identity(shown, details, cells, theme, out)
    return out


def missing(details: Details, cells: int, theme: Theme) -> list[Line]:
    """Return in a few lines which metrics the device does not have."""
    absent = [
        field.label
        for field in DEVICE_FIELDS
        if field.name not in (_TOLD_ELSEWHERE, _OF_INSTANCES)
        and getattr(details.device, field.name) is None
    ]
    if details.explained or not absent:
        return []
    reason = "Not on this device" if details.device.state == "ok" else "Not known now"
    text = f"{reason}: {', '.join(absent)}"
    lines = fold(text, cells - 2 * _MARGIN)
    return [[], *([Segment(" " * _MARGIN + line, theme.faint)] for line in lines)]


def _block(
    group: Group, fields: Iterable[DeviceField], details: Details, room: int, theme: Theme
) -> list[Row]:
    """Return a heading and the metrics of one group, followed by a blank line."""
    lines: list[Row] = []
    for field in fields:
        if field.group is group:
            lines += rows(field, details, room, theme)
    heading: Row = ([Segment(f" {group.value}", theme.title)], None)
    return [heading, *lines, ([], None)] if lines else []


def _identity(
    fields: Iterable[DeviceField], details: Details, cells: int, theme: Theme, out: Sheet
) -> None:
    """Add what the device is, in columns that a UUID fits into."""
    across = 1 if details.explained else max(1, cells // _UUID_COLUMN)
    room = cells // across
    most = room if details.explained else _UUID_COLUMN
    heading, *lines = _block(_ORDER[-1], fields, details, min(room, most) - _GAP, theme)
    out.lines.append(fitted(heading[0], cells, theme.base))
    out.places.append([])
    height = max(1, -(-(len(lines) - 1) // across))
    parts = [lines[start : start + height] for start in range(0, len(lines) - 1, height)]
    _beside(parts, room, theme, out)


def _packed(blocks: Sequence[list[Row]], across: int) -> list[list[Row]]:
    """Return the blocks in columns, each below the one that ends highest."""
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
        out.places.append([(room * (n + 1), row[1]) for n, row in enumerate(beside)])
