"""The page of events on many hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import ClassVar

from rich.segment import Segment

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.fleet.event_log import MAX_KEPT
from gpudash.fleet.losses import begun, broken, losses, no_data_before
from gpudash.fleet.summary import part_of
from gpudash.model.fleet import Event
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.fleet.head import listed_line, local_time
from gpudash.tui.fleet.model import FleetModel, are_same
from gpudash.tui.fleet.page import LONGER
from gpudash.tui.fleet.tables import TablePage
from gpudash.tui.keymap import EVENTS_KEYS, TABLE_KEYS
from gpudash.tui.theme import Theme

_MIN_TABLE = 5
"""Minimum lines of a table with sums above it."""
_LEFT_OUT = "GPU-h leave out drained, stale and after an XID"
"""What the sum of hours leaves out, shown if there is room."""


class EventsPage(TablePage[Event]):
    """The events of the last day or week, the newest first."""

    KEYS = (*TABLE_KEYS, *EVENTS_KEYS)
    COLUMNS = EVENT_COLUMNS
    RANKED = FleetModel.ranked_events
    ROLES: ClassVar[Mapping[str, str]] = {"time": "dim", "host": "base", "user": "owner"}
    EMPTY = "no event is known"
    LABELS = LONGER
    LISTS_EVENTS = True

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._summed: tuple[object, ...] = ()
        """The inputs of the sums."""
        self._sums: tuple[Sequence[str], Sequence[str], Sequence[str]] = (), (), ()
        """What is broken, what else has begun, and what was lost."""
        self._then: datetime | None = None
        """The past instant last shown, None for the present."""
        self._put: Event | None = None
        """Where the cursor was put for it."""

    def ask(self) -> None:
        """Read the signals on record too."""
        self.model.read_signals(self.draw)
        super().ask()

    @property
    def heading(self) -> str:
        """The span, and whether those of jobs are listed."""
        model = self.model
        around = "" if model.happened.until is None else " around then"
        if model.shows_past and not around:
            around = " up to now"
        span = f"Events of {model.happened.span}{around}"
        text = "Events" if self.feed.collector is None else span
        adds = f", {shown_key(model.keys, 'fleet.event_jobs')} adds jobs"
        return text if model.lists_jobs else text + adds

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return what is broken, has begun and was lost; the table; which jobs are left out."""
        theme = self.model.value_theme
        summed = self._sum_lines(theme, cells)
        self._above_table = len(summed) if height - len(summed) >= _MIN_TABLE else 0
        height -= self._above_table
        self._follow_time(height)
        since = self.model.happened.jobs_since if self.model.lists_jobs else None
        if since is None:
            table, below = super().lines(cells, height), []
        else:
            table = super().lines(cells, height - 1)
            text = (
                f"jobs before {since.astimezone():%m-%d %H:%M} left out: "
                f"more than {MAX_KEPT:,} events"
            )
            below = [[Segment(" " * MARGIN + text, theme.dim)]]
        return [*summed[: self._above_table], *table, *below]

    def _sum_lines(self, theme: Theme, cells: int) -> list[Line]:
        """Return lines on what is broken, what else has begun and what was lost, if anything.

        One more says which part of the span has no data. They are as of the instant shown; losses
        are those of the events up to it.
        """
        model = self.model
        key = self.ranking.rows, model.rows, model.happened.is_whole
        if not are_same(self._summed, key):
            self._summed, self._sums = key, self._summed_up()
        is_recorded = self.feed.collector is None
        when = "then" if is_recorded or model.shows_past else "now"
        span = "in all" if is_recorded else f"in {model.happened.span}"
        span = "until then" if model.shows_past and not is_recorded else span
        names = f"broken {when}", "also began", span, ""
        left_out = any("GPU-h" in text for text in self._sums[2])
        which = f"{shown_key(model.keys, 'fleet.findings')} shows which"
        ends = "", which, _LEFT_OUT * left_out, ""
        lines = []
        for name, texts, end in zip(names, (*self._sums, self._late()), ends, strict=True):
            heading: Line = [Segment(f" {name:<12}", theme.title)]
            entries: list[Line] = [[Segment(f"{text}  ", theme.base)] for text in texts]
            last = Segment(f"{end}  ", theme.base)
            if end and cells_of([*heading, *chain.from_iterable(entries), last]) <= cells:
                entries.append([last])
            if texts:
                lines.append(listed_line(heading, entries, cells, theme))
        return lines

    def _late(self) -> Sequence[str]:
        """Return from when on sources have data, for those that lack the start of the span."""
        sources, since = self.model.snapshot.sources, self.model.happened.since
        if since is None or self.feed.collector is None:
            return ()
        found = [(each.name, no_data_before(since, each.data_since)) for each in sources]
        return [text if len(sources) == 1 else f"{name}: {text}" for name, text in found if text]

    def _summed_up(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """Return what is broken, what else has begun, and what was lost, in a few words each."""
        model, happened = self.model, self.model.happened
        rows, at = model.rows, model.snapshot.taken_at
        hosts, since = [row.host for row in rows], happened.since
        until = min(at, happened.until or at)
        known = [each for each in happened.listed if each.at <= until]
        new = {} if since is None else begun(rows, known, since, at)
        counts = [f"{count:,} {word}" for word, count in new.items()]
        lost: Sequence[str] = ()
        if happened.is_whole or model.time.is_recorded:
            passing = self.ranking.rows if model.is_filtered else None
            lost = losses(known, hosts, since, until, passing).texts
        return broken(rows), counts, lost

    def _follow_time(self, height: int) -> None:
        """Put the cursor on the last event before a past instant, centred, or back.

        A cursor set by the user stays.
        """
        ranking, time = self.ranking, self.model.time
        then = self.model.snapshot.taken_at if time.is_past else None
        if not ranking.rows or then == self._then:
            return
        self._then = then
        if then is None:
            if ranking.selected == self._put:
                ranking.move(-len(ranking.rows))
        elif ranking.sort_key == "time" and ranking.descending:
            later = sum(each.at > then for each in ranking.rows)
            instants = [each.at for each in ranking.rows]
            # Among several events at one instant, the user's choice stays.
            if instants[ranking.cursor] not in instants[later : later + 1]:
                ranking.move_to(later)
                ranking.top = ranking.cursor - height // 2
                self._put = ranking.selected

    @property
    def rule(self) -> tuple[int, str] | None:
        """The position among the events of the past instant shown."""
        time, ranking, at = self.model.time, self.ranking, self.model.snapshot.taken_at
        if time.is_recorded or not time.is_past or ranking.sort_key != "time":
            return None
        later = sum(each.at > at for each in ranking.rows)
        index = later if ranking.descending else len(ranking.rows) - later
        return index, local_time(at, dated=True)

    @property
    def leaves(self) -> Sequence[str]:
        """How many events pass the filter."""
        return (f"   {part_of(len(self.ranking.rows), len(self.model.known_events), 'event')}",)

    @property
    def _refused(self) -> frozenset[str]:
        """Actions without effect: a recording has the events that were played."""
        refused = super()._refused
        return refused if self.feed.collector is None else refused - {"zoom"}

    def action_jobs(self) -> None:
        """List the events of jobs too, or hide them."""
        self._put_again()
        self.model.toggle_jobs()

    def action_zoom(self, step: int) -> None:
        """List events of a longer (1) or a shorter (-1) span."""
        self._put_again()
        self.model.zoom_events(step)

    def _put_again(self) -> None:
        """Reposition the cursor unless the user moved it: other events may be nearer."""
        if self.ranking.selected == self._put:
            self._then = None

    @property
    def empty_text(self) -> str:
        """Why there are no rows."""
        if self.model.time.reaches_back and not self.model.happened.has_some:
            return "asking what happened"
        return super().empty_text

    def action_open(self) -> None:
        """Go to the time of the selected event on its host, or show the GPUs of its job."""
        event = self.ranking.selected
        if event is None:
            return
        if event.host is not None:
            within = "" if event.cluster is None else f"{event.cluster}/"
            self.enter_named(f"{within}{event.host}", event.at)
        elif event.job is not None:
            self.narrow("job", event.job, cluster=event.cluster)
