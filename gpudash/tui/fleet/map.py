"""The page of the whole cluster: sums, the heat map, the selected host, the worst findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment

from gpudash.analysis.filter import Filter
from gpudash.analysis.health.acknowledged import Place
from gpudash.fleet.summary import HostRow
from gpudash.model.fleet import ChartRequest
from gpudash.model.text import width
from gpudash.tui.bindings import bindings, shown_key
from gpudash.tui.draw.findings import worst
from gpudash.tui.draw.line import Line, cells_of, fitted, joined, spread
from gpudash.tui.fleet.chart import of_all, past
from gpudash.tui.fleet.head import free_line, held_line, host_line, verdict_line
from gpudash.tui.fleet.heatmap import Arrangement, Cell, Piece, arrange
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import FleetPage
from gpudash.tui.fleet.paint import PAINTINGS, Painter
from gpudash.tui.keymap import FLEET_KEYS, MAP_KEYS, SCREEN_KEYS
from gpudash.tui.preferences import Preferences
from gpudash.tui.theme import PLAIN, Theme
from gpudash.tui.widgets.filter_prompt import FilterPrompt

_MIN_FINDINGS, _MAX_FINDINGS, _MIN_MAP = 3, 5, 3
"""Minimum and maximum lines reserved for findings, and minimum lines of the map."""
_MIN_CHART = 8
"""Lines of a chart with its heading."""
_MIN_HOST = 40
"""Minimum width of the host line to have something beside it."""
_WIDE = 160
"""Width from which two lines are side by side."""


class _Plan(NamedTuple):
    """How the lines of the page are divided up."""

    findings: int
    """Lines reserved for findings, fewer if the map would not fit."""
    room: int
    """Lines for the map."""
    above: int
    """Blank lines above the map's title."""
    rest: int
    """Lines below the map."""
    has_chart: bool


class MapPage(FleetPage):
    """The heat map with its surroundings, the first page of many hosts."""

    KEYS = MAP_KEYS
    # Keys that go back on other pages quit here.
    BINDINGS: ClassVar[list[Any]] = bindings((*SCREEN_KEYS, *MAP_KEYS))

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._arrangement = Arrangement("a host", ())
        self._arranged_for: object = None
        self._painter = Painter(PAINTINGS[0], (), PLAIN)
        self._painted: list[Line] = []
        """The map without its cursor."""
        self._painted_for: tuple[object, ...] | None = None
        self._map_top = 0
        self._findings_top = 0
        self._shown_findings = 0

    def apply(self, preferences: Preferences) -> None:
        """Apply the user's settings."""
        preferences.put_in_force(self.model, FLEET_KEYS)

    def charts(self, cells: int, height: int) -> tuple[ChartRequest, ...]:
        """Return the chart of all GPUs if the map leaves room for it.

        While a filter is being typed, it does not change: each key would query the server again.
        """
        if not self._plan(cells, height).has_chart:
            return ()
        is_typed = self.prompt.is_open and self.model.charts
        return self.model.charts if is_typed else of_all(self.model)

    def _plan(self, cells: int, height: int) -> _Plan:
        """Lay out the map, and divide up the rest."""
        top = 1 if cells >= _WIDE else 2
        found = min(max(_MIN_FINDINGS, height // 4), _MAX_FINDINGS)
        if height - top - 2 - found < _MIN_MAP:
            found = 1 if height - top - 2 > _MIN_MAP else 0
        room = height - top - 2 - found
        self._arrange(cells - 2, max(0, room))
        drawn = len(self._arrangement.lines)
        above = min(1, (room - drawn) // 2)
        rest = room - drawn - above
        # A line above the chart and one below.
        has_chart = bool(drawn) and rest >= _MIN_CHART + 2
        return _Plan(found, room, above, rest, has_chart)

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return all lines, with the map in the space that others leave."""
        model, plan = self.model, self._plan(cells, height)
        theme = model.value_theme
        top = _who_and_where(model, theme, cells)
        key = shown_key(model.keys, "fleet.findings")
        now = model.snapshot.taken_at
        least = plan.findings
        findings = worst(model.findings, theme, cells, least, key, now=now) if least else []
        selected = model.selected_host
        index = _index_of(selected, model)
        drawn = self._map(index, theme)
        self._map_top = len(top) + plan.above + 1
        title, unexplained = self._title(theme, cells)
        end = verdict_line(model, theme, cells - _MIN_HOST - 2)
        end = [Segment(" ", theme.base), *end, Segment(" ", theme.base)] if end else []
        host = host_line(selected, self._others(index), theme, cells - cells_of(end))
        host = spread(host, end, cells, theme.base)
        rest = plan.rest
        others = max(0, len(model.findings) - least)
        height = max(_MIN_CHART, rest - 2 - others)
        chart = past(model, theme, cells, height, is_mean=True) if plan.has_chart else []
        below = [[], *chart, *[[]] * (rest - len(chart) - 1)] if chart else [[]] * rest
        below[:1] = [unexplained][:rest]
        # Empty lines show more findings, but for one below the map and one below the chart.
        spare = rest - (len(chart) + 2 if chart else 1)
        if findings and spare > 0:
            shown = least + spare
            findings = worst(model.findings, theme, cells, shown, key, now=now)
            del below[rest - max(0, len(findings) - least) :]
        lines = [*top, *[[]] * plan.above, title, *drawn, *below, host]
        self._findings_top, self._shown_findings = len(lines), len(findings)
        return [*lines, *findings]

    def move(self, rows: int) -> None:
        """Move the cursor by lines of the map."""
        self._go(0, rows)

    def turned(self, lines: int) -> None:
        """Move the cursor by the wheel, a line of the map at a time."""
        super().turned(1 if lines > 0 else -1)

    def clicked(self, x: int, y: int) -> bool:
        """Put the cursor on a host, or show a finding; return whether the host was selected."""
        finding = y - self._findings_top
        if 0 <= finding < self._shown_findings:
            self.action_open_page("findings.FindingsPage")
            self.model.finding = finding
            return False
        cell = self._arrangement.cell_at(x - 1, y - self._map_top)
        if cell is None:
            return False
        before = self.model.cursor
        self._put(cell)
        return self.model.cursor == before

    @property
    def places(self) -> Sequence[Place]:
        """The host under the cursor."""
        row = self.model.selected_host
        return () if row is None else (Place(row.title),)

    def on_filter_prompt_kept(self, _message: FilterPrompt.Kept) -> None:
        """Show the GPUs of a job by its typed number, or the jobs if several clusters have it."""
        jobs = self.model.ranked_jobs().rows
        name = jobs[0].id if len({job.id for job in jobs}) == 1 else ""
        if name and self.model.filter.text.strip() in (name, name.rpartition(":")[2]):
            if len(jobs) == 1:
                self.open_found(jobs[0].key)
            else:
                self.action_open_page("tables.JobsPage")

    def action_open(self) -> None:
        """Enter the host under the cursor."""
        if self.model.selected_host is not None:
            self.enter(self.model.selected_host.host)

    def action_go_back(self) -> None:
        """Go back to the present, and then drop the filter."""
        model = self.model
        if not model.time.is_live:
            model.time.go_live()
        elif model.is_filtered:
            model.before_narrow = None
            model.filter_by(Filter(""))

    def action_aside(self, cells: int) -> None:
        """Move the cursor to a neighbouring cell."""
        self._go(cells, 0)

    def action_paint(self, step: int) -> None:
        """Paint the map by the next or the previous value."""
        index = PAINTINGS.index(self.model.painting) + step
        self.model.painting = PAINTINGS[index % len(PAINTINGS)]

    def _go(self, across: int, down: int) -> None:
        index = _index_of(self.model.selected_host, self.model)
        cell = self._arrangement.beside(index, across, down)
        if cell is not None:
            self._put(cell)

    def _put(self, cell: Cell) -> None:
        model = self.model
        rows = [model.rows[n] for n in cell.hosts if n < len(model.rows)]
        if rows:
            model.cursor = min(rows, key=lambda row: row.worst_first).host.key

    def _others(self, index: int) -> int:
        """Return how many hosts share a host's cell."""
        cells = (cell.hosts for _, _, cell in self._arrangement.spots())
        return next((len(hosts) - 1 for hosts in cells if index in hosts), 0)

    def _arrange(self, cells: int, height: int) -> None:
        model = self.model
        shape = tuple([(row.title, row.host.group, row.gpus + row.missing) for row in model.rows])
        if self._arranged_for != (shape, cells, height):
            self._arranged_for = shape, cells, height
            self._arrangement = arrange(model.rows, cells, height)
            self.page_rows = max(1, len(self._arrangement.lines) // 2)

    def _map(self, index: int, theme: Theme) -> list[Line]:
        """Return the lines of the map with the selected host marked."""
        model = self.model
        key = model.revision, model.painting, id(self._arrangement), id(theme)
        if self._painted_for != key:
            self._painted_for = key
            self._painter = Painter(model.painting, model.rows, theme)
            self._painted = [self._line(pieces, -1, theme) for pieces in self._arrangement.lines]
        lines = list(self._painted)
        for y, pieces in enumerate(self._arrangement.lines):
            if any(_has(piece, index) for piece in pieces):
                lines[y] = self._line(pieces, index, theme)
        return lines

    def _line(self, pieces: Sequence[Piece], index: int, theme: Theme) -> Line:
        """Return a line of the map, with the host `index` marked."""
        line: Line = [Segment(" ", theme.base)]
        x = 0
        for piece in pieces:
            before = " " * (piece.x - width(piece.label) - x)
            # It was shortened when the map was laid out, independently of the theme.
            label = piece.label.replace("…", theme.glyphs.ellipsis)
            line.append(Segment(before + label, theme.dim))
            if _has(piece, index):
                line += _marked(self._painter, piece.cells, index, theme)
            else:
                line += self._painter.line(piece.cells)
            x = piece.x + len(piece.cells)
        return joined(line)

    def _title(self, theme: Theme, cells: int) -> tuple[Line, Line]:
        """Return the heading with the painting and the letters' meanings; then the remaining
        letters.

        If there are hosts but no room for their map, the heading says so.
        """
        model = self.model
        if model.rows and not self._arrangement.lines:
            key = shown_key(model.keys, "fleet.hosts")
            text = f" no room for the map; {key} lists the hosts"
            return [Segment(theme.cut(text, cells), theme.dim)], []
        left = [
            Segment(f" {model.painting.title}", theme.title),
            Segment(f"  a cell is {self._arrangement.unit}", theme.dim),
        ]
        end = Segment(" ", theme.base)
        legend, others = self._painter.legend(cells - cells_of(left) - 3, cells - 3)
        right = [*others, end] if others else []
        return (
            spread(left, [*legend, end], cells, theme.base),
            spread([], right, cells, theme.base) if others else [],
        )


def _index_of(wanted: HostRow | None, model: FleetModel) -> int:
    """Return a host's index in the order of the map, -1 for none."""
    return next((n for n, row in enumerate(model.rows) if row is wanted), -1)


def _has(piece: Piece, index: int) -> bool:
    """Whether a run of cells contains a host."""
    return index >= 0 and any(cell is not None and index in cell.hosts for cell in piece.cells)


def _marked(painter: Painter, cells: tuple[Cell | None, ...], index: int, theme: Theme) -> Line:
    """Return a run of cells, with those of a host marked."""
    line: Line = []
    for cell in cells:
        text, style = (" ", theme.base) if cell is None else painter.glyph(cell)
        if cell is not None and index in cell.hosts:
            text, style = painter.digit(cell), theme.button_focused
        line.append(Segment(text, style))
    return line


def _who_and_where(model: FleetModel, theme: Theme, cells: int) -> list[Line]:
    """Return who holds GPUs idle and where whole hosts are free: side by side if they fit."""
    if cells < _WIDE:
        return [held_line(model, theme, cells), free_line(model, theme, cells)]
    free = free_line(model, theme, cells // 2)
    left = cells - cells_of(free)
    return [[*fitted(held_line(model, theme, left - 2), left, theme.base), *free]]
