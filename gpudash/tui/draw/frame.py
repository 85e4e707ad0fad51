"""The first line: what host this is, how it is doing, and how true the screen is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.usage import shorter_summaries, summary
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.text import cut
from gpudash.tui.draw.line import Line, cells_of, spread
from gpudash.tui.theme import Theme

_WIDE = 100
"""Cells in which there is room for a year."""
_BETWEEN = "   "
_Text = tuple[str, Style]


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
    signs: Line = []
    if snapshot.host.simulated:
        signs.append(Segment("DEMO  ", theme.header_strong))
    if read_only:
        signs.append(Segment("READ-ONLY  ", theme.header_strong))
    for mark in marks:
        signs += [Segment(f" {mark} ", theme.mark), Segment(" ", theme.header)]
    clock = Segment(_clock(snapshot, cells, dated=dated), theme.header)
    timed = [*signs, clock, Segment(" ", theme.header)]
    right = [*signs, clock, Segment(f" {pace} ", theme.header_dim)]
    # While it is not of now, what is shown is nothing without its time.
    rights = [right, timed] if dated or marks else [right, timed, signs]
    left, right = _fitting(snapshot, theme, cells - 1, rights)
    return spread(left, right, cells, theme.header)


def _clock(snapshot: Snapshot, cells: int, *, dated: bool) -> str:
    if not snapshot.host.hostname:
        return ""
    day = "%Y-%m-%d " if cells >= _WIDE else "%m-%d "
    return snapshot.taken_at.astimezone().strftime(f"{day if dated else ''}%H:%M:%S")


def _fitting(
    snapshot: Snapshot, theme: Theme, cells: int, rights: Sequence[Line]
) -> tuple[Line, Line]:
    """Return the fullest left and right parts that fit beside each other.

    The summary is whole as long as the pace and the clock can give way; then its words are
    shortened, and only when the host's name has given way too, some are left out.
    """
    host = snapshot.host
    name = ("gpudash", theme.header_strong)
    if not host.hostname:
        return _parts([name], theme), rights[0]
    told = [(str(host.hostname), theme.header), (summary(snapshot), theme.header)]
    extra = [(text, theme.header_dim) for text in _versions(host)]
    lefts = ([name, *told, *extra], [name, *told, *extra[:1]], [name, *told])
    tries = [(parts, rights[0]) for parts in lefts]
    tries += [(told, right) for right in rights]
    if fitting := _first_fitting(tries, theme, cells):
        return fitting
    texts = shorter_summaries(snapshot, theme.glyphs.ellipsis)
    brief, *shorter = [(text, theme.header) for text in texts]
    briefs = ([told[0], brief], [told[1]], [brief], *([text] for text in shorter))
    tries = [(parts, right) for parts in briefs for right in rights]
    if fitting := _first_fitting(tries, theme, cells):
        return fitting
    room = max(0, cells - cells_of(rights[-1]))
    text = cut(f" {texts[-1]}", room, mark=theme.glyphs.ellipsis)
    return [Segment(text, theme.header)], rights[-1]


def _first_fitting(
    tries: Iterable[tuple[Sequence[_Text], Line]], theme: Theme, cells: int
) -> tuple[Line, Line] | None:
    """Return the first two of which the left, written out, and the right fit into the cells."""
    for parts, right in tries:
        line = _parts(parts, theme)
        if cells_of(line) + cells_of(right) <= cells:
            return line, right
    return None


def _parts(parts: Sequence[_Text], theme: Theme) -> Line:
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
