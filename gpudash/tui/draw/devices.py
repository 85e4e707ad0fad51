"""One line per device, in two columns side by side where a long list meets a wide terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.segment import Segment

from gpudash.analysis.columns import DEVICE_COLUMNS
from gpudash.analysis.columns.devices import status, status_level
from gpudash.analysis.table import Column, DeviceRow
from gpudash.model.text import cut, width
from gpudash.model.units import ABSENT
from gpudash.tui.draw.device_cells import DeviceCells
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, cells_of, fitted, highlighted
from gpudash.tui.draw.sparkline import sparkline
from gpudash.tui.draw.trends import Trends
from gpudash.tui.layout import Arrangement
from gpudash.tui.theme import Theme

_BAR = 5

_NAMES = frozenset({"index", "name"})
_ROLES = {"index": "strong", "utilization_trend": "utilization", "memory_trend": "memory"}
_UTILIZATION_TREND: Column[DeviceRow] = Column(
    key="utilization_trend",
    header="",
    text=lambda row: ABSENT if row.device.gpu_utilization_percent is None else "",
    sort_key=lambda row: "",
    width=8,
    stretch=48,
    priority=4,
)
_MEMORY_TREND: Column[DeviceRow] = Column(
    key="memory_trend",
    header="",
    text=lambda row: ABSENT if row.device.memory_used_bytes is None else "",
    sort_key=lambda row: "",
    width=8,
    stretch=48,
    priority=5,
)
_AFTER = {"utilization": _UTILIZATION_TREND, "memory": _MEMORY_TREND}

# A bar says what the percentage of the memory would.
_PLAIN_COLUMNS = [column for column in DEVICE_COLUMNS if column.key != "memory_percent"]
_COLUMNS = [
    column
    for plain in _PLAIN_COLUMNS
    for column in (plain, *([_AFTER[plain.key]] if plain.key in _AFTER else ()))
]


class DeviceTable:
    """Draws the devices of a snapshot under their headings, with their past where there is room."""

    def __init__(self, trends: Trends) -> None:
        self._trends = trends
        curves = {"utilization_trend": self._utilization, "memory_trend": self._memory}
        self._plain = Grid(_PLAIN_COLUMNS, _ROLES, bar=_BAR)
        self._curved = self._grid = Grid(_COLUMNS, _ROLES, bar=_BAR, curves=curves)

    def lines(
        self,
        rows: Sequence[DeviceRow],
        theme: Theme,
        cells: int,
        plan: Arrangement,
        *,
        first: int,
        cursor: int | None = None,
        curves: bool = True,
    ) -> list[Line]:
        """Return the headings and the devices from number `first` on, as planned.

        The one whose number is `cursor` is highlighted.
        """
        if not rows or not plan.devices:
            return []
        room = cells // plan.across
        visible = rows[first : first + plan.seen]
        if plan.compact:
            grid = DeviceCells(rows, room, theme)
            title, drawn = grid.heading(), [grid.draw(row) for row in visible]
        else:
            self._grid = self._curved if curves else self._plain
            drawn = self._drawn(rows, visible, room, theme)
            title = self._grid.heading(theme)
        if cursor is not None and first <= cursor < first + len(drawn):
            drawn[cursor - first] = highlighted(drawn[cursor - first], theme, room)
        height = plan.device_lines
        blocks = [drawn[start : start + height] for start in range(0, len(drawn), height)]
        lines = [_beside([title] * max(1, len(blocks)), room, theme)]
        lines += [_beside(line, room, theme) for line in zip_longest(*blocks)]
        if plan.devices > height and len(visible) < len(rows):
            note = f" {first + 1}-{first + len(visible)} of {len(rows)}"
            lines += [[]] * (height + 1 - len(lines))
            lines.append(
                [Segment(note, theme.heading), Segment("   ( ) for the others", theme.dim)]
            )
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

    def _utilization(self, row: DeviceRow, cells: int, theme: Theme) -> str:
        values = self._trends.values(row.device.key, "gpu_utilization_percent", cells)
        return sparkline(values, 100, cells, theme.glyphs)

    def _memory(self, row: DeviceRow, cells: int, theme: Theme) -> str:
        values = self._trends.values(row.device.key, "memory_used_bytes", cells)
        return sparkline(values, row.device.memory_total_bytes, cells, theme.glyphs)


def _beside(lines: Sequence[Line | None], room: int, theme: Theme) -> Line:
    """Return lines side by side, each but the last in exactly `room` cells."""
    *others, last = lines
    beside = [segment for line in others for segment in fitted(line or [], room, theme.base)]
    return [*beside, *(last or [])]


def _fault(row: DeviceRow, theme: Theme, room: int) -> Line:
    """Return why there are no values, in place of all of them."""
    word = f"  {status(row)}  "
    reason = row.device.fault.message if row.device.fault else ""
    return [
        Segment(word, theme.level(status_level(row))),
        Segment(cut(reason, max(0, room - width(word)), mark=theme.glyphs.ellipsis), theme.dim),
    ]
