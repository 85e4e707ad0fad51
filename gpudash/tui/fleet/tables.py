"""The pages that are lists: hosts, GPUs, users and jobs under headings, and findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rich.segment import Segment

from gpudash.analysis.table import Column
from gpudash.fleet.columns import GPU_COLUMNS, HOST_COLUMNS, JOB_COLUMNS, USER_COLUMNS
from gpudash.fleet.summary import GpuRow, brief
from gpudash.model.fleet import HOST_STATES, FleetHost
from gpudash.model.text import cut, width
from gpudash.tui.draw.findings import whole
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, highlighted, joined
from gpudash.tui.fleet.chart import past
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.listing import Ranking
from gpudash.tui.theme import Theme

Row = TypeVar("Row")

_IN_SENTENCE = 3
"""Hosts that the sentence of a finding names."""
_MIN_CHART = 5
"""Lines of a chart with its heading."""
_MEASURED = 400
"""Rows by which columns are made as wide as they need; others may widen them later."""


class TablePage(Generic[Row]):
    """Rows around a cursor that keys and clicks move."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        roles: Mapping[str, str],
        ranking: Callable[[FleetModel], Ranking[Row]],
        empty: str,
    ) -> None:
        self._grid = Grid(columns, roles, bar=6)
        self.ranking, self._empty = ranking, empty
        self._top, self._page = 0, 1
        self._shown = 0

    def lines(self, model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the headings and the rows in view."""
        ranking = self.ranking(model)
        if not ranking.rows:
            return [[], [Segment(" " * MARGIN + self.empty_text(model), theme.dim)]]
        self._page = max(1, height - 1)
        window = ranking.window(self._page)
        self._top, self._shown = window.start, len(window)
        rows = ranking.rows[window.start : window.stop]
        measured = [*ranking.rows[:_MEASURED], *rows]
        drawn = self._grid.rows(
            measured,
            len(ranking.rows),
            cells,
            rows,
            lambda row: joined(self._grid.draw(row, theme)),
            sorted_by=ranking.sort_key,
        )
        index = ranking.cursor - window.start
        drawn[index] = highlighted(drawn[index], theme, cells)
        titles = self._grid.heading(theme, sorted_by=ranking.sort_key, down=ranking.descending)
        return [titles, *drawn]

    def position(self, model: FleetModel) -> str:
        """Return which rows are in view, empty where all are: `1-20 of 1,000`."""
        return _position(self._top, self._shown, len(self.ranking(model).rows))

    def empty_text(self, model: FleetModel) -> str:
        """Return why there are no rows."""
        return "nothing passes the filter" if model.is_filtered else self._empty

    def move(self, model: FleetModel, rows: int) -> None:
        """Move the cursor by rows, at most to an end."""
        self.ranking(model).move(rows)

    def page(self, model: FleetModel, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.move(model, pages * self._page)

    @property
    def sortable(self) -> list[Column[Row]]:
        """The columns on screen."""
        return [each.column for each in self._grid.fitted]

    def clicked(self, model: FleetModel, x: int, y: int) -> bool:
        """Sort by a heading, or select a row; return whether it was selected before."""
        ranking = self.ranking(model)
        if y == 0:
            key = self._grid.column_at(x)
            if key is not None:
                ranking.sort_by(key)
            return False
        if not 0 < y <= self._shown:
            return False
        index = self._top + y - 1
        was_selected = ranking.cursor == index
        ranking.move_to(index)
        return was_selected


def _position(first: int, shown: int, count: int) -> str:
    """Return which of so many are in view, empty where all are."""
    if shown >= count:
        return ""
    last = first + shown
    which = f"{last:,}" if shown == 1 else f"{first + 1:,}-{last:,}"
    return f"{which} of {count:,}"


class GpuPage(TablePage[GpuRow]):
    """The GPUs of all hosts, or of one: then with what is wrong with that host."""

    def __init__(self) -> None:
        roles = {"host": "base", "gpu": "strong"}
        super().__init__(GPU_COLUMNS, roles, FleetModel.ranked_gpus, "no GPU is known yet")
        self._of_all: Grid[GpuRow] = self._grid
        self._of_host: Grid[GpuRow] = Grid(GPU_COLUMNS[1:], roles, bar=6)

    def lines(self, model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return a line on the host, then the table."""
        row = model.row_of(model.host)
        self._grid = self._of_host if model.host else self._of_all
        if row is None:
            return super().lines(model, theme, cells, height)
        top = _about(row.host, model, theme, cells)
        room = height - 1
        table = super().lines(model, theme, cells, min(room, len(row.devices) + 1))
        left = room - len(table) - 1
        drawn = past(model, theme, cells, left) if left >= _MIN_CHART else []
        return [top, *table, *([[]] if drawn else []), *drawn]

    def clicked(self, model: FleetModel, x: int, y: int) -> bool:
        """Do the same a line lower, below the one on the host."""
        return super().clicked(model, x, y - (model.host is not None))

    def position(self, model: FleetModel) -> str:
        """Return which rows are in view; they are more than the GPUs where MIG divides some."""
        text, rows = super().position(model), self.ranking(model).rows
        return f"{text} rows" if text and len(rows) > model.totals.gpus else text

    def empty_text(self, model: FleetModel) -> str:
        """Return why there are no rows."""
        return "nothing is known of its GPUs" if model.host else super().empty_text(model)


_NO_SSH = "no processes: no ssh"


def _about(host: FleetHost, model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return the name of a host and what is known of it as a whole, first what is wrong."""
    words = HOST_STATES[host.state]
    parts = (
        "" if host.state == "ok" else ": ".join(filter(None, (words.sentence, host.message))),
        "" if host.state != "ok" or model.player or model.may_enter(host) else _NO_SSH,
        "" if host.drain_reason is None else f"drained: {host.drain_reason}",
        host.group,
        host.driver_version and f"driver {host.driver_version}",
    )
    name = f" {host.name}  "
    room = max(0, cells - width(name) - 1)
    about = cut("   ".join(filter(None, parts)), room, mark=theme.glyphs.ellipsis)
    return [Segment(name, theme.strong), Segment(about, theme.dim)]


class FindingsPage:
    """Findings one below the other, the worst first, a cursor on one."""

    def __init__(self) -> None:
        self._first = self._end = 0
        """The lines in view."""
        self._starts: list[int] = []
        """The line of each finding, as they were drawn."""
        self._page = 1

    def lines(self, model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the findings in view, the one under the cursor whole."""
        self._starts = []
        if not model.findings:
            return [[], [Segment(" Nothing is wrong", theme.dim)]]
        lines: list[Line] = []
        for number, finding in enumerate(model.findings):
            where = f"on {brief(finding.hosts, 6)}" if len(finding.hosts) > _IN_SENTENCE else ""
            under_cursor = number == model.finding
            self._starts.append(len(lines))
            lines += [*whole(finding, theme, cells, under_cursor=under_cursor, where=where), []]
        start = self._starts[model.finding]
        end = (
            self._starts[model.finding + 1] if model.finding + 1 < len(self._starts) else len(lines)
        )
        self._first = min(max(self._first, end - height), start, max(0, len(lines) - height))
        self._page = max(1, height // max(1, len(lines) // len(self._starts)))
        # The last line is the empty one below the last finding.
        self._end = min(self._first + height, len(lines) - 1)
        return lines[self._first : self._end]

    def position(self, model: FleetModel) -> str:
        """Return which findings are in view, empty where all are: `1-3 of 11`."""
        if not model.findings:
            return ""
        seen = [n for n, start in enumerate(self._starts) if self._first <= start < self._end]
        return _position(seen[0], len(seen), len(model.findings)) if seen else ""

    def move(self, model: FleetModel, rows: int) -> None:
        """Move the cursor by findings."""
        model.finding = max(0, min(model.finding + rows, len(model.findings) - 1))

    def page(self, model: FleetModel, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.move(model, pages * self._page)

    def clicked(self, model: FleetModel, _x: int, y: int) -> bool:
        """Put the cursor on a finding; return whether it was there."""
        line = y + self._first
        found = [n for n, start in enumerate(self._starts) if start <= line]
        is_blank = line + 1 in self._starts
        if not found or is_blank or not self._first <= line < self._end:
            return False
        before, model.finding = model.finding, found[-1]
        return model.finding == before


def table_pages() -> dict[str, TablePage[Any]]:
    """Return the tables by the names of their pages."""
    return {
        "hosts": TablePage(
            HOST_COLUMNS,
            {"host": "base", "group": "dim"},
            FleetModel.ranked_hosts,
            "no host is known yet",
        ),
        "gpus": GpuPage(),
        "users": TablePage(
            USER_COLUMNS,
            {"user": "owner", "memory": "memory"},
            FleetModel.ranked_users,
            "no user of a GPU is known: neither processes nor jobs are",
        ),
        "jobs": TablePage(
            JOB_COLUMNS,
            {"job": "strong", "user": "owner", "name": "dim"},
            FleetModel.ranked_jobs,
            "no job is known: neither Slurm's nor Kubernetes' labels are there",
        ),
    }
