"""The view of how the GPUs are connected: who reaches whom, and what flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual.events import Click

from gpudash.analysis.columns.traffic import Neighbourhood, affinity_sentence, neighbourhoods
from gpudash.analysis.links import (
    Matrix,
    access_matrix,
    link_matrix,
    no_topology,
    p2p_matrices,
    remarks,
)
from gpudash.model.snapshot import Topology
from gpudash.model.text import wrap
from gpudash.tui.dashboard import Picture
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.links import LinkGrid
from gpudash.tui.draw.traffic import TrafficTable, beside, wanted_cells
from gpudash.tui.draw.trends import Trends
from gpudash.tui.keymap import LINKS_KEYS, Key, bindings
from gpudash.tui.views.view import View

_TABS = ("links", "P2P read", "P2P write", "P2P atomics", "P2P Y/N")
_LEAST_BESIDE = 18
"""Cells of two rates with the margins around them."""


class LinksView(View):
    """Shows one matrix of GPU pairs at a time, the traffic of each GPU beside it."""

    KEYS: ClassVar[tuple[Key, ...]] = LINKS_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(LINKS_KEYS)

    def __init__(self, picture: Picture) -> None:
        super().__init__(picture)
        self._tab = 0
        self._first_tab = 0
        """Number of the first name in view."""
        self._column = 0
        self._trends = Trends(picture.history)
        self._traffic = TrafficTable(self._trends)
        self._fitted: tuple[object, LinkGrid] | None = None
        self._drawn: tuple[object, list[Line]] | None = None

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return tabs, remarks, the matrix with traffic, and the legend."""
        topology, theme = self.picture.snapshot.topology, self.picture.look
        told = self._remarks(cells)
        if topology is None or not topology.indices:
            why = self._wrapped(no_topology(self.picture.snapshot), cells - 2 * MARGIN)
            return [[], *([Segment(" " * MARGIN + text, theme.dim)] for text in why), [], *told]
        rows = neighbourhoods(self.picture.snapshot)
        grid = self._fit(topology, rows, cells)
        self._column = max(0, min(self._column, len(rows) - grid.shown))
        above = [self._tabs(grid, topology, cells), *told, grid.key(theme)]
        *higher, lowest = grid.heading(theme, self._column)
        self._trends.show(self.picture.playhead.until)
        traffic = self._traffic.lines(rows, theme, cells - grid.width - 1)
        table = beside([lowest, *self._cells(grid, len(rows))], traffic, theme)
        below = [[], *grid.legend(theme), *self._notes(rows, cells)]
        lines = [*above, *higher, *table, *below]
        return self._pinned(lines, [*higher, table[0]], len(above), height)

    def action_matrix(self, step: int) -> None:
        """Show another matrix."""
        self._show((self._tab + step) % len(_TABS))

    def action_scroll_columns(self, columns: int) -> None:
        """Show other columns where not all fit."""
        self._column += columns
        self.draw()

    def on_click(self, event: Click) -> None:
        """Show the matrix whose name was clicked."""
        if event.screen_y - self.body.region.y + self.first:
            return
        for number in range(self._first_tab, len(_TABS)):
            if event.screen_x < self._end_of(number, self._first_tab):
                self._show(number)
                return

    def _show(self, tab: int) -> None:
        self._tab = tab
        self.draw()

    def _fit(self, topology: Topology, rows: Sequence[Neighbourhood], cells: int) -> LinkGrid:
        """Return the matrix fitted to the width; the same one as long as nothing changes."""
        wanted = wanted_cells(rows) + 1
        cause = (topology, self._tab, cells, wanted)
        if self._fitted is None or self._fitted[0] != cause:
            grid = LinkGrid(
                self._chosen(topology),
                topology.indices,
                cells,
                wanted=wanted,
                least=min(wanted, _LEAST_BESIDE),
            )
            self._fitted = cause, grid
        return self._fitted[1]

    def _chosen(self, topology: Topology) -> Matrix:
        if self._tab == 0:
            return link_matrix(topology)
        if self._tab == len(_TABS) - 1:
            return access_matrix(topology)
        return p2p_matrices(topology)[self._tab - 1]

    def _cells(self, grid: LinkGrid, count: int) -> list[Line]:
        """Return the rows of the matrix; the same ones as long as nothing changes."""
        theme = self.picture.look
        cause = (grid, self._column, theme)
        if self._drawn is None or self._drawn[0] != cause:
            drawn = [grid.row(number, theme, self._column) for number in range(count)]
            self._drawn = cause, drawn
        return self._drawn[1]

    def _tabs(self, grid: LinkGrid, topology: Topology, cells: int) -> Line:
        """Return the names, from the first that leaves room for the chosen one on."""
        theme = self.picture.look
        fitting = (first for first in range(self._tab) if self._end_of(self._tab, first) <= cells)
        self._first_tab = next(fitting, self._tab)
        line = [Segment(("<" if self._first_tab else "").ljust(MARGIN), theme.dim)]
        for number, title in enumerate(_TABS[self._first_tab :], self._first_tab):
            style = theme.button_focused if number == self._tab else theme.dim
            line += [Segment(f" {title} ", style), Segment(" ", theme.base)]
        if grid.shown < len(topology.indices):
            first, last = topology.indices[self._column], self._column + grid.shown - 1
            line.append(Segment(f" GPU {first}-{topology.indices[last]}", theme.heading))
        return line

    @staticmethod
    def _end_of(tab: int, first: int) -> int:
        """Return the cell behind a name and its gap, where the names begin with `first`."""
        return MARGIN + sum(len(title) + 3 for title in _TABS[first : tab + 1])

    def _remarks(self, cells: int) -> list[Line]:
        theme = self.picture.look
        return [
            [Segment(" ! " if not number else "   ", theme.warn), Segment(text, theme.warn)]
            for remark in remarks(self.picture.snapshot)
            for number, text in enumerate(self._wrapped(remark, cells - 4))
        ]

    def _notes(self, rows: list[Neighbourhood], cells: int) -> list[Line]:
        """Return what the columns mean, and the affinities where their columns do not fit."""
        theme = self.picture.look
        keys = self._traffic.keys
        notes = []
        if keys & {"pcie_tx", "nvlink_tx"}:
            names = "PCI is PCIe, NVL all NVLinks" if "nvlink_tx" in keys else "PCI is PCIe"
            notes.append(f"TX, RX: bytes per second that the GPU sends, receives; {names}")
        if not {"numa", "cpus"} <= keys:
            notes.append(affinity_sentence(rows))
        room = cells - 2 * MARGIN
        texts = [text for note in notes if note for text in self._wrapped(note, room)]
        lines: list[Line] = [[Segment(" " * MARGIN + text, theme.dim)] for text in texts]
        return [[], *lines] if lines else []

    def _wrapped(self, text: str, cells: int) -> list[str]:
        return wrap(text, max(1, cells), mark=self.picture.look.glyphs.ellipsis)

    def _pinned(
        self, lines: list[Line], heading: list[Line], place: int, height: int
    ) -> list[Line]:
        """Keep the numbers of the columns in view while their rows scroll."""
        first = max(0, min(self.first, len(lines) - height))
        if first > place and height > len(heading):
            lines[first : first + len(heading)] = heading
        return lines
