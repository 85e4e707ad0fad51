"""The view of connections between GPUs: the topology, and the traffic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.columns.traffic import (
    TRAFFIC_COLUMNS,
    GpuAffinity,
    affinity_sentence,
    gpu_affinities,
    has_unread_rate,
)
from gpudash.analysis.link_warnings import no_topology, remarks
from gpudash.analysis.links import (
    Matrix,
    MatrixTable,
    access_matrix,
    legend_lines,
    link_matrix,
    p2p_matrices,
)
from gpudash.analysis.table import fit, line_cells
from gpudash.model.snapshot import Topology
from gpudash.model.text import StyledLine, fold, width, wrap
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.bars import sparkline
from gpudash.tui.draw.grid import MARGIN, Grid, trend, with_trends
from gpudash.tui.draw.line import Line, fit_parts, joined
from gpudash.tui.draw.main_charts import Trends
from gpudash.tui.keymap import LINKS_KEYS
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import View

_BAR = 6
_ENDLESS = 10_000
_TRAFFIC_ROLES = {
    "numa": "dim",
    "cpus": "dim",
    "pcie": "dim",
    "pcie_trend": "utilization",
    "nvlink_trend": "memory",
}
_TRENDS = {
    "pcie_trend": ("pcie_rx", "pcie_rx_bytes_per_second", "PCIE RX TREND"),
    "nvlink_trend": ("nvlink_rx", "nvlink_rx_bytes_per_second", "NVL RX TREND"),
}
"""The column that each curve follows, its metric, and its heading."""
_COLUMNS = with_trends(
    TRAFFIC_COLUMNS,
    {
        behind: trend(key, field, header, len(header), 6)
        for key, (behind, field, header) in _TRENDS.items()
    },
)


class TrafficTable:
    """Draws a line for each GPU of the topology; curves of one kind share a scale."""

    def __init__(self, trends: Trends) -> None:
        self._trends = trends
        self._rows: Sequence[GpuAffinity] = ()
        self._most: dict[str, float | None] = {}
        curves = {key: partial(self._curve, key) for key in _TRENDS}
        self._grid = Grid(_COLUMNS, _TRAFFIC_ROLES, bar=_BAR, curves=curves)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of the visible columns."""
        return frozenset(each.column.key for each in self._grid.fitted)

    def lines(self, rows: Sequence[GpuAffinity], theme: Theme, room: int) -> list[Line]:
        """Return headings and rows in `room` cells; empty if no column fits."""
        self._rows, self._most = rows, {}
        self._grid.fit(rows, tuple(row.gpu for row in rows), max(2 * MARGIN, room))
        if not self._grid.fitted:
            return []
        drawn: list[Line] = [self._grid.draw(row, theme) for row in rows]
        return [self._grid.heading(theme), *drawn]

    def _curve(self, key: str, row: GpuAffinity, cells: int, theme: Theme) -> str:
        if key not in self._most:
            self._most[key] = self._highest(key, cells, theme)
        values = self._values(key, row, cells, theme)
        return sparkline(values, self._most[key], cells, theme.glyphs)

    def _highest(self, key: str, cells: int, theme: Theme) -> float | None:
        curves = [self._values(key, row, cells, theme) for row in self._rows]
        known = [value for values in curves for value in values if value is not None]
        return max(known, default=None)

    def _values(self, key: str, row: GpuAffinity, cells: int, theme: Theme) -> list[float | None]:
        if row.device is None:
            return []
        return self._trends.values([row.device.key], _TRENDS[key][1], cells, theme.glyphs)


def wanted_cells(rows: Sequence[GpuAffinity]) -> int:
    """Return the width of all columns with values, without bars and curves."""
    return line_cells(fit(TRAFFIC_COLUMNS, rows, _ENDLESS)) + 2 * MARGIN


def beside(left: Sequence[Line], right: Sequence[Line], theme: Theme) -> list[Line]:
    """Return lines side by side; `right`, if not empty, is as long as `left`."""
    gap = Segment(" ", theme.base)
    return (
        [[*line, gap, *more] for line, more in zip(left, right, strict=True)]
        if right
        else list(left)
    )


_CORNER = "GPU"
_STYLES: dict[str, Callable[[Theme], Style]] = {
    "heading": lambda theme: theme.heading,
    "name": lambda theme: theme.strong,
    "plain": lambda theme: theme.base,
    "self": lambda theme: theme.faint,
    "nvlink": lambda theme: theme.ok,
    "switch": lambda theme: theme.owner,
    "bridge": lambda theme: theme.memory[len(theme.memory) // 2],
    "socket": lambda theme: theme.warn,
    "yes": lambda theme: theme.ok,
    "no": lambda theme: theme.warn,
    "unknown": lambda theme: theme.dim,
    "dim": lambda theme: theme.dim,
}
"""The style of each role in a matrix."""


def fitted_matrix(
    matrix: Matrix, indices: Sequence[int], room: int, *, wanted: int, least: int
) -> MatrixTable:
    """Return the widest form with `wanted` cells beside it, or at least `least`, in `room`."""
    labels = [str(index) for index in indices]
    for in_words, gaps, besides in (
        (True, (2, 2), wanted),
        (True, (2, 1), least),
        (False, (2, 1), least),
        (False, (2, 0), 0),
    ):
        table = MatrixTable(matrix, labels, labels, corner=_CORNER, gaps=gaps, in_words=in_words)
        if MARGIN + table.width + besides <= room:
            break
    return table


def styled(line: StyledLine, theme: Theme) -> Line:
    """Return a line of a matrix, indented."""
    margin = [" " * MARGIN, *[""] * (len(line) - 1)]
    texts = zip(margin, line, strict=True) if line else ()
    return joined(Segment(gap + text, _STYLES[role](theme)) for gap, (text, role) in texts)


def folded(line: StyledLine, cells: int) -> list[StyledLine]:
    """Return a legend line wrapped to `cells`, with the meaning indented."""
    (name, role), (meaning, dim) = line
    first, *others = fold(meaning, cells - width(name))
    rest: list[StyledLine] = [[(" " * width(name), role), (each, dim)] for each in others]
    return [[(name, role), (first, dim)], *rest]


_TABS = ("Links", "P2P read", "P2P write", "P2P atomics", "P2P Y/N")
_MIN_BESIDE = 18
"""Width of two rates with the margins around them."""


class LinksView(View):
    """Shows one matrix of GPU pairs at a time, with the traffic of each GPU beside it."""

    KEYS = LINKS_KEYS

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self._tab = 0
        self._first_tab = 0
        """Index of the first name in view."""
        self._column = 0
        self._trends = Trends(dashboard.history)
        self._traffic = TrafficTable(self._trends)
        self._fitted: tuple[object, MatrixTable] | None = None
        self._drawn: tuple[object, list[Line]] | None = None

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return tabs, notes, the matrix with traffic, and the legend."""
        topology, theme = self.model.snapshot.topology, self.model.value_theme
        notices = self._remarks(cells)
        if topology is None or not topology.indices:
            why = self._wrapped(no_topology(self.model.snapshot), cells - 2 * MARGIN)
            return [
                [],
                *([Segment(" " * MARGIN + text, theme.dim)] for text in why),
                [],
                *notices,
            ]
        rows = gpu_affinities(self.model.snapshot)
        matrix = self._chosen(topology)
        grid = self._fit(matrix, topology, rows, cells)
        count = grid.columns_in(cells - MARGIN)
        self._column = max(0, min(self._column, len(rows) - count))
        columns = slice(self._column, self._column + count)
        above = [self._tabs(topology, columns, cells), *notices, styled(grid.key(), theme)]
        *higher, lowest = [styled(line, theme) for line in grid.heading(columns)]
        self._trends.show(self.model.time.moment)
        traffic = self._traffic.lines(rows, theme, cells - MARGIN - grid.width - 1)
        table = beside([lowest, *self._cells(grid, columns, len(rows))], traffic, theme)
        legend = legend_lines(matrix, with_marks=not grid.in_words)
        legend = [part for line in legend for part in folded(line, cells - 2 * MARGIN)]
        below = [[], *(styled(line, theme) for line in legend), *self._notes(rows, cells)]
        lines = [*above, *higher, *table, *below]
        return self._pinned(lines, [*higher, table[0]], len(above), height)

    def action_matrix(self, step: int) -> None:
        """Show another matrix."""
        self._tab = (self._tab + step) % len(_TABS)

    def action_scroll_columns(self, columns: int) -> None:
        """Scroll the columns if not all fit."""
        self._column += columns

    def clicked(self, x: int, y: int) -> bool:
        """Show the matrix whose name was clicked."""
        tabs = range(self._first_tab, len(_TABS))
        ends = (each for each in tabs if x < self._end_of(each, self._first_tab))
        if y + self.first == 0:
            self._tab = next(ends, self._tab)
        return False

    def _fit(
        self, matrix: Matrix, topology: Topology, rows: Sequence[GpuAffinity], cells: int
    ) -> MatrixTable:
        """Return the matrix fitted to the width; cached while nothing changes."""
        wanted = wanted_cells(rows) + 1
        cause = (topology, self._tab, cells, wanted)
        if self._fitted is None or self._fitted[0] != cause:
            grid = fitted_matrix(
                matrix,
                topology.indices,
                cells,
                wanted=wanted,
                least=min(wanted, _MIN_BESIDE),
            )
            self._fitted = cause, grid
        return self._fitted[1]

    def _chosen(self, topology: Topology) -> Matrix:
        if self._tab == 0:
            return link_matrix(topology)
        if self._tab == len(_TABS) - 1:
            return access_matrix(topology)
        return p2p_matrices(topology)[self._tab - 1]

    def _cells(self, grid: MatrixTable, columns: slice, count: int) -> list[Line]:
        """Return the rows of the matrix; cached while nothing changes."""
        theme = self.model.value_theme
        cause = (grid, columns, theme)
        if self._drawn is None or self._drawn[0] != cause:
            drawn = [styled(grid.row(number, columns), theme) for number in range(count)]
            self._drawn = cause, drawn
        return self._drawn[1]

    def _tabs(self, topology: Topology, columns: slice, cells: int) -> Line:
        """Return the names, from the first one that leaves room for the chosen one."""
        theme = self.model.value_theme
        more = Segment(f" {theme.glyphs.ellipsis}", theme.dim)
        room = cells - len(more.text)
        fitting = (first for first in range(self._tab) if self._end_of(self._tab, first) <= room)
        self._first_tab = next(fitting, self._tab)
        parts: list[Line] = []
        for number, title in enumerate(_TABS[self._first_tab :], self._first_tab):
            style = theme.button_focused if number == self._tab else theme.dim
            parts.append([Segment(f" {title} ", style), Segment(" ", theme.base)])
        shown = topology.indices[columns]
        if len(shown) < len(topology.indices):
            parts.append([Segment(f" GPU {shown[0]}-{shown[-1]}", theme.heading)])
        before = Segment(("<" if self._first_tab else "").ljust(MARGIN), theme.dim)
        return [before, *fit_parts(parts, cells - MARGIN, more)]

    @staticmethod
    def _end_of(tab: int, first: int) -> int:
        """Return the end of a name and its gap, if the names begin with `first`."""
        return MARGIN + sum(len(title) + 3 for title in _TABS[first : tab + 1])

    def _remarks(self, cells: int) -> list[Line]:
        theme = self.model.value_theme
        lines: list[Line] = []
        for remark, is_warning in remarks(self.model.snapshot):
            sign, style = (" ! ", theme.warn) if is_warning else ("   ", theme.base)
            for text in self._wrapped(remark, cells - 4):
                lines.append([Segment(sign, style), Segment(text, style)])
                sign = "   "
        return lines

    def _notes(self, rows: list[GpuAffinity], cells: int) -> list[Line]:
        """Return what the columns mean, and the affinities if their columns do not fit."""
        theme = self.model.value_theme
        keys = self._traffic.keys
        notes = []
        if keys & {"pcie_tx", "nvlink_tx"}:
            nvlink = "; NVL: all NVLinks" if "nvlink_tx" in keys else ""
            notes.append(f"TX, RX: bytes per second that the GPU sends, receives{nvlink}")
            if any(has_unread_rate(row, keys) for row in rows):
                notes.append(
                    "unread: the driver has given no rate; that of PCIe, where no counter has it, "
                    "is read with --pcie-throughput"
                )
        if not {"numa", "cpus"} <= keys:
            notes.append(affinity_sentence(rows))
        room = cells - 2 * MARGIN
        texts = [text for note in notes if note for text in self._wrapped(note, room)]
        lines: list[Line] = [[Segment(" " * MARGIN + text, theme.dim)] for text in texts]
        return [[], *lines] if lines else []

    def _wrapped(self, text: str, cells: int) -> list[str]:
        return wrap(text, max(1, cells), mark=self.model.value_theme.glyphs.ellipsis)

    def _pinned(
        self, lines: list[Line], heading: list[Line], start: int, height: int
    ) -> list[Line]:
        """Keep the column numbers in view while their rows scroll."""
        first = max(0, min(self.first, len(lines) - height))
        if first > start and height > len(heading):
            lines[first : first + len(heading)] = heading
        return lines
