"""The pages of many hosts that are tables: hosts, GPUs, users and jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment

from gpudash.analysis.health.acknowledged import Place
from gpudash.analysis.labels import told_apart
from gpudash.analysis.table import Column
from gpudash.fleet.columns import (
    GPU_COLUMNS,
    GROUP_COLUMNS,
    HOST_COLUMNS,
    USER_COLUMNS,
)
from gpudash.fleet.groups import GroupRow
from gpudash.fleet.job_columns import JOB_COLUMNS, JOB_GPU_COLUMNS
from gpudash.fleet.jobs import JobGpu, Usual
from gpudash.fleet.summary import GpuRow, HostRow, Totals, gpu_index
from gpudash.model.fleet import ChartRequest, FleetHost, FleetJob, FleetUser, HostKey, JobKey
from gpudash.model.host_words import HOST_STATES
from gpudash.model.text import width
from gpudash.model.units import celsius, duration, megahertz, percent, watts
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.dialogs.dialog import put_above
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, beside, highlighted, in_view, joined
from gpudash.tui.fleet.chart import of_host, past
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import FleetPage
from gpudash.tui.keymap import CHART_KEYS, GROUP_KEYS, TABLE_KEYS
from gpudash.tui.listing import Ranking
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.filter_prompt import FilterPrompt

Row = TypeVar("Row")

_MIN_CHART = 5
"""Minimum lines of a chart with its heading."""
_PART_CELLS, _PART_GAP = 96, 2
"""Width of each part of a long table, several of which stand side by side, and of the gap."""
_MEASURED = 400
"""Rows used to size columns; others may widen them later."""


class TablePage(FleetPage, Generic[Row]):
    """Rows around a cursor moved by keys and clicks."""

    KEYS = TABLE_KEYS
    COLUMNS: ClassVar[Sequence[Column[Any]]]
    ROLES: ClassVar[Mapping[str, str]]
    RANKED: ClassVar[Callable[[FleetModel], Ranking[Any]]]
    """The method of the model that returns its rows."""
    EMPTY: ClassVar[str]
    """The text of a table without rows, unless a filter hides them."""

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._grid: Grid[Row] = Grid(self.COLUMNS, self.ROLES, bar=6)
        self._above_table = 0
        """Lines of the page above the table."""
        self._first = self._shown = 0
        self._height = self._room = 1
        """Rows in each part of the table, several of which stand side by side, and its width."""
        self._ruled: int | None = None
        """The position of a rule among the rows in view, None for none."""

    @property
    def ranking(self) -> Ranking[Row]:
        """The rows in order, with the cursor."""
        return type(self).RANKED(self.model)

    @property
    def rule(self) -> tuple[int, str] | None:
        """The row that a rule precedes, with its text; None for none."""
        return None

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return the headings and the rows in view, a long table in several parts."""
        ranking, theme = self.ranking, self.model.value_theme
        if not ranking.rows:
            return [[], [Segment(" " * MARGIN + self.empty_text, theme.dim)]]
        self._height = max(1, height - 1)
        rule = self.rule if self._height > 1 else None
        ruled = int(rule is not None)
        across = max(1, cells // _PART_CELLS) if len(ranking.rows) + ruled > self._height else 1
        self._room, self.page_rows = cells // across, across * self._height - ruled
        room = self._room - (_PART_GAP if across > 1 else 0)
        window = ranking.window(self.page_rows)
        self._first, self._shown = window.start, len(window)
        rows = ranking.rows[window.start : window.stop]
        measured = [*ranking.rows[:_MEASURED], *rows]
        drawn = self._grid.rows(
            measured,
            len(ranking.rows),
            room,
            rows,
            lambda row: joined(self._grid.draw(row, theme)),
            sorted_by=ranking.sort_key,
        )
        index = ranking.cursor - window.start
        drawn[index] = highlighted(drawn[index], theme, room)
        self._ruled = None
        if rule is not None and 0 <= rule[0] - self._first <= self._shown:
            self._ruled = rule[0] - self._first
            text = f"{' ' * MARGIN}{rule[1]} "
            drawn.insert(self._ruled, [Segment(text.ljust(room, theme.glyphs.rule), theme.dim)])
        titles = self._grid.heading(theme, sorted_by=ranking.sort_key, down=ranking.descending)
        parts = [
            [titles, *drawn[start : start + self._height]]
            for start in range(0, len(drawn), self._height)
        ]
        return [beside(line, self._room, theme.base) for line in zip_longest(*parts)]

    @property
    def position(self) -> str:
        """Which rows are in view, empty if all are: `1-20 of 1,000`."""
        count = len(self.ranking.rows)
        text = in_view(self._first, self._shown, count)
        # MIG instances have rows too, but are not counted as GPUs.
        return f"{text} rows" if text and count > self.totals.gpus else text

    @property
    def empty_text(self) -> str:
        """Why there are no rows."""
        return "nothing passes the filter" if self.model.is_filtered else self.EMPTY

    def move(self, rows: int) -> None:
        """Move the cursor by rows, stopping at the ends."""
        self.ranking.move(rows)

    def clicked(self, x: int, y: int) -> bool:
        """Sort by a heading, or select a row; return whether it was already selected."""
        y -= self._above_table
        ranking = self.ranking
        if y == 0:
            key = self._grid.column_at(x % self._room)
            if key is not None:
                ranking.sort_by(key)
            return False
        row = x // self._room * self._height + y - 1
        if row == self._ruled:
            return False
        if self._ruled is not None and row > self._ruled:
            row -= 1
        if not 0 < y <= self._height or row >= self._shown:
            return False
        index = self._first + row
        was_selected = ranking.cursor == index
        ranking.move_to(index)
        return was_selected

    def action_sort(self, step: int) -> None:
        """Sort by a column next to the present one."""
        self.ranking.sort_beside([each.column.key for each in self._grid.fitted], step)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.ranking.reverse()

    def action_choose_sort(self) -> None:
        """Choose the column to sort by."""
        ranking = self.ranking

        def chosen(key: str | None) -> None:
            if key is not None and key != ranking.sort_key:
                ranking.sort_by(key)

        current = ranking.sort_key
        # Including columns without room: the one that orders the rows is always shown.
        found = [
            Choice(each.key, each.header, marked=each.key == current)
            for each in self.COLUMNS
            if each.priority == 0 or each.has_content(ranking.rows)
        ]
        self.choose("Sort by", found, chosen, current=current)


class HostsPage(TablePage[HostRow]):
    """All hosts."""

    COLUMNS = HOST_COLUMNS
    RANKED = FleetModel.ranked_hosts
    TITLE = "Hosts"
    ROLES: ClassVar[Mapping[str, str]] = {"host": "base", "group": "dim"}
    EMPTY = "no host is known yet"

    @property
    def places(self) -> Sequence[Place]:
        """The host under the cursor."""
        row = self.ranking.selected
        return () if row is None else (Place(row.title),)

    def action_open(self) -> None:
        """Enter the host under the cursor."""
        if (row := self.ranking.selected) is not None:
            self.enter(row.host)


class GpusPage(TablePage[GpuRow]):
    """The GPUs of all hosts."""

    COLUMNS = GPU_COLUMNS
    RANKED = FleetModel.ranked_gpus
    TITLE = "GPUs"
    ROLES: ClassVar[Mapping[str, str]] = {"host": "base", "gpu": "strong"}
    EMPTY = "no GPU is known yet"

    @property
    def places(self) -> Sequence[Place]:
        """The GPU under the cursor, or that of a MIG instance."""
        row = self.ranking.selected
        host = None if row is None else self.model.row_of(row.host.key)
        if row is None or host is None:
            return ()
        uuid = row.device.parent_uuid or row.device.uuid
        return (Place(host.title, gpu_index(*row), uuid),)

    def action_open(self) -> None:
        """Enter the host of the GPU under the cursor."""
        if (row := self.ranking.selected) is not None:
            self.enter(row.host)


class HostGpusPage(GpusPage):
    """The known data of a host without ssh: its GPUs, and its findings."""

    KEYS = (*TABLE_KEYS, *CHART_KEYS)
    COLUMNS = GPU_COLUMNS[1:]
    TITLE = ""
    EMPTY = "nothing is known of its GPUs"

    def __init__(self, model: FleetModel, host: HostKey) -> None:
        super().__init__(model)
        self.host = host
        self._above_table = 1

    @property
    def ranking(self) -> Ranking[GpuRow]:
        """The GPUs of the host in order."""
        return self.model.ranked_gpus(self.host)

    def charts(self, cells: int, height: int) -> tuple[ChartRequest, ...]:
        """Return the chart of these GPUs."""
        return of_host(self.model, self.host)

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return a line on the host, then the table, then the chart."""
        model, row = self.model, self.model.row_of(self.host)
        theme = model.value_theme
        if row is None:
            return super().lines(cells, height)
        top = _about(row.host, model, theme, cells)
        room = height - 1
        table = super().lines(cells, min(room, len(row.devices) + 1))
        left = room - len(table) - 1
        drawn = past(model, theme, cells, left) if left >= _MIN_CHART else []
        return [top, *table, *([[]] if drawn else []), *drawn]

    @property
    def empty_text(self) -> str:
        """Why there are no rows."""
        return self.EMPTY

    @property
    def _refused(self) -> frozenset[str]:
        """Actions without effect: there is nothing more to show of a GPU."""
        return super()._refused | {"open"}


class GroupsPage(TablePage[GroupRow]):
    """Hosts added up by rack, model or cluster."""

    KEYS = (*TABLE_KEYS, *GROUP_KEYS)
    COLUMNS = GROUP_COLUMNS
    RANKED = FleetModel.ranked_groups
    ROLES: ClassVar[Mapping[str, str]] = {"group": "strong"}
    EMPTY = "no host is known yet"

    @property
    def heading(self) -> str:
        """What the hosts are grouped by."""
        return f"Hosts by {self.model.grouping}"

    def action_group_by(self) -> None:
        """Group by the next."""
        self.model.group_by_next()

    def action_open(self) -> None:
        """Show only the hosts of the group under the cursor."""
        if (row := self.ranking.selected) is None:
            return
        if row.name is None:
            self.show_message(f"of these hosts no {self.model.grouping} is known")
        else:
            self.narrow(self.model.grouping, row.name, "tables.HostsPage")


class UsersPage(TablePage[FleetUser]):
    """The users of all GPUs."""

    COLUMNS = USER_COLUMNS
    RANKED = FleetModel.ranked_users
    TITLE = "Users"
    ROLES: ClassVar[Mapping[str, str]] = {"user": "owner", "memory": "memory"}
    EMPTY = "no user of a GPU is known: nothing says whose processes or jobs there are"

    def action_open(self) -> None:
        """Show only the GPUs of the user under the cursor."""
        if (user := self.ranking.selected) is not None:
            self.narrow("user", user.name or "")


class JobsPage(TablePage[FleetJob]):
    """The jobs on all GPUs."""

    COLUMNS = JOB_COLUMNS
    RANKED = FleetModel.ranked_jobs
    TITLE = "Jobs"
    ROLES: ClassVar[Mapping[str, str]] = {"job": "strong", "user": "owner", "name": "dim"}
    EMPTY = "no job is known: neither Slurm's nor Kubernetes' labels are there"

    def on_filter_prompt_kept(self, _message: FilterPrompt.Kept) -> None:
        """Show the GPUs of the only job that passes the filter: its number was typed."""
        if self.model.is_filtered and len(self.ranking.rows) == 1:
            self.open_found(self.ranking.rows[0].key)

    def action_open(self) -> None:
        """Show the GPUs of the job under the cursor."""
        if (job := self.ranking.selected) is not None:
            put_above(self.app, JobPage(self.model, job.key))


class JobPage(TablePage[JobGpu]):
    """The GPUs of one job in comparison, the slowest first."""

    COLUMNS = JOB_GPU_COLUMNS
    ROLES: ClassVar[Mapping[str, str]] = {"host": "base", "gpu": "strong"}
    EMPTY = "nothing is known of its GPUs"

    def __init__(self, model: FleetModel, job: JobKey) -> None:
        super().__init__(model)
        self.job = job
        # The cursor was in another job.
        self.ranking.move(-len(self.ranking.rows))

    @property
    def totals(self) -> Totals:
        """The sums of its GPUs."""
        return self.model.job_totals

    @property
    def heading(self) -> str:
        """The title of the job."""
        cluster, name = self.job
        return f"Job {name}" if cluster is None else f"Job {name} in {cluster}"

    @property
    def ranking(self) -> Ranking[JobGpu]:
        """The GPUs in order."""
        return self.model.ranked_job_gpus(self.job)

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return lines on the job, its GPUs' medians and other users of these; then the table."""
        job, rows = self.model.job_of(self.job), self.ranking.rows
        theme = self.model.value_theme
        parts: list[str | None] = []
        if job is not None:
            parts += [job.user, job.name, job.state]
        if rows:
            # A MIG instance has the name of a slice of its GPU, which is not another model.
            gpus = [row for row in rows if row.gpu.device.parent_uuid is None] or rows
            usual = {row.gpu.device.name or "?": row.usual for row in gpus}
            names = told_apart(usual) if len(usual) > 1 else dict.fromkeys(usual, "GPUs")
            medians = (f"{names[name]}: {_medians(each)}" for name, each in sorted(usual.items()))
            parts.append(f"median of its {', '.join(medians)}")
        top = [("   ".join(filter(None, parts)), theme.dim)]
        others = [
            f"{each} on {row.gpu.host.name}:{row.gpu.label}" for row in rows for each in row.others
        ]
        if others:
            top.append((f"not its own: {', '.join(others)}", theme.warn))
        elif rows and all(row.gpu.host.processes is None for row in rows):
            top.append(("not its own: not known, as no processes of its hosts are", theme.dim))
        self._above_table = len(top)
        about = [[Segment(f" {theme.cut(text, cells - 2)}", style)] for text, style in top]
        return [*about, *super().lines(cells, height - len(top))]

    def action_open(self) -> None:
        """Enter the host of the GPU under the cursor."""
        if (row := self.ranking.selected) is not None:
            self.enter(row.gpu.host)


def _medians(usual: Usual) -> str:
    values = (
        percent(usual.utilization),
        megahertz(usual.clock_mhz),
        watts(usual.power_mw),
        celsius(usual.temperature),
    )
    return "  ".join(values)


_NO_SSH = "no processes: no ssh"


def _about(host: FleetHost, model: FleetModel, theme: Theme, cells: int) -> Line:
    """Return the name and data of a host as a whole, faults first."""
    words, age = HOST_STATES[host.state], host.age_seconds
    parts = (
        "" if host.state == "ok" else ": ".join(filter(None, (words.sentence, host.message))),
        "" if host.state == "ok" or age is None else f"last answer {duration(age)} ago",
        "" if host.state != "ok" or model.time.is_recorded or model.may_enter(host) else _NO_SSH,
        "" if host.drain_reason is None else f"drained: {host.drain_reason}",
        host.group,
        host.driver_version and f"driver {host.driver_version}",
    )
    name = f" {host.name}  "
    room = max(0, cells - width(name) - 1)
    about = theme.cut("   ".join(filter(None, parts)), room)
    return [Segment(name, theme.strong), Segment(about, theme.dim)]
