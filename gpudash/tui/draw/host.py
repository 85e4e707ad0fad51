"""The line of the machine around the GPUs: CPU, memory, swap, load and uptime."""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.model.snapshot import Host
from gpudash.model.units import duration, percent, short_size
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.draw.sparkline import sparkline
from gpudash.tui.draw.trends import Trends
from gpudash.tui.theme import Theme

_LEAST_CURVE, _MOST_CURVE = 6, 20
_BETWEEN = 3


class _Part(NamedTuple):
    """A word, its value, and the field whose past may stand behind it."""

    word: str
    value: str
    rest: str
    """What follows the value and matters less: its limit."""
    field: str = ""
    most: float | None = None


def host_line(host: Host, trends: Trends | None, theme: Theme, cells: int) -> Line:
    """Return as much as `cells` hold, curves only where all words fit; None leaves them out."""
    parts = _parts(host)
    while parts and _width(parts) > cells:
        parts.pop()
    curves = [part for part in parts if part.field] if trends else []
    room = (cells - _width(parts)) // max(1, len(curves)) - 1
    curve = min(room, _MOST_CURVE) if room >= _LEAST_CURVE else 0
    line: Line = []
    for number, part in enumerate(parts):
        line.append(Segment(" " * _BETWEEN if number else " ", theme.base))
        line += _drawn(part, theme)
        if curve and part.field and trends:
            values = trends.values(None, part.field, curve)
            text = " " + sparkline(values, part.most, curve, theme.glyphs)
            line.append(Segment(text, _middle(theme, part.field)))
    return line


def _parts(host: Host) -> list[_Part]:
    """Return what is known, the most important first."""
    cores = host.cpu_count
    parts = [_Part("CPU", f"{percent(host.cpu_percent):>4}", "", "cpu_percent", 100)]
    if host.memory_total_bytes:
        used, total = short_size(host.memory_used_bytes), short_size(host.memory_total_bytes)
        parts.append(
            _Part("MEM", f"{used:>5}", f"/{total}", "memory_used_bytes", host.memory_total_bytes)
        )
    if host.load_average:
        one, five, fifteen = (f"{load:.1f}" for load in host.load_average)
        of_cores = f" of {cores}" if cores else ""
        parts.append(_Part("LOAD", one, f" {five} {fifteen}{of_cores}", "load_average", cores))
    if host.swap_total_bytes:
        used, total = short_size(host.swap_used_bytes), short_size(host.swap_total_bytes)
        parts.append(_Part("SWAP", used, f"/{total}"))
    if host.uptime_seconds is not None:
        parts.append(_Part("UP", duration(host.uptime_seconds - host.uptime_seconds % 60), ""))
    return parts


def _drawn(part: _Part, theme: Theme) -> Line:
    return [
        Segment(f"{part.word} ", theme.heading),
        Segment(part.value, theme.base),
        Segment(part.rest, theme.dim),
    ]


def _width(parts: list[_Part]) -> int:
    texts = (Segment(f"{part.word} {part.value}{part.rest}") for part in parts)
    return cells_of(texts) + _BETWEEN * (len(parts) - 1) + 2


def _middle(theme: Theme, field: str) -> Style:
    steps = theme.memory if field == "memory_used_bytes" else theme.utilization
    return steps[len(steps) // 2]
