"""The first line: what host this is, how it is doing, and how true the screen is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from gpudash.cells import cut
from gpudash.snapshot import Host, Snapshot
from gpudash.summary import summary
from gpudash.tui.renderables.line import Line, cells_of, spread
from gpudash.tui.theme import Theme

_WIDE = 100
"""Cells in which there is room for a year."""
_BETWEEN = "   "


def header(
    snapshot: Snapshot,
    theme: Theme,
    cells: int,
    *,
    pace: str,
    marks: Sequence[str],
    read_only: bool = False,
    dated: bool = False,
) -> Line:
    """Return host, summary and versions at the left; marks, time of the sample, pace right.

    `dated` tells the day as well, for a sample that is not of today.
    """
    right: Line = []
    if snapshot.host.simulated:
        right.append(Segment("DEMO  ", theme.header_strong))
    if read_only:
        right.append(Segment("READ-ONLY  ", theme.header_strong))
    for mark in marks:
        right += [Segment(f" {mark} ", theme.mark), Segment(" ", theme.header)]
    known = bool(snapshot.host.hostname)
    day = "%Y-%m-%d " if cells >= _WIDE else "%m-%d "
    form = f"{day if dated else ''}%H:%M:%S"
    clock = snapshot.taken_at.astimezone().strftime(form) if known else ""
    right += [Segment(clock, theme.header), Segment(f" {pace} ", theme.header_dim)]
    left = _left(snapshot, theme, cells - cells_of(right) - 1)
    return spread(left, right, cells, theme.header)


def _left(snapshot: Snapshot, theme: Theme, room: int) -> Line:
    """Return as many parts as `room` cells hold: host and summary before all others."""
    host = snapshot.host
    name = ("gpudash", theme.header_strong)
    told = [(str(host.hostname), theme.header), (summary(snapshot), theme.header)]
    if not host.hostname:
        return _parts([name], theme)
    extra = [(text, theme.header_dim) for text in _versions(host)]
    for parts in ([name, *told, *extra], [name, *told, *extra[:1]], [name, *told], told):
        line = _parts(parts, theme)
        if cells_of(line) <= room:
            return line
    text = " " + _BETWEEN.join(part for part, _style in told)
    return [Segment(cut(text, max(0, room)), theme.header)]


def _parts(parts: Sequence[tuple[str, Style]], theme: Theme) -> Line:
    line = [Segment(" ", theme.header)]
    for number, (text, style) in enumerate(parts):
        line += [Segment(_BETWEEN if number else "", theme.header), Segment(text, style)]
    return line


def _versions(host: Host) -> list[str]:
    versions = []
    if host.driver_version:
        versions.append(f"driver {host.driver_version}")
    if host.cuda_driver_version:
        versions.append(f"CUDA {host.cuda_driver_version}")
    return versions
