"""The devices of a process, one line each, and in words how long it has left them idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.health.levels import Level
from gpudash.analysis.labels import device_labels, short_name
from gpudash.analysis.table import Column
from gpudash.model.device import Device
from gpudash.model.process import ProcessDevice
from gpudash.model.text import fold
from gpudash.model.units import ABSENT, duration, percent, short_size, size
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, joined
from gpudash.tui.draw.process_page.head import Sight
from gpudash.tui.theme import Theme

_BAR = 5
_IDLE_FROM = 10
"""Seconds without work that are worth a sentence."""


class Share(NamedTuple):
    """What the process has of a device; the device itself where the snapshot knows it."""

    label: str
    device: Device | None
    used: ProcessDevice


def _part(share: Share) -> float | None:
    used = share.used.used_gpu_memory_bytes
    total = share.device.memory_total_bytes if share.device else None
    return None if used is None or not total else used / total


def _part_percent(share: Share) -> str:
    part = _part(share)
    return percent(None if part is None else 100 * part)


def _sm_level(share: Share) -> Level:
    value = share.used.sm_utilization_percent
    return "unknown" if value is None else "ok" if value else "warn"


def _column(key: str, header: str, width: int, priority: int = 0) -> Column[Share]:
    """Return the column of a percentage."""
    return Column(
        key=key,
        header=header,
        text=lambda share: percent(getattr(share.used, f"{key}_utilization_percent")),
        sort_key=lambda _share: 0,
        width=width,
        align=">",
        priority=priority,
        level=_sm_level if key == "sm" else None,
    )


_COLUMNS: tuple[Column[Share], ...] = (
    Column(key="index", header="GPU", text=lambda s: s.label, sort_key=lambda _s: 0, width=6),
    Column(
        key="name",
        header="NAME",
        text=lambda s: short_name(s.device) if s.device else ABSENT,
        sort_key=lambda _s: 0,
        width=24,
        priority=5,
    ),
    Column(key="type", header="TYPE", text=lambda s: s.used.type, sort_key=lambda _s: 0, width=5),
    Column(
        key="memory",
        header="GPU-MEM",
        text=lambda s: short_size(s.used.used_gpu_memory_bytes),
        sort_key=lambda _s: 0,
        width=7,
        align=">",
        share=_part,
    ),
    Column(
        key="part",
        header="SHARE",
        text=_part_percent,
        sort_key=lambda _s: 0,
        width=5,
        align=">",
        priority=3,
    ),
    _column("sm", "SM", 4),
    _column("memory", "MEM-BW", 6, 1),
    _column("encoder", "ENC", 4, 4),
    _column("decoder", "DEC", 4, 4),
)


def shares(sight: Sight, theme: Theme, cells: int) -> list[Line]:
    """Return headings, devices, and a sentence about a process that holds them for nothing."""
    found = _found(sight)
    grid = Grid(_COLUMNS, {"index": "strong", "type": "dim"}, bar=_BAR)
    drawn: list[Line] = []
    for _attempt in range(2):
        grid.fit(found, (), cells)
        drawn = [joined(grid.draw(share, theme)) for share in found]
        if not grid.outgrown:
            break
    lines = [grid.heading(theme), *drawn]
    for text in fold(_idle(sight), cells - 2 * MARGIN):
        lines += [[Segment(" " * MARGIN + text, theme.warn)]] if text else []
    return lines


def _found(sight: Sight) -> Sequence[Share]:
    labels = device_labels(sight.snapshot.devices)
    devices = {device.key: device for device in sight.snapshot.devices}
    return [
        Share(
            labels.get(used.uuid or "", str(used.index)),
            devices.get(used.uuid or ""),
            used,
        )
        for used in sight.row.process.devices
    ]


def _idle(sight: Sight) -> str:
    if sight.mark or sight.idle_seconds is None or sight.idle_seconds < _IDLE_FROM:
        return ""
    held = sight.row.process.used_gpu_memory_bytes
    what = "its GPU" if held is None else size(held)
    return f"idle: it has held {what} for {duration(sight.idle_seconds)} without using the SMs"
