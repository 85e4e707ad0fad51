"""One metric of a device in as many lines as it needs: mark, name, value, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis import health
from gpudash.analysis.health.levels import Level
from gpudash.model.device import Device
from gpudash.model.device_fields import DeviceField
from gpudash.model.text import cut, fold, pad, width
from gpudash.model.units import readable
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.theme import Theme

_LEVELS: Mapping[str, Callable[[Device], Level]] = {
    "gpu_utilization_percent": health.utilization_level,
    "memory_used_bytes": health.memory_level,
    "temperature_celsius": health.temperature_level,
    "power_usage_mw": health.power_level,
}
_UNIT = 5
_LABEL, _VALUE = 32, 14
_NUMBER = frozenset("0123456789.-")

Row = tuple[Line, str | None]
"""A line and the field that it shows."""


class Details(NamedTuple):
    """What is to be shown of a device, and how."""

    device: Device
    charted: str
    """The field that the chart shows."""
    chartable: Collection[str]
    explained: bool
    """Whether each metric has its help sentence beside it, absent ones too."""


def rows(field: DeviceField, details: Details, room: int, theme: Theme) -> list[Row]:
    """Return one metric in as many lines as it needs."""
    charted = field.name == details.charted
    mark = Segment(f"{theme.glyphs.tag} " if charted else "  ", theme.title)
    value = getattr(details.device, field.name)
    text = readable(value, field.unit)
    chartable = field.name if field.name in details.chartable else None
    label_style = theme.strong if charted else theme.base if chartable else theme.dim
    style = _style(field, details.device, theme)
    if details.explained:
        lines = _explained(field, text, room - 2, (label_style, style), theme)
    else:
        lines = _plain(field.label, text, room - 2, (label_style, style), theme)
    blank = Segment("  ", theme.base)
    return [([blank if number else mark, *line], chartable) for number, line in enumerate(lines)]


def _style(field: DeviceField, device: Device, theme: Theme) -> Style:
    if getattr(device, field.name) is None:
        return theme.faint
    level = _LEVELS.get(field.name)
    return theme.level(level(device)) if level else theme.base


def _plain(
    label: str, text: str, room: int, styles: tuple[Style, Style], theme: Theme
) -> list[Line]:
    """Return label and value in one line, or a long value in lines of its own."""
    value = _value(text, styles[1], theme)
    space = room - width(label) - cells_of(value)
    if space > 0:
        return [[Segment(label, styles[0]), Segment(" " * space, theme.base), *value]]
    named = [Segment(cut(label, room, mark=theme.glyphs.ellipsis), styles[0])]
    return [named, *([Segment(f"  {part}", styles[1])] for part in fold(text, room - 2))]


def _explained(
    field: DeviceField, text: str, room: int, styles: tuple[Style, Style], theme: Theme
) -> list[Line]:
    """Return label and value, and the help sentence beside them."""
    label = min(_LABEL, max(1, room // 3))
    named = Segment(pad(field.label, label, mark=theme.glyphs.ellipsis), styles[0])
    value = _value(text, styles[1], theme)
    gap = max(1, _VALUE - cells_of(value))
    left = [named, Segment(" " * gap, theme.base), *value, Segment("  ", theme.base)]
    taken = label + _VALUE + 2
    helps = fold(field.help, max(8, room - taken))
    if cells_of(left) > taken:
        return [left, *_indented(helps, taken, theme)]
    first, *rest = _indented(helps, taken, theme)
    return [[*left, *first[1:]], *rest]


def _indented(texts: Iterable[str], indent: int, theme: Theme) -> list[Line]:
    return [[Segment(" " * indent, theme.base), Segment(text, theme.dim)] for text in texts]


def _value(text: str, style: Style, theme: Theme) -> Line:
    """Return a number and its unit, each in its own column, or words at the right of the first."""
    number, _, unit = text.partition(" ")
    if unit and len(unit) <= _UNIT and _NUMBER.issuperset(number):
        return [Segment(number, style), Segment(f" {unit.ljust(_UNIT)}", theme.dim)]
    return [Segment(text, style), Segment(" " * (_UNIT + 1), theme.base)]
