"""The page about one process: all its data, in one column or two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.inspection import Inspection, Variable
from gpudash.analysis.table import age_seconds
from gpudash.model.process import Process
from gpudash.model.text import fold, pad, width
from gpudash.model.units import Unit, duration, percent, readable, short, short_size, sum_known
from gpudash.system.process_tree import Relative
from gpudash.tui.draw.chart import Chart, Curve, drawn, scaled, tight
from gpudash.tui.draw.grid import MARGIN, within_margins
from gpudash.tui.draw.line import Line, beside, cells_of, fitted, joined, spread
from gpudash.tui.theme import Theme, faded
from gpudash.tui.views.process.facts import ProcessDetails, command_is_cut, cuda, head, shares

_WIDE = 150
"""Width from which family and environment are beside the rest."""
_FEW = 8
"""Family and environment are below the rest if they take at most 1/8 of the height."""
_COLUMN_GAP = 3
_MIN_GRAPH, _MAX_GRAPH = 3, 14
_BEGINNING = 4
_TITLE_AND_AXIS = 2
"""Lines of a graph besides its height."""


class ProcessSheet(NamedTuple):
    """All lines of the page, and the beginnings of two of its parts."""

    lines: list[Line]
    tree: int
    environment: int


def page(details: ProcessDetails, theme: Theme, cells: int, height: int) -> ProcessSheet:
    """Return the page in lines of `cells`; the graphs are as high as `height` permits."""
    main_theme = faded(theme) if details.mark else theme
    tree, rest = _below(details, main_theme, theme, cells)
    if cells < _WIDE or len(tree) + len(rest) <= height // _FEW:
        following = len(tree) + len(rest)
        main = _main(details, main_theme, cells, height, following=following)
        return ProcessSheet([*main, *tree, *rest], len(main), len(main) + len(tree))
    left = (cells - _COLUMN_GAP) // 2
    main = _main(details, main_theme, left, height)
    tree, rest = _below(details, main_theme, theme, cells - left - _COLUMN_GAP)
    pairs = zip_longest(main, [*tree, *rest])
    lines = [joined(beside(pair, left + _COLUMN_GAP, theme.base)) for pair in pairs]
    return ProcessSheet(lines, 0, len(tree))


def _main(
    details: ProcessDetails, theme: Theme, cells: int, height: int, *, following: int | None = None
) -> list[Line]:
    """Return the head, the devices and the graphs; and the devices that CUDA sees.

    With this many lines `following`, the graphs are side by side, else in two rows.
    """
    across = _across(cells, 2 if following is None else _GRAPHS)
    rows = _GRAPHS // across
    above = _spaced(head(details, theme, cells), shares(details, theme, cells))
    below = _spaced(cuda(details, theme, cells), _whole_command(details, theme, cells))
    spare = height - len(above) - len(below)
    # In one column, they leave room for the beginning of the next part.
    kept = 1 if following is None else _BEGINNING
    room = spare // 3 if rows == 1 else (spare - kept) // rows - _TITLE_AND_AXIS
    graph_height = max(_MIN_GRAPH, min(room, _MAX_GRAPH))
    if following is not None:
        graph_height = max(graph_height, (spare - following - 1) // rows - _TITLE_AND_AXIS)
    return [*above, *_spaced(graphs(details, theme, cells, graph_height, across=across)), *below]


def _spaced(*parts: list[Line]) -> list[Line]:
    """Return the lines of all parts, with a blank one after each that is not empty."""
    return [line for part in parts if part for line in [*part, []]]


def _below(
    details: ProcessDetails, theme: Theme, plain: Theme, cells: int
) -> tuple[list[Line], list[Line]]:
    """Return the tree and the environment, or why they are not available."""
    seen = details.inspection
    tree = family(details, theme, cells)
    tree = [*tree, []] if tree else []
    if seen is None:
        heading = Segment(" " * MARGIN + "FAMILY AND ENVIRONMENT", plain.heading)
        text = f"  {details.waiting}{plain.glyphs.ellipsis}"
        return tree, [[heading, Segment(text, plain.dim)]]
    if seen.environment is None:
        title = "ENVIRONMENT" if tree else "FAMILY AND ENVIRONMENT"
        heading = Segment(" " * MARGIN + title, plain.heading)
        return tree, [[heading], *within_margins(seen.reason or "", plain.dim, cells)]
    return tree, environment(seen.environment, details, theme, cells)


def _whole_command(details: ProcessDetails, theme: Theme, cells: int) -> list[Line]:
    """Return the whole command line if the head shows only its beginning."""
    if not command_is_cut(details, cells):
        return []
    title = [Segment(" " * MARGIN + "COMMAND LINE", theme.heading)]
    return [title, *within_margins(details.command(details.row.process), theme.base, cells)]


_GRAPHS = 4
_GRAPH_GAP = 2
_MIN_GRAPH_CELLS = 22
"""Minimum width of a graph beside others."""
_ROUND_TOPS = (1, 2, 4, 5, 10)
"""Tops of a scale, in hundreds of percent, whose halves have round labels too."""
_MAX_TICKS = 6


class _Graph(NamedTuple):
    title: str
    field: str
    unit: Unit
    now: float | None
    limit: float | None = None
    """Its maximum, None if unknown."""


def _across(cells: int, most: int) -> int:
    """Return how many graphs are side by side: all, two, or one."""
    room = cells - 2 * MARGIN + _GRAPH_GAP
    fitting = (n for n in (most, 2) if n * (_MIN_GRAPH_CELLS + _GRAPH_GAP) <= room)
    return next(fitting, 1)


def graphs(
    details: ProcessDetails, theme: Theme, cells: int, height: int, *, across: int
) -> list[Line]:
    """Return the graphs, each `height` lines below its title, this many side by side."""
    room = cells - 2 * MARGIN
    width = max(1, (room - _GRAPH_GAP * (across - 1)) // across)
    blocks = [_graph(graph, details, theme, width, height) for graph in _graphs(details)]
    margin, gap = Segment(" " * MARGIN, theme.base), Segment(" " * _GRAPH_GAP, theme.base)
    return [
        joined([margin, *(segment for part in parts for segment in [*(part or []), gap])])
        for start in range(0, len(blocks), across)
        for parts in zip_longest(*blocks[start : start + across])
    ]


def _graph(
    graph: _Graph, details: ProcessDetails, theme: Theme, width: int, height: int
) -> list[Line]:
    now = None if graph.now is None else round(graph.now)
    title = [
        Segment(f"{graph.title} ", theme.heading),
        Segment(short(now, graph.unit), theme.strong),
    ]
    values = details.series(graph.field, min(2 * width, int(details.span)) + 1)
    known = [value for value in (*values, now) if value is not None]
    highest = max(known, default=0.0)
    if known:
        most = [
            Segment(" max ", theme.dim),
            Segment(short(round(highest), graph.unit), theme.base),
        ]
        title += most if cells_of([*title, *most]) <= width else []
    count = max(1, min(_MAX_TICKS, height // 3))
    is_memory = graph.unit is Unit.BYTE
    if is_memory:
        scale = tight((0.0, highest), graph.unit, count, graph.limit)
    else:
        scale = scaled(0, _round_percent(highest), graph.unit, count)
    curves = (Curve("", tuple(values), theme.base),)
    chart = Chart(curves, scale, details.span, "now", is_memory)
    return [fitted(title, width, theme.base), *drawn(chart, width, height + 1, theme)]


def _memory_of_all(details: ProcessDetails) -> float | None:
    """Return the total memory of its devices, None if that of one is unknown."""
    totals = {str(device.uuid): device.memory_total_bytes for device in details.snapshot.devices}
    known = [totals.get(str(used.uuid)) for used in details.row.process.devices]
    return None if None in known else sum_known(known)


def _graphs(details: ProcessDetails) -> list[_Graph]:
    process = details.row.process
    limits = _memory_of_all(details), details.snapshot.host.memory_total_bytes
    fields = (
        ("GPU-MEM", "used_gpu_memory_bytes", Unit.BYTE, limits[0]),
        ("UTIL", "sm_utilization_percent", Unit.PERCENT, None),
        ("RSS", "resident_memory_bytes", Unit.BYTE, limits[1]),
        ("CPU", "cpu_percent", Unit.PERCENT, None),
    )
    return [
        _Graph(title, field, unit, getattr(process, field), limit)
        for title, field, unit, limit in fields
    ]


def _round_percent(highest: float) -> float:
    """Return the lowest top of a scale that holds a value and halves into round steps."""
    power = 100
    while highest > 10 * power:
        power *= 10
    return next(top * power for top in _ROUND_TOPS if highest <= top * power)


_MAX_ANCESTORS = 5
_TABLE_FROM = 72
"""Width from which relatives have all columns; below it, only the last."""
_COLUMNS = (("THREADS", 9), ("CPU", 6), ("RSS", 7), ("TIME", 8), ("GPU-MEM", 9))
_MAX_INDENT = 10
"""Maximum indentation; deeper levels are not indented further."""


def family(details: ProcessDetails, theme: Theme, cells: int) -> list[Line]:
    """Return a title and the tree; empty if unknown."""
    seen = details.inspection
    if seen is None or not (seen.ancestors or seen.descendants):
        return []
    relatives = _flattened(details.row.process, seen)
    left_out = max(0, len(seen.ancestors) - _MAX_ANCESTORS)
    note = f"  {len(seen.descendants)} below it" if seen.descendants else ""
    if left_out:
        note += f"  {left_out} more above"
    title = [Segment(" " * MARGIN + "FAMILY", theme.heading), Segment(note, theme.dim)]
    columns = _COLUMNS if cells >= _TABLE_FROM else _COLUMNS[-1:]
    heading = "".join(f"{name:>{width}}" for name, width in columns) + " " * MARGIN
    lines = [spread(title, [Segment(heading, theme.heading)], cells, theme.base)]
    listed = {process.pid: process for process in details.snapshot.processes}
    stems = branches([each.depth for each in relatives], theme)
    for each, stem in zip(relatives, stems, strict=True):
        values = _values(each, listed.get(each.process.pid), details)[-len(columns) :]
        texts = (f"{text:>{width}}" for text, (_, width) in zip(values, columns, strict=True))
        lines.append(_relative_line(each.process, stem, "".join(texts), details, theme, cells))
    return lines


def _values(relative: Relative, listed: Process | None, details: ProcessDetails) -> list[str]:
    """Return the texts of the columns, from the snapshot as far as it has them."""
    process = relative.process
    known = listed if listed is not None and listed.key == process.key else process
    cpu = details.cpu_percents.get(process.key)
    return [
        readable(relative.thread_count),
        percent(cpu if known.cpu_percent is None else known.cpu_percent),
        short_size(known.resident_memory_bytes),
        duration(age_seconds(process, details.snapshot)),
        short_size(known.used_gpu_memory_bytes),
    ]


def branches(depths: Sequence[int], theme: Theme) -> list[str]:
    """Return the branch text of each line of a tree, given by depths, with the root at 0."""
    glyphs = theme.glyphs
    open_below: set[int] = set()
    stems = []
    for depth in reversed(depths):
        open_below = {each for each in open_below if each <= depth}
        trunks = [
            glyphs.trunk if step in open_below else " " * len(glyphs.trunk)
            for step in range(1, depth)
        ]
        own = (glyphs.branch if depth in open_below else glyphs.last_branch) if depth else ""
        stems.append("".join([*trunks, own]))
        open_below.add(depth)
    return stems[::-1]


def _flattened(process: Process, seen: Inspection) -> list[Relative]:
    """Return the nearest ancestors, the process and all its descendants, with depths from 0 on."""
    above = seen.ancestors[-_MAX_ANCESTORS:]
    own_depth = len(above)
    return [
        *(each._replace(depth=depth) for depth, each in enumerate(above)),
        Relative(process, own_depth, seen.usage.thread_count),
        *(
            each._replace(depth=min(own_depth + each.depth, _MAX_INDENT))
            for each in seen.descendants
        ),
    ]


def _relative_line(
    process: Process,
    stem: str,
    values: str,
    details: ProcessDetails,
    theme: Theme,
    cells: int,
) -> Line:
    me = details.row.process
    is_me = process.pid == me.pid
    left = [
        Segment(" " * MARGIN, theme.base),
        Segment(stem, theme.faint),
        Segment(f"{theme.glyphs.pointer} " if is_me else "", theme.sorted),
        Segment(str(process.pid), theme.strong if is_me else theme.dim),
        Segment(" ", theme.base),
    ]
    if process.username and process.username != me.username:
        left.append(Segment(f"{process.username} ", theme.owner))
    right = [Segment(values, theme.base if is_me else theme.dim)]
    taken = sum(width(segment.text) for segment in [*left, *right])
    name = details.command(process, short=True)
    text = theme.cut(name, cells - taken - MARGIN)
    left.append(Segment(text, theme.base if is_me else theme.dim))
    return spread(left, [*right, Segment(" " * MARGIN, theme.base)], cells, theme.base)


_MIN_NAME, _MAX_NAME = 12, 28
_GPU_PREFIXES = ("CUDA_", "NVIDIA_", "NCCL_")
"""Names with these prefixes concern GPUs and are highlighted."""


def environment(
    variables: Sequence[Variable], details: ProcessDetails, theme: Theme, cells: int
) -> list[Line]:
    """Return a title and all variables with their full values."""
    secret = sum(variable.is_secret for variable in variables)
    note = f"  {len(variables)} variables"
    if secret:
        effect = "hides" if details.shows_secrets else "shows"
        note += f", {secret} secret: {details.reveal_key} {effect} them"
    title = [Segment(" " * MARGIN + "ENVIRONMENT", theme.heading), Segment(note, theme.dim)]
    return [title, *_variables(tuple(variables), theme, cells, details.shows_secrets)]


@lru_cache(maxsize=2)
def _variables(
    variables: tuple[Variable, ...], theme: Theme, cells: int, shows_secrets: bool
) -> list[Line]:
    """Return the lines of the variables, which do not change while it runs."""
    ordered = sorted(variables, key=lambda variable: variable.name)
    widest = max((width(variable.name) for variable in ordered), default=0)
    name_cells = max(_MIN_NAME, min(widest, _MAX_NAME, cells // 3))
    return [
        line
        for variable in ordered
        for line in _variable(variable, theme, (name_cells, cells), shows_secrets)
    ]


def _variable(
    variable: Variable, theme: Theme, cells: tuple[int, int], shows_secrets: bool
) -> list[Line]:
    name_cells, room = cells
    hidden = variable.is_secret and not shows_secrets
    role = theme.title if variable.name.startswith(_GPU_PREFIXES) else theme.dim
    value = theme.glyphs.secret if hidden else variable.value
    style = theme.warn if variable.is_secret else theme.base
    texts = fold(value, max(1, room - 2 * MARGIN - name_cells - 1))
    name = pad(variable.name, name_cells, mark=theme.glyphs.ellipsis)
    return [
        [
            Segment(" " * MARGIN, theme.base),
            Segment(f"{' ' * name_cells if number else name} ", role),
            Segment(text, style),
        ]
        for number, text in enumerate(texts)
    ]
