"""The last line: keys, and what an action led to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment

from gpudash.model.text import cut, fold, width
from gpudash.tui.draw.line import Line, fitted, spread
from gpudash.tui.keymap import Key, labelled
from gpudash.tui.theme import Theme

_GAP = 2
"""Cells between two keys; one where that lets more of them in."""


_MOST_LINES = 4


def footer(keys: Iterable[Key], notice: str, theme: Theme, cells: int) -> list[Line]:
    """Return the labelled keys; a notice pushes those out that it leaves no room for.

    One that is longer than the line takes more of them, up to four.
    """
    more = theme.glyphs.ellipsis
    if width(notice) > cells - 2 > 0:
        return [_told(text, theme, cells) for text in _folded(notice, cells - 2, more)]
    told = cut(notice, max(0, cells - 2), mark=more)
    left: Line = [Segment(" ", theme.label)]
    fitting, gap = _fitting(keys, notice, cells)
    for key in fitting:
        left += [Segment(key.shown, theme.key), Segment(f" {key.label}{' ' * gap}", theme.label)]
    right = [Segment(f" {told} ", theme.notice)] if told else []
    return [spread(left, right, cells, theme.label)]


def _folded(notice: str, cells: int, mark: str) -> list[str]:
    lines = fold(notice, cells)
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [cut(" ".join(lines[_MOST_LINES - 1 :]), cells, mark=mark)]
    return lines


def _told(text: str, theme: Theme, cells: int) -> Line:
    return fitted([Segment(f" {text}", theme.notice)], cells, theme.notice)


def action_at(keys: Iterable[Key], notice: str, x: int, cells: int) -> str | None:
    """Return the action of the key under cell `x`, None to the right of all keys."""
    right = 1
    fitting, gap = _fitting(keys, notice, cells)
    for key in fitting:
        right += _cells(key) + gap
        if x < right:
            return key.action
    return None


def _fitting(keys: Iterable[Key], notice: str, cells: int) -> tuple[list[Key], int]:
    """Return the labelled keys that fit whole beside a notice, and the gap behind each of them."""
    shown = labelled(keys)
    room = cells - (width(notice) + 2 if notice else 0)
    loose = _taken(shown, room, _GAP)
    if len(loose) < len(shown):
        tight = _taken(shown, room, 1)
        if len(tight) > len(loose):
            return tight, 1
    # One that is cut is better than none, where nothing else is to be said.
    return (loose or ([] if notice else shown[:1])), _GAP


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
