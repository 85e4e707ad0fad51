"""The lines above a device's metrics: which device it is, what is wrong, what the chart shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.columns.devices import status, status_level
from gpudash.analysis.labels import short_name
from gpudash.analysis.table import DeviceRow
from gpudash.model.device import Device
from gpudash.model.fields import Field
from gpudash.model.text import fold, width
from gpudash.model.units import readable, short
from gpudash.tui.draw.chart import Numbers, Shown
from gpudash.tui.draw.line import Line, cells_of, spread
from gpudash.tui.theme import Theme

_ASLEEP = "Powered down: it is not woken to be read"
_MOST_FAULT = 3
_MOST_LEGEND = 2


class Tabs(NamedTuple):
    """The line of the devices, and where each of them stands."""

    line: Line
    ends: list[tuple[int, str]]
    """The cell at which each tab ends, and the key of its device."""

    def key_at(self, x: int) -> str | None:
        """Return the device under a cell."""
        return next((key for end, key in self.ends if x < end), None) if x else None


def tabs(rows: Sequence[DeviceRow], key: str, theme: Theme, cells: int) -> Tabs:
    """Return the labels of the devices around the one looked at, its name and status at the end."""
    place = next(number for number, row in enumerate(rows) if row.device.key == key)
    device = rows[place].device
    right = [
        Segment(f" {short_name(device)}  ", theme.base),
        Segment(f"{status(rows[place])} ", theme.level(status_level(rows[place]))),
    ]
    line: Line = [Segment(" GPU ", theme.heading)]
    room = max(0, cells - cells_of(right) - cells_of(line) - 2)
    first, last = _window([width(row.label) + 2 for row in rows], place, room)
    line.append(Segment("<" if first else " ", theme.dim))
    ends = []
    for row in rows[first:last]:
        chosen = row.device.key == key
        style = theme.button_focused if chosen else theme.base
        line.append(Segment(f"[{row.label}]" if chosen else f" {row.label} ", style))
        ends.append((cells_of(line), row.device.key))
    line.append(Segment(">" if last < len(rows) else " ", theme.dim))
    return Tabs(spread(line, right, cells, theme.base), ends)


def _window(widths: Sequence[int], place: int, room: int) -> tuple[int, int]:
    """Return the stretch around `place` that fits, as far to the left as it can be."""
    first = 0
    while sum(widths[first : place + 1]) > room and first < place:
        first += 1
    last = place + 1
    while last < len(widths) and sum(widths[first : last + 1]) <= room:
        last += 1
    return first, last


def trouble(row: DeviceRow, theme: Theme, cells: int) -> list[Line]:
    """Return in words why a device tells nothing, no line for one that does."""
    device = row.device
    if device.state == "ok":
        return []
    told = device.fault.message if device.fault else _ASLEEP
    style = theme.level(status_level(row))
    texts = fold(f"{status(row)}: {told}", max(1, cells - 2))[:_MOST_FAULT]
    return [[Segment(f" {text}", style)] for text in texts]


def title(
    field: Field, device: Device, numbers: Numbers | None, time: str, theme: Theme, cells: int
) -> Line:
    """Return what is charted, its numbers over that time, and which time that is."""
    now = readable(getattr(device, field.name), field.unit)
    head = [Segment(f" {field.label}  ", theme.title), Segment(now, theme.strong)]
    right = [Segment(f" {time} ", theme.dim)]
    parts = [
        [Segment(f"{name} ", theme.dim), Segment(short(value, field.unit), theme.base)]
        for name, value in zip(("min", "mean", "max"), numbers or (), strict=False)
    ]
    room = cells - cells_of(head) - cells_of(right)
    gap = _gap(sum(map(cells_of, parts)), len(parts), room)
    while parts and sum(cells_of(part) + gap for part in parts) > room:
        parts.pop()
    line = [segment for part in parts for segment in (Segment(" " * gap, theme.dim), *part)]
    return spread([*head, *line], right, cells, theme.base)


def _gap(taken: int, count: int, room: int) -> int:
    """Return how far apart numbers stand: less where there is no room for more."""
    return next((gap for gap in (3, 2) if taken + count * gap <= room), 1)


def legend(
    shown: Sequence[Shown], asked: int, field: Field, theme: Theme, cells: int
) -> list[Line]:
    """Return each curve's label in its colour and its value now, in two lines at most.

    Of more GPUs than can be shown, `asked`, it says how many these are.
    """
    lines: list[Line] = [[Segment(" GPU ", theme.heading)]]
    if len(shown) < asked:
        lines[0].append(Segment(f" highest {len(shown)} of {asked}: ", theme.dim))
    for part in (_entry(each, field, theme) for each in shown):
        if cells_of(lines[-1]) + cells_of(part) > cells:
            if len(lines) == _MOST_LEGEND:
                break
            lines.append([Segment("     ", theme.heading)])
        lines[-1] += part
    return lines


def _entry(each: Shown, field: Field, theme: Theme) -> Line:
    value = short(getattr(each.device, field.name), field.unit)
    return [Segment(f" {each.label} ", each.style), Segment(f"{value} ", theme.dim)]
