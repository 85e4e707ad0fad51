"""The last line: keys, and what an action led to."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.cells import cut
from gpudash.tui.keymap import KEYS
from gpudash.tui.renderables.line import Line, cells_of, spread
from gpudash.tui.theme import Theme


def footer(notice: str, theme: Theme, cells: int) -> Line:
    """Return the labelled keys; a notice takes the room that it needs from the right."""
    left: Line = [Segment(" ", theme.label)]
    for key in KEYS:
        if key.label:
            left += [Segment(key.shown, theme.key), Segment(f" {key.label}  ", theme.label)]
    text = cut(notice, max(0, cells - 2))
    right = [Segment(f" {text} ", theme.notice)] if notice else []
    return spread(left, right, cells, theme.label)


def action_at(x: int) -> str | None:
    """Return the action of the key under cell `x`, None to the right of all keys."""
    right = 1
    for key in KEYS:
        if key.label:
            right += cells_of([Segment(f"{key.shown} {key.label}  ")])
            if x < right:
                return key.action
    return None
