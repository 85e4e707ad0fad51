"""What stands beside the link matrix: each GPU's traffic, with its past where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.segment import Segment

from gpudash.analysis.columns.traffic import TRAFFIC_COLUMNS, Neighbourhood
from gpudash.analysis.table import Column, fit, taken
from gpudash.model.units import ABSENT
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.sparkline import sparkline
from gpudash.tui.draw.trends import Trends
from gpudash.tui.theme import Theme

_BAR = 6
_ENDLESS = 10_000
_ROLES = {
    "numa": "dim",
    "cpus": "dim",
    "pcie": "dim",
    "pcie_trend": "utilization",
    "nvlink_trend": "memory",
}
_TRENDS = {
    "pcie_trend": ("pcie_rx", "pcie_rx_bytes_per_second"),
    "nvlink_trend": ("nvlink_rx", "nvlink_rx_bytes_per_second"),
}
"""The column behind which each curve stands, and what it is of."""


def _trend(key: str, field: str) -> Column[Neighbourhood]:
    return Column(
        key=key,
        header="",
        text=lambda row: ABSENT if getattr(row.device, field, None) is None else "",
        sort_key=lambda row: "",
        width=8,
        stretch=48,
        priority=6,
    )


_AFTER = {after: _trend(key, field) for key, (after, field) in _TRENDS.items()}
_COLUMNS = [
    column
    for plain in TRAFFIC_COLUMNS
    for column in (plain, *([_AFTER[plain.key]] if plain.key in _AFTER else ()))
]


class TrafficTable:
    """Draws a line for each GPU of the topology; curves of one kind share a scale."""

    def __init__(self, trends: Trends) -> None:
        self._trends = trends
        self._rows: Sequence[Neighbourhood] = ()
        self._most: dict[str, float | None] = {}
        curves = {key: partial(self._curve, key) for key in _TRENDS}
        self._grid = Grid(_COLUMNS, _ROLES, bar=_BAR, curves=curves)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the columns on screen."""
        return frozenset(place.column.key for place in self._grid.places)

    def lines(self, rows: Sequence[Neighbourhood], theme: Theme, room: int) -> list[Line]:
        """Return headings and rows in `room` cells; nothing where no column fits."""
        self._rows, self._most = rows, {}
        self._grid.fit(rows, tuple(row.gpu for row in rows), max(2 * MARGIN, room))
        if not self._grid.places:
            return []
        drawn: list[Line] = [self._grid.draw(row, theme) for row in rows]
        return [self._grid.heading(theme), *drawn]

    def _curve(self, key: str, row: Neighbourhood, cells: int, theme: Theme) -> str:
        if key not in self._most:
            self._most[key] = self._highest(key, cells)
        values = self._values(key, row, cells)
        return sparkline(values, self._most[key], cells, theme.glyphs)

    def _highest(self, key: str, cells: int) -> float | None:
        curves = [self._values(key, row, cells) for row in self._rows]
        known = [value for values in curves for value in values if value is not None]
        return max(known, default=None)

    def _values(self, key: str, row: Neighbourhood, cells: int) -> list[float | None]:
        if row.device is None:
            return []
        return self._trends.values(row.device.key, _TRENDS[key][1], cells)


def wanted_cells(rows: Sequence[Neighbourhood]) -> int:
    """Return the cells of all columns that have values, without bars and curves."""
    return taken(fit(TRAFFIC_COLUMNS, rows, _ENDLESS)) + 2 * MARGIN


def beside(left: Sequence[Line], right: Sequence[Line], theme: Theme) -> list[Line]:
    """Return lines side by side; `right`, if there is any, is as long as `left`."""
    gap = Segment(" ", theme.base)
    return (
        [[*line, gap, *more] for line, more in zip(left, right, strict=True)]
        if right
        else list(left)
    )
