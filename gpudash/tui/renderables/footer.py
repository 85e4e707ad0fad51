"""The last line: keys, and what an action led to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment

from gpudash.cells import cut, width
from gpudash.tui.keymap import Key, labelled
from gpudash.tui.renderables.line import Line, spread
from gpudash.tui.theme import Theme

_GAP = 2


def footer(keys: Iterable[Key], notice: str, theme: Theme, cells: int) -> Line:
    """Return the labelled keys; a notice takes the room that it needs from the right."""
    left: Line = [Segment(" ", theme.label)]
    for key in _fitting(keys, cells):
        left += [Segment(key.shown, theme.key), Segment(f" {key.label}  ", theme.label)]
    text = cut(notice, max(0, cells - 2))
    right = [Segment(f" {text} ", theme.notice)] if notice else []
    return spread(left, right, cells, theme.label)


def action_at(keys: Iterable[Key], x: int, cells: int) -> str | None:
    """Return the action of the key under cell `x`, None to the right of all keys."""
    right = 1
    for key in _fitting(keys, cells):
        right += _cells(key)
        if x < right:
            return key.action
    return None


def _fitting(keys: Iterable[Key], cells: int) -> list[Key]:
    """Return the labelled keys that fit whole, but one that is cut where there is room for none."""
    room = cells - 1 + _GAP
    fitting: list[Key] = []
    for key in labelled(keys):
        room -= _cells(key)
        if room < 0 and fitting:
            break
        fitting.append(key)
    return fitting


def _cells(key: Key) -> int:
    return width(f"{key.shown} {key.label}") + _GAP
