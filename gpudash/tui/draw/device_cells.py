"""A device in a few cells, for hosts with more of them than the terminal has lines to spare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.columns import DEVICE_COLUMNS
from gpudash.analysis.health.levels import Level
from gpudash.analysis.table import Column, DeviceRow
from gpudash.model.text import pad, width
from gpudash.model.units import ABSENT
from gpudash.tui.draw.bars import bar
from gpudash.tui.draw.line import Line, fitted, joined
from gpudash.tui.theme import Theme

LEAST_CELLS = 13
"""Cells that a device takes at least, with the gap behind it."""

_ALARM = "!"
_GAP = 1
_WIDER_GAP = 3
_ROOMY = 16
"""Cells of a device from which the gap behind it is wider."""
_LABEL, _UTILIZATION, _MEMORY, _TEMPERATURE, _STATUS, _POWER = 2, 3, 4, 4, 9, 10
_LEAST_BAR, _MOST_BAR = 3, 12
_BY_KEY: dict[str, Column[DeviceRow]] = {column.key: column for column in DEVICE_COLUMNS}


class _Parts(NamedTuple):
    """What there is room for beside number, utilization and memory."""

    label: int
    bar: int = 0
    temperature: bool = False
    status: bool = False
    power: bool = False


class DeviceCells:
    """Draws devices in so many cells each, all with the same parts."""

    def __init__(self, rows: Sequence[DeviceRow], cells: int, theme: Theme) -> None:
        self._cells, self._theme = cells, theme
        room = cells - (_WIDER_GAP if cells >= _ROOMY else _GAP)
        self._parts = _parts(max((width(row.label) for row in rows), default=0), room)

    def heading(self) -> Line:
        """Return what the numbers below are."""
        parts = self._parts
        bar = " " * (parts.bar + _GAP if parts.bar else 0)
        text = f"{'GPU':>{1 + parts.label}} {bar}UT% {bar}MEM%"
        text += " TEMP" if parts.temperature else ""
        text += f" {'POWER':>{_POWER}}" if parts.power else ""
        text += "  STATUS" if parts.status else ""
        return fitted([Segment(text, self._theme.heading)], self._cells, self._theme.base)

    def draw(self, row: DeviceRow) -> Line:
        """Return a device; one that needs to be looked at has a mark before its number."""
        theme, parts = self._theme, self._parts
        status = _BY_KEY["status"]
        level = theme.level(_level(status, row))
        alarm = _level(status, row) in ("warn", "critical")
        line = [
            Segment(_ALARM if alarm else " ", level),
            Segment(pad(row.label, parts.label, ">"), theme.strong),
        ]
        if row.device.state != "ok":
            line.append(Segment(f" {status.text(row)}", level))
            return fitted(line, self._cells, theme.base)
        line += [*self._share("utilization", row), *self._share("memory_percent", row)]
        if parts.temperature:
            line += self._value("temperature", row, _TEMPERATURE)
        if parts.power:
            line += self._value("power", row, _POWER)
        if parts.status:
            line.append(Segment(f"  {status.text(row)}", level))
        return fitted(joined(line), self._cells, theme.base)

    def _share(self, key: str, row: DeviceRow) -> Line:
        """Return a percentage, behind a bar where there is room."""
        theme, is_memory = self._theme, key == "memory_percent"
        column = _BY_KEY[key]
        line: Line = []
        if self._parts.bar:
            share = _BY_KEY["memory" if is_memory else key].share
            steps = theme.memory if is_memory else theme.utilization
            line.append(Segment(" ", theme.base))
            value = share(row) if share else None
            line += bar(value, self._parts.bar, steps, theme.track, theme.glyphs)
        text = column.text(row)
        style = theme.faint if text == ABSENT else theme.level(_level(column, row))
        cells = _MEMORY if is_memory else _UTILIZATION
        return [*line, Segment(f" {text.removesuffix('%'):>{cells}}", style)]

    def _value(self, key: str, row: DeviceRow, cells: int) -> Line:
        column, theme = _BY_KEY[key], self._theme
        text = column.text(row)
        style = theme.faint if text == ABSENT else theme.level(_level(column, row))
        return [Segment(f" {text:>{cells}}", style)]


def _level(column: Column[DeviceRow], row: DeviceRow) -> Level:
    return column.level(row) if column.level else "ok"


def _parts(label: int, cells: int) -> _Parts:
    """Return what fits, the most important first; bars grow with what is left."""
    label = max(_LABEL, label)
    spare = cells - (1 + label + 1 + _UTILIZATION + 1 + _MEMORY)
    if spare and label == _LABEL:
        # As wide as its heading.
        label, spare = label + 1, spare - 1
    temperature = spare > _TEMPERATURE
    spare -= 1 + _TEMPERATURE if temperature else 0
    length = _LEAST_BAR if spare >= 2 * (_LEAST_BAR + _GAP) else 0
    spare -= 2 * (length + _GAP) if length else 0
    status = spare > _STATUS + 1
    spare -= 2 + _STATUS if status else 0
    power = spare > _POWER
    spare -= 1 + _POWER if power else 0
    if length:
        length = min(_MOST_BAR, length + max(0, spare) // 2)
    return _Parts(label, length, temperature, status, power)
