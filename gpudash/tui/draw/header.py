"""The first lines and the last: the host, how current the screen is, and the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.usage import Tally, shorter_summaries, summary
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.text import fold, width
from gpudash.model.units import duration, percent, ratio, short_size
from gpudash.tui.bindings import labelled
from gpudash.tui.draw.bars import bar
from gpudash.tui.draw.line import Line, cells_of, fitted, spread
from gpudash.tui.keymap import Key
from gpudash.tui.theme import Theme

_WIDE = 100
"""Width from which a year fits."""
_USER_CELLS = 12
"""For the user whose `gpudash serve` took the sample."""
_BETWEEN = "   "
_Text = tuple[str, Style]


def header(
    snapshot: Snapshot,
    counted: Tally,
    theme: Theme,
    cells: int,
    *,
    pace: str,
    marks: Sequence[str],
    read_only: bool = False,
    dated: bool = False,
) -> Line:
    """Return host, summary and versions at the left; marks, time of the sample, interval right.

    `counted` is the tally of the snapshot; `dated` always adds the day, for a sample that is not of
    today.
    """
    signs: Line = []
    if snapshot.host.simulated:
        signs.append(Segment("DEMO  ", theme.header_strong))
    if snapshot.collected_by:
        user = theme.cut(snapshot.collected_by, _USER_CELLS)
        signs.append(Segment(f"by {user}  ", theme.header_dim))
    if read_only:
        signs.append(Segment("READ-ONLY  ", theme.header_strong))
    for mark in marks:
        signs += [Segment(f" {mark} ", theme.mark), Segment(" ", theme.header)]
    clock = Segment(_clock(snapshot, cells, dated=dated), theme.header)
    timed = [*signs, clock, Segment(" ", theme.header)]
    right = [*signs, clock, Segment(f" {pace} ", theme.header_dim)]
    day = Segment(_clock(snapshot, cells, dated=True), theme.header)
    # A screen that is not live means nothing without its time.
    rights = [right, timed] if dated or marks else [right, timed, signs]
    rights.insert(0, [*signs, day, right[-1]])
    left, right = _fitting(snapshot.host, counted, theme, cells - 1, rights)
    return spread(left, right, cells, theme.header)


def _clock(snapshot: Snapshot, cells: int, *, dated: bool) -> str:
    if not snapshot.host.hostname:
        return ""
    day = "%Y-%m-%d " if cells >= _WIDE else "%m-%d "
    return snapshot.taken_at.astimezone().strftime(f"{day if dated else ''}%H:%M:%S")


def _fitting(
    host: Host, counted: Tally, theme: Theme, cells: int, rights: Sequence[Line]
) -> tuple[Line, Line]:
    """Return the fullest left and right parts that fit beside each other.

    The day, in the first of the rights, is shown only beside everything that the left has. The
    summary stays whole while the interval and the clock can be dropped; then healthy states are
    dropped, and other states only after the host's name.
    """
    name = ("gpudash", theme.header_strong)
    if not host.hostname:
        return _parts([name], theme), rights[0]
    known = [(str(host.hostname), theme.header), (summary(counted), theme.header)]
    extra = [(text, theme.header_dim) for text in _versions(host)]
    whole, *rights = rights
    lefts = [[name, *known, *each] for each in (extra, extra[-1:], [])]
    tries = [(lefts[0], whole), *((parts, rights[0]) for parts in lefts)]
    tries += [(known, right) for right in rights]
    if fitting := _first_fitting(tries, theme, cells):
        return fitting
    texts = shorter_summaries(counted, theme.glyphs.ellipsis)
    brief, *shorter = [(text, theme.header) for text in texts]
    named = ([known[0], text] for text in (brief, *shorter[:1]))
    briefs = (*named, [known[1]], [brief], *([text] for text in shorter))
    tries = [(parts, right) for parts in briefs for right in rights]
    if fitting := _first_fitting(tries, theme, cells):
        return fitting
    room = max(0, cells - cells_of(rights[-1]))
    text = theme.cut(f" {texts[-1]}", room)
    return [Segment(text, theme.header)], rights[-1]


def _first_fitting(
    tries: Iterable[tuple[Sequence[_Text], Line]], theme: Theme, cells: int
) -> tuple[Line, Line] | None:
    """Return the first pair whose left part, unshortened, and right part fit into the cells."""
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


_GAP = 2
"""Cells between two keys; one if that lets more of them fit."""


_MAX_LINES = 4


def footer(keys: Iterable[Key], notice: str, theme: Theme, cells: int) -> list[Line]:
    """Return the labelled keys; a notice displaces those that do not fit beside it.

    A notice longer than the line takes up to four lines.
    """
    if width(notice) > cells - 2 > 0:
        return [
            fitted([Segment(f" {text}", theme.notice)], cells, theme.notice)
            for text in _folded(notice, cells - 2, theme)
        ]
    text = theme.cut(notice, cells - 2)
    left: Line = [Segment(" ", theme.label)]
    fitting, gap = _fitting_keys(keys, notice, cells)
    for key in fitting:
        left += [Segment(key.shown, theme.key), Segment(f" {key.label}{' ' * gap}", theme.label)]
    right = [Segment(f" {text} ", theme.notice)] if text else []
    if text and fitting:
        right.insert(0, Segment(theme.glyphs.trunk.strip(), theme.label))
    return [spread(left, right, cells, theme.label)]


def _folded(notice: str, cells: int, theme: Theme) -> list[str]:
    lines = fold(notice, cells)
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES - 1 :] = [theme.cut(" ".join(lines[_MAX_LINES - 1 :]), cells)]
    return lines


def action_at(keys: Iterable[Key], notice: str, x: int, cells: int) -> str | None:
    """Return the action of the key at cell `x`, None to the right of all keys."""
    right = 1
    fitting, gap = _fitting_keys(keys, notice, cells)
    for key in fitting:
        right += _cells(key) + gap
        if x < right:
            return key.action
    return None


def _fitting_keys(keys: Iterable[Key], notice: str, cells: int) -> tuple[list[Key], int]:
    """Return the labelled keys that fit whole beside a notice, and the gap after each."""
    shown = labelled(keys)
    loose, tight = (_taken(shown, cells, gap) for gap in (_GAP, 1))
    fitting, gap = (tight, 1) if len(tight) > len(loose) else (loose, _GAP)
    if notice:
        # With a line between them, as a message next to a key reads like one.
        return _taken(shown, cells - width(notice) - 2 - 1 - gap, gap), gap
    # A truncated one is better than none.
    return fitting or shown[:1], gap


def _taken(keys: list[Key], cells: int, gap: int) -> list[Key]:
    """Return the keys that fit whole."""
    room = cells - 1 + gap
    fitting: list[Key] = []
    for key in keys:
        room -= _cells(key) + gap
        if room < 0:
            break
        fitting.append(key)
    return fitting


def _cells(key: Key) -> int:
    return width(f"{key.shown} {key.label}")


_MIN_BAR, _MAX_BAR = 6, 12
_PART_GAP = 3


class _Part(Struct, frozen=True):
    """A word, its value, and the part of its limit that a bar after it shows."""

    word: str
    value: str
    rest: str = ""
    """Less important text after the value: its limit."""
    share: float | None = None
    is_memory: bool = False


def host_line(host: Host, theme: Theme, cells: int) -> Line:
    """Return as much as fits in `cells`, with bars only if all words fit."""
    parts = _facts(host)
    while parts and _width(parts) > cells:
        parts.pop()
    count = sum(part.share is not None for part in parts)
    room = (cells - _width(parts)) // max(1, count) - 1
    line: Line = []
    for number, part in enumerate(parts):
        line.append(Segment(" " * _PART_GAP if number else " ", theme.base))
        line += _drawn(part, theme)
        if part.share is not None and room >= _MIN_BAR:
            steps = theme.memory if part.is_memory else theme.utilization
            line.append(Segment(" ", theme.base))
            line += bar(part.share, min(room, _MAX_BAR), steps, theme.track, theme.glyphs)
    return line


def _facts(host: Host) -> list[_Part]:
    """Return known facts, the most important first, such as used swap."""
    cores, total = host.cpu_count, host.memory_total_bytes
    parts: list[_Part] = []
    if host.cpu_percent is not None:
        parts.append(_Part("CPU", f"{percent(host.cpu_percent):>4}", "", host.cpu_percent / 100))
    if total:
        used, share = short_size(host.memory_used_bytes), ratio(host.memory_used_bytes, total)
        parts.append(_Part("MEM", f"{used:>5}", f"/{short_size(total)}", share, True))
    swap: list[_Part] = []
    if host.swap_total_bytes:
        rest = f"/{short_size(host.swap_total_bytes)}"
        swap = [_Part("SWAP", short_size(host.swap_used_bytes), rest)]
    parts += swap if host.swap_used_bytes else []
    if host.load_average:
        one, five, fifteen = (f"{load:.1f}" for load in host.load_average)
        of_cores = f" of {cores}" if cores else ""
        parts.append(_Part("LOAD", one, f" {five} {fifteen}{of_cores}"))
    parts += [] if host.swap_used_bytes else swap
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
    return cells_of(texts) + _PART_GAP * (len(parts) - 1) + 2
