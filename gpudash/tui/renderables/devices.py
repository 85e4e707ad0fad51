"""One line per device, in two columns side by side where a long list meets a wide terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.segment import Segment

from gpudash.cells import cut, width
from gpudash.columns import DEVICE_COLUMNS
from gpudash.health import status, status_level
from gpudash.rows import DeviceRow
from gpudash.tui.renderables.grid import MARGIN, Grid
from gpudash.tui.renderables.line import Line, cells_of, fitted, joined, spread
from gpudash.tui.theme import Theme

_BAR = 5
_WIDE = 78
"""Cells that one of two columns needs at least."""

_NAMES = frozenset({"index", "name"})
_ROLES = {"index": "strong"}


class DeviceTable:
    """Draws the devices of a snapshot under their headings."""

    def __init__(self) -> None:
        self._grid = Grid(DEVICE_COLUMNS, _ROLES, bar=_BAR)

    def lines(
        self, rows: Sequence[DeviceRow], theme: Theme, cells: int, *, first: int, height: int
    ) -> list[Line]:
        """Return the headings and `height` lines of devices from number `first` on."""
        if not rows:
            return []
        across = columns_across(len(rows), height, cells)
        room = cells // across
        visible = rows[first : first + height * across]
        drawn = self._drawn(rows, visible, room, theme)
        blocks = [drawn[start : start + height] for start in range(0, len(drawn), height)]
        title = self._grid.heading(theme)
        lines = [_beside([title] * max(1, len(blocks)), room, theme)]
        if len(visible) < len(rows):
            note = f" {first + 1}-{first + len(visible)} of {len(rows)} [ ] "
            lines[0] = spread(lines[0], [Segment(note, theme.heading)], cells, theme.base)
        lines += [_beside(line, room, theme) for line in zip_longest(*blocks)]
        return lines

    def _drawn(
        self, rows: Sequence[DeviceRow], visible: Sequence[DeviceRow], room: int, theme: Theme
    ) -> list[Line]:
        """Draw the rows; columns that prove too narrow are widened."""
        members = tuple(row.device.key for row in rows)
        drawn: list[Line] = []
        for _attempt in range(2):
            self._grid.fit(rows, members, room)
            drawn = [self._line(row, theme, room) for row in visible]
            if not self._grid.outgrown:
                break
        return drawn

    def _line(self, row: DeviceRow, theme: Theme, room: int) -> Line:
        if row.device.state == "ok":
            return self._grid.draw(row, theme)
        named = sum(place.column.key in _NAMES for place in self._grid.places)
        segments = self._grid.draw(row, theme, keep=named)
        return [*segments, *_fault(row, theme, room - cells_of(segments) - MARGIN)]


def columns_across(count: int, height: int, cells: int) -> int:
    """Return how many columns of devices stand side by side."""
    return 2 if count > height and cells >= 2 * _WIDE else 1


def _beside(lines: Sequence[Line | None], room: int, theme: Theme) -> Line:
    """Return lines side by side, each in `room` cells."""
    return joined(segment for line in lines for segment in fitted(line or [], room, theme.base))


def _fault(row: DeviceRow, theme: Theme, room: int) -> Line:
    """Return why there are no values, in place of all of them."""
    word = f"  {status(row.device)}  "
    reason = row.device.fault.message if row.device.fault else ""
    return [
        Segment(word, theme.level(status_level(row.device))),
        Segment(cut(reason, max(0, room - width(word))), theme.dim),
    ]
