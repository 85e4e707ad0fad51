"""The process among its parents and children, as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.segment import Segment

from gpudash.model.process import Process
from gpudash.model.text import cut, width
from gpudash.model.units import size
from gpudash.system.process_tree import Relative
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.draw.process_page.head import Sight
from gpudash.tui.theme import Theme

_ANCESTORS = 5
_MOST_INDENT = 10
"""Steps of indentation; what lies deeper stands no further to the right."""


def family(sight: Sight, theme: Theme, cells: int) -> list[Line]:
    """Return a title and the tree; nothing while it is not known."""
    seen = sight.inspection
    if seen is None or not (seen.ancestors or seen.descendants):
        return []
    relatives = _flat(sight.row.process, seen.ancestors, seen.descendants)
    left_out = max(0, len(seen.ancestors) - _ANCESTORS)
    note = f"  {len(seen.descendants)} below it" if seen.descendants else ""
    if left_out:
        note += f"  {left_out} more above"
    lines: list[Line] = [
        [Segment(" " * MARGIN + "FAMILY", theme.heading), Segment(note, theme.dim)]
    ]
    listed = {process.pid: process for process in sight.snapshot.processes}
    stems = branches([depth for _process, depth in relatives], theme)
    for (process, _depth), stem in zip(relatives, stems, strict=True):
        lines.append(_line(process, stem, listed, sight, theme, cells))
    return lines


def branches(depths: Sequence[int], theme: Theme) -> list[str]:
    """Return what stands before each line of a tree that is given by depths, the root's being 0."""
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


def _flat(
    process: Process, ancestors: Sequence[Relative], descendants: Sequence[Relative]
) -> list[tuple[Process, int]]:
    """Return the nearest ancestors, the process and all below it with depths from 0 on."""
    above = [relative.process for relative in ancestors[-_ANCESTORS:]]
    place = len(above)
    below = [
        (relative.process, min(place + relative.depth, _MOST_INDENT)) for relative in descendants
    ]
    return [*((each, depth) for depth, each in enumerate(above)), (process, place), *below]


def _line(
    process: Process,
    stem: str,
    listed: Mapping[int, Process],
    sight: Sight,
    theme: Theme,
    cells: int,
) -> Line:
    me = sight.row.process
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
    right = _held(process, listed, theme)
    taken = sum(width(segment.text) for segment in [*left, *right])
    name = sight.command(process, short=True)
    text = cut(name, max(0, cells - taken - MARGIN), mark=theme.glyphs.ellipsis)
    left.append(Segment(text, theme.base if is_me else theme.dim))
    return spread(left, [*right, Segment(" " * MARGIN, theme.base)], cells, theme.base)


def _held(process: Process, listed: Mapping[int, Process], theme: Theme) -> Line:
    """Return the GPU memory that it holds, if the snapshot lists it."""
    known = listed.get(process.pid)
    if known is None or known.key != process.key:
        return []
    return [Segment(f"  {size(known.used_gpu_memory_bytes)}", theme.base)]
