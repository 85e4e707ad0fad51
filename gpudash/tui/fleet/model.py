"""The state of the screen of many hosts: a snapshot, its filter, order, painting and cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import is_
from typing import TYPE_CHECKING

from gpudash.analysis.filter import Filter
from gpudash.feed.protocol import Feed, FeedState, SnapshotFeed
from gpudash.fleet.columns import (
    EVENT_COLUMNS,
    GPU_COLUMNS,
    GROUP_COLUMNS,
    HOST_COLUMNS,
    USER_COLUMNS,
)
from gpudash.fleet.event_log import Log
from gpudash.fleet.events import events
from gpudash.fleet.groups import GROUPINGS, GroupRow, group_rows
from gpudash.fleet.history import FleetHistory
from gpudash.fleet.job_columns import JOB_COLUMNS, JOB_GPU_COLUMNS
from gpudash.fleet.jobs import JobGpu, has_job, job_gpus, known_key
from gpudash.fleet.summary import (
    GpuRow,
    HostRow,
    Totals,
    findings_about,
    fitting,
    host_rows,
    totals,
)
from gpudash.fleet.users import Price, users_of
from gpudash.fleet.where import GpuOfHost, fits, passing
from gpudash.model.errors import UsageError
from gpudash.model.fleet import (
    EMPTY,
    ChartRequest,
    Event,
    FleetHost,
    FleetJob,
    FleetRequest,
    FleetSnapshot,
    FleetSource,
    FleetUser,
    HostKey,
    JobKey,
    encode_request,
    mark_of,
)
from gpudash.model.snapshot import Finding
from gpudash.model.state import HELD
from gpudash.tui.fleet.happened import Happened, besides
from gpudash.tui.fleet.heatmap import ordered
from gpudash.tui.fleet.paint import PAINTINGS, Painting
from gpudash.tui.keymap import FLEET_KEYS, Key
from gpudash.tui.listing import Ranking
from gpudash.tui.status import StatusMessage
from gpudash.tui.theme import PLAIN, Theme, faded
from gpudash.tui.watched import SentSignals

if TYPE_CHECKING:
    from gpudash.tui.reporting import ReportCommand

METRICS = (
    "gpu_utilization_percent",
    "memory_used_bytes",
    "power_usage_mw",
    "temperature_celsius",
)
"""The charted metrics, in the order in which a key goes through them."""
SPANS = (3600.0, 86400.0, 7 * 86400.0)
"""How many seconds a chart may go back."""


OpenHost = Callable[[FleetHost, float], SnapshotFeed]
"""Returns the feed of a host with an interval; raises UsageError if there is none."""


def _open_none(host: FleetHost, _interval: float) -> SnapshotFeed:
    raise UsageError(f"no ssh leads to {host.name}")


class FleetModel:
    """The state of the screen of many hosts."""

    snapshot = EMPTY
    revision = 0
    """Counts what was shown: a new snapshot, or another filter."""
    retries = 0
    """How often the user asked to reconnect silent hosts at once."""
    chart_metric, chart_seconds = METRICS[0], SPANS[0]
    charts: tuple[ChartRequest, ...] = ()
    """The charts last requested."""
    painting: Painting = PAINTINGS[0]
    grouping = next(iter(GROUPINGS))
    """What hosts are grouped by."""
    filter: Filter[GpuOfHost] = Filter("")
    before_narrow: Filter[GpuOfHost] | None = None
    """The filter before one was set from under a cursor, None if none was."""
    cursor: HostKey | None = None
    """The host under the cursor on the map."""
    _wants_jobs: bool | None = None
    """Whether events include those of jobs without a filter; None: only around the past."""
    _listed: tuple[object, ...] = ()
    """The inputs of the ordered events."""
    _around: tuple[tuple[object, ...], Sequence[Event] | None] = (), None
    """The events around the instant shown, with their inputs."""
    _compared: tuple[tuple[FleetSnapshot, ...], Sequence[Event]] = (), ()
    """The present differences from the instant shown, with both snapshots."""
    finding = 0
    """The index of the selected finding."""
    report_command: ReportCommand | None = None
    """The command that reports the past of these hosts, None if there is none."""

    def __init__(
        self,
        feed: Feed[FleetSnapshot],
        open_host: OpenHost = _open_none,
        reaches: Callable[[FleetHost], bool] = lambda _host: False,
        price: Price = lambda _name: None,
    ) -> None:
        """`open_host` opens the feed of a host that ssh `reaches`."""
        self.feed = feed
        self.open_host, self._reaches, self._price = open_host, reaches, price
        self.happened = Happened()
        self.history = FleetHistory(self.happened.take)
        self.time = feed.timeline(self.history, self._show)
        self._asked_last = FleetRequest()
        self.status_message = StatusMessage()
        self.theme: Theme = PLAIN
        self.keys: tuple[Key, ...] = FLEET_KEYS
        self.in_force: Callable[[Iterable[Key]], tuple[Key, ...]] = tuple
        """Returns those of some keys that are in force."""
        self.rows: list[HostRow] = []
        """Hosts that pass the filter, in the order of the map."""
        self.totals: Totals = totals([])
        self.job_totals = self.totals
        """Of the GPUs of the selected job."""
        self.findings: list[Finding] = []
        self.everything: Totals = self.totals
        """Of all hosts, regardless of the filter."""
        self._rows: list[HostRow] = []
        """All hosts, in the order of the map."""
        self.hosts = Ranking(HOST_COLUMNS, lambda row: row.host.key, "state")
        self.gpus = Ranking(GPU_COLUMNS, _gpu_key, "state")
        self.job_gpus = Ranking(JOB_GPU_COLUMNS, lambda row: _gpu_key(row.gpu), "clock")
        self.groups = Ranking(GROUP_COLUMNS, lambda row: row.name, "state")
        # Their states ascend from the worst.
        self.hosts.descending = self.gpus.descending = self.groups.descending = False
        self.job_gpus.descending = False
        self.users = Ranking(USER_COLUMNS, lambda user: user.name, "idle_hours")
        self.jobs = Ranking(JOB_COLUMNS, lambda job: (job.kind, job.key), "gpus")
        self.events = Ranking(EVENT_COLUMNS, lambda event: event, "time")
        self._played, self.signals = Log(), SentSignals()
        self._filled: dict[str, HostKey | None] = {}
        """The rankings that are up to date, with their host, None for all."""

    # What the collector is asked for

    def ask(self, charts: tuple[ChartRequest, ...], *, wants_events: bool) -> bool:
        """Request everything shown besides the present; return whether the request is new."""
        self.charts = charts
        if self.feed.collector is None:
            return False
        happened, is_past = self.happened, self.time.is_past
        has_events = (wants_events or is_past) and self.snapshot is not EMPTY
        if has_events:
            happened.cover(self._then if is_past else None, self.history.latest.taken_at)
        request = FleetRequest(
            at=self.time.asked,
            charts=charts,
            retries=self.retries,
            events_since=happened.asked_since if has_events else None,
            events_until=happened.until if has_events else None,
            events_known=mark_of(happened.events) if has_events else None,
        )
        if request == self._asked_last:
            return False
        self._asked_last = request
        self.feed.collector.ask(encode_request(request))
        return True

    # How it is shown

    @property
    def value_theme(self) -> Theme:
        """The theme for values, which fades while they are out of date."""
        is_old = self.feed.state in (FeedState.STALE, FeedState.RESTARTING)
        return faded(self.theme) if is_old and self.time.is_live else self.theme

    # Hosts

    def may_enter(self, host: FleetHost) -> bool:
        """Whether a host's overview can be shown, which exists only for the present."""
        return not self.time.is_recorded and self._reaches(host)

    # What is derived

    def _show(self, snapshot: FleetSnapshot) -> None:
        self.snapshot = snapshot
        if self.feed.collector is None:
            # The events of a recording are those of the samples played.
            self._played.watch(snapshot)
            self.happened.events = self._played.watched
        else:
            self.happened.take(snapshot)
            self.happened.pass_time(self.history.latest.taken_at)
        self._rows = ordered(host_rows(snapshot))
        self.everything = totals(self._rows)
        self._narrow()

    def _narrow(self) -> None:
        """Apply the filter."""
        self.revision += 1
        self._filled.clear()
        self.rows = fitting(self._rows, fits(self.filter))
        self.totals = totals(self.rows) if self.is_filtered else self.everything
        self._show_findings()

    def _show_findings(self) -> None:
        """Set the findings about what is shown; the cursor stays on its finding, or at the top."""
        followed = _finding_key(self.findings[self.finding]) if self.finding else None
        found, hosts = self.snapshot.findings, (row.host for row in self.rows)
        self.findings = findings_about(found, hosts) if self.is_filtered else [*found]
        keys = [_finding_key(each) for each in self.findings]
        if followed in keys:
            self.finding = keys.index(followed)
        self.finding = max(0, min(self.finding, len(keys) - 1))

    @property
    def is_demo(self) -> bool:
        """Whether the hosts are simulated."""
        return any(source.kind == "demo" for source in self.snapshot.sources)

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is in force."""
        return bool(self.filter.clauses)

    @property
    def failing(self) -> list[FleetSource]:
        """The sources that do not answer, or not in full."""
        sources = self.snapshot.sources
        return [each for each in sources if each.state in ("failed", "stale") or each.warnings]

    @property
    def selected_host(self) -> HostRow | None:
        """The host under the cursor of the map, the first if none was chosen."""
        return self.row_of(self.cursor) or (self.rows[0] if self.rows else None)

    def row_of(self, key: HostKey | None) -> HostRow | None:
        """Return a host among those shown, None if it is not."""
        return next((row for row in self.rows if row.host.key == key), None)

    # Tables, filled when they are first drawn

    def ranked_hosts(self) -> Ranking[HostRow]:
        """Return the hosts in the chosen order."""
        if self._is_due("hosts"):
            self.hosts.fill(self.rows)
        return self.hosts

    def ranked_gpus(self, host: HostKey | None = None) -> Ranking[GpuRow]:
        """Return the GPUs of a host, or of all hosts."""
        if self._is_due("gpus", host):
            rows = [row for row in self.rows if host in (None, row.host.key)]
            self.gpus.fill([GpuRow(row.host, each) for row in rows for each in row.devices])
        return self.gpus

    def ranked_job_gpus(self, job: JobKey) -> Ranking[JobGpu]:
        """Return the GPUs of a job, the slowest first."""
        if self._is_due("job", job):
            found = fitting(
                self.rows, lambda host, each: each is not None and has_job(host, each, job)
            )
            self.job_totals = totals(found)
            rows = [GpuRow(row.host, each) for row in found for each in row.devices]
            self.job_gpus.fill(job_gpus(rows, self.job_of(job)))
        return self.job_gpus

    def job_of(self, key: JobKey) -> FleetJob | None:
        """Return the job of a cluster and an id, None if there is none."""
        return next((job for job in self.snapshot.jobs if job.key == key), None)

    def ranked_groups(self) -> Ranking[GroupRow]:
        """Return the groups of hosts."""
        if self._is_due("groups"):
            self.groups.fill(group_rows(self.rows, self.grouping))
        return self.groups

    def group_by_next(self) -> None:
        """Group the hosts by the next grouping."""
        kinds = list(GROUPINGS)
        self.grouping = kinds[(kinds.index(self.grouping) + 1) % len(kinds)]
        self._filled.pop("groups", None)

    def ranked_users(self) -> Ranking[FleetUser]:
        """Return the users of the GPUs shown."""
        if self._is_due("users"):
            self.users.fill(self._users_on(self.rows))
        return self.users

    @property
    def wasters(self) -> list[FleetUser]:
        """The users who hold GPUs idle among those shown, the most wasteful first."""
        # With a filter, at each key that is typed: counting a few hosts takes no time.
        users = self._users_on([row for row in self.rows if row.count(HELD)])
        return [user for user in users if user.held_idle]

    def _users_on(self, rows: Iterable[HostRow]) -> tuple[FleetUser, ...]:
        """Return the users of the GPUs of hosts; without a filter, those of all."""
        if not self.is_filtered:
            return self.snapshot.users
        return users_of(((row.host, row.devices) for row in rows), self._shown_jobs, self._price)

    def ranked_jobs(self) -> Ranking[FleetJob]:
        """Return the jobs of the GPUs shown."""
        if self._is_due("jobs"):
            self.jobs.fill(self._shown_jobs)
        return self.jobs

    @property
    def _shown_jobs(self) -> list[FleetJob]:
        """The jobs of the GPUs shown."""
        jobs = self.snapshot.jobs
        if not self.is_filtered:
            return [*jobs]
        known = {job.key for job in jobs}
        shown = {known_key(row.host, name, known) for row in self.rows for name in row.jobs}
        return [job for job in jobs if job.key in shown]

    def ranked_events(self) -> Ranking[Event]:
        """Return the events that pass the filter; for a recording, those of the samples played."""
        until, lists_jobs = self.snapshot.taken_at, self.lists_jobs
        key = self.happened.events, lists_jobs
        if self._is_due("events") or not are_same(self._listed, key):
            self._listed = key
            shown = [
                each
                for each in self.known_events
                if (not self.time.is_recorded or each.at <= until)
                and (lists_jobs or not each.is_of_job)
            ]
            self.events.fill(self._passing(shown))
        return self.events

    @property
    def known_events(self) -> Sequence[Event]:
        """The events, including signals that gpudash sent on one of the hosts in their span."""
        known = self.time.known if self.time.is_recorded else None
        since = self.happened.since if known is None else known.first
        until = self.happened.until
        signals = self.signals.of({each.name for each in self.snapshot.hosts}, since)
        sent = (each for each in signals if until is None or each.at <= until)
        return *self.happened.listed, *sent

    def read_signals(self, changed: Callable[[], object]) -> None:
        """Read the sent signals; `changed` is called if there are new ones."""

        def take() -> None:
            self._filled.pop("events", None)
            changed()

        self.signals.ask(take)

    @property
    def lists_jobs(self) -> bool:
        """Whether events include those of jobs; by default, a day of them would hide the faults."""
        return self._asks_jobs or self.is_filtered

    def toggle_jobs(self) -> None:
        """List the events of jobs, or only with a filter."""
        self._wants_jobs = not self._asks_jobs

    @property
    def _asks_jobs(self) -> bool:
        return self.shows_past if self._wants_jobs is None else self._wants_jobs

    def zoom_events(self, step: int) -> None:
        """List events of a longer (1) or a shorter (-1) span."""
        then = self._then if self.time.is_past else None
        self.happened.zoom(step, then, self.history.latest.taken_at)

    @property
    def _then(self) -> datetime:
        """The shown or requested instant."""
        return self.time.asked or self.snapshot.taken_at

    @property
    def shows_past(self) -> bool:
        """Whether a past instant is shown, rather than only requested."""
        return self.time.is_past and self.snapshot is not self.history.latest

    @property
    def happened_around(self) -> Sequence[Event] | None:
        """The filtered events around the past instant shown.

        None in the present, and while they are unknown.
        """
        if self.time.is_recorded or not self.shows_past:
            return None
        key = self.snapshot, self.happened.events, self.filter, self.happened.is_whole
        if not are_same(self._around[0], key):
            found = self.happened.around(self.snapshot.taken_at)
            self._around = key, None if found is None else self._passing([*found])
        return self._around[1]

    @property
    def changed_since(self) -> Sequence[Event]:
        """The present differences from a past instant, without the events around it."""
        compared = self.snapshot, self.history.latest
        if not are_same(self._compared[0], compared):
            self._compared = compared, [*events(compared)]
        changed = self._passing(self._compared[1])
        return besides(changed, self.happened_around or (), self.snapshot.taken_at)

    def _passing(self, events: Sequence[Event]) -> Sequence[Event]:
        return passing(events, self.snapshot.hosts, self.filter)

    def _is_due(self, what: str, host: HostKey | None = None) -> bool:
        if what in self._filled and self._filled[what] == host:
            return False
        self._filled[what] = host
        return True

    # The filter

    def filter_by(self, wanted: Filter[GpuOfHost]) -> None:
        """Show only the GPUs that pass a filter."""
        self.filter = wanted
        self._narrow()


def are_same(known: Sequence[object], others: Sequence[object]) -> bool:
    """Whether values derived from some inputs are valid for others."""
    return len(known) == len(others) and all(map(is_, known, others))


def _finding_key(finding: Finding) -> object:
    return finding.rule, finding.hosts[:1], finding.acknowledged is None


def _gpu_key(row: GpuRow) -> object:
    return row.host.key, row.device.uuid or row.device.index, row.device.parent_uuid
