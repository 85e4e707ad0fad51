"""The last minutes of a process: GPU memory, SM and CPU time."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment

from gpudash.model.units import Unit, readable
from gpudash.tui.draw.bars import points_of
from gpudash.tui.draw.chart import Chart, Curve, drawn, frame, scaled
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, fitted, joined
from gpudash.tui.draw.process_page.head import Sight
from gpudash.tui.theme import Theme

_GAP = 2
_LEAST = 22
"""Cells below which a graph does not stand beside others."""

_ROUND = (1, 2, 4, 5, 10)
"""Tops of a scale, in hundreds of percent, whose halves are named by round numbers, too."""

_SOME = 60
"""Points that are enough to find the highest."""


class _Graph(NamedTuple):
    title: str
    field: str
    unit: Unit
    now: float | None
    most: float | None
    """What the top stands for at least; None is a round number of percent."""
    is_memory: bool = False


def graphs(sight: Sight, theme: Theme, cells: int, height: int, *, stacked: bool) -> list[Line]:
    """Return the three graphs, each `height` lines below its title."""
    room = cells - 2 * MARGIN
    across = 1 if stacked or room < 3 * _LEAST + 2 * _GAP else 3
    width = max(1, (room - _GAP * (across - 1)) // across)
    blocks = [_block(graph, sight, theme, width, height) for graph in _graphs(sight)]
    if across == 1:
        lines = [line for block in blocks for line in block]
    else:
        gap = Segment(" " * _GAP, theme.base)
        lines = [
            joined(segment for part in parts for segment in [*(part or []), gap])
            for parts in zip_longest(*blocks)
        ]
    return [[Segment(" " * MARGIN, theme.base), *line] for line in lines]


def _block(graph: _Graph, sight: Sight, theme: Theme, width: int, height: int) -> list[Line]:
    title = [
        Segment(f"{graph.title}  ", theme.heading),
        Segment(readable(graph.now, graph.unit), theme.strong),
    ]
    # What it was before a GPU was lost may be more than there is of those that are left.
    highest = max((v for v in sight.series(graph.field, _SOME) if v is not None), default=0.0)
    most = max(graph.most, highest) if graph.most else _round_percent(highest)
    scale = scaled(0, most, graph.unit, max(1, height // 2))
    empty = Chart((), scale, sight.span, "now", graph.is_memory)
    points = points_of(max(1, frame(empty, width, height + 1).cells), theme.glyphs)
    line = Curve("", "", sight.series(graph.field, points), theme.base)
    chart = empty._replace(curves=(line,))
    return [fitted(title, width, theme.base), *drawn(chart, width, height + 1, theme)]


def _graphs(sight: Sight) -> list[_Graph]:
    process = sight.row.process
    sm, cpu = process.sm_utilization_percent, process.cpu_percent
    held = process.used_gpu_memory_bytes
    memory = max(_memory_of_devices(sight), held or 1)
    return [
        _Graph("GPU MEMORY", "used_gpu_memory_bytes", Unit.BYTE, held, memory, True),
        _Graph("SM", "sm_utilization_percent", Unit.PERCENT, sm, None),
        _Graph("CPU", "cpu_percent", Unit.PERCENT, cpu, None),
    ]


def _memory_of_devices(sight: Sight) -> int:
    """Return all memory of its devices, 0 if that of none is known."""
    used = {device.uuid for device in sight.row.process.devices}
    return sum(d.memory_total_bytes or 0 for d in sight.snapshot.devices if d.uuid in used)


def _round_percent(highest: float) -> float:
    """Return the least top of a scale that holds a value and can be halved in round steps."""
    power = 100
    while highest > 10 * power:
        power *= 10
    return next(top * power for top in _ROUND if highest <= top * power)
