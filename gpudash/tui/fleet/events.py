"""The page of what happened on many hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.fleet.summary import part_of
from gpudash.model.fleet import Event
from gpudash.model.units import counted
from gpudash.tui.bindings import bindings, shown_key
from gpudash.tui.fleet.tables import TablePage
from gpudash.tui.keymap import EVENTS_KEYS, TABLE_KEYS
from gpudash.tui.listing import Ranking


class EventsPage(TablePage[Event]):
    """What happened in the last day or week, the newest first."""

    KEYS = (*TABLE_KEYS, *EVENTS_KEYS)
    BINDINGS: ClassVar[list[Any]] = bindings(EVENTS_KEYS)
    COLUMNS = EVENT_COLUMNS
    ROLES: ClassVar[Mapping[str, str]] = {"time": "dim", "host": "base", "user": "owner"}
    EMPTY = "no event is known"

    @property
    def ranking(self) -> Ranking[Event]:
        """The events in their order."""
        return self.model.ranked_events()

    def on_screen_resume(self) -> None:
        """Have the collector asked for them."""
        self.model.wants_events = True

    def on_screen_suspend(self) -> None:
        """Ask for no more of them."""
        self.model.wants_events = False

    @property
    def heading(self) -> str:
        """Of how long."""
        days = self.model.event_days
        span = "" if self.feed.collector is None else f" of {counted(days, 'day')}"
        since = self.model.jobs_since
        if not self.model.lists_jobs:
            span += f", {shown_key(self.model.keys, 'fleet.event_jobs')} adds jobs"
        elif since is not None:
            span += f", of jobs since {since.astimezone():%m-%d %H:%M}"
        return f"Events{span}"

    @property
    def leaves(self) -> Sequence[str]:
        """How many events pass the filter."""
        return (f"   {part_of(len(self.ranking.rows), self.model.event_count, 'event')}",)

    @property
    def _refused(self) -> frozenset[str]:
        """What has no effect: a recording has the events that were played."""
        refused = super()._refused
        return refused if self.feed.collector is None else refused - {"zoom"}

    def action_jobs(self) -> None:
        """List the jobs that began and ended, too, or no more."""
        self.model.toggle_jobs()

    def action_zoom(self, step: int) -> None:
        """List what happened in a longer (1) or a shorter (-1) time."""
        self.model.zoom_events(step)

    @property
    def empty_text(self) -> str:
        """Why there are no rows."""
        if self.model.time.reaches_back and not self.model.has_events:
            return "asking what happened"
        return super().empty_text

    def action_enter(self) -> None:
        """Go to the time of the event under the cursor on its host, or show the GPUs of its job."""
        event = self.ranking.selected
        if event is None:
            return
        if event.host is not None:
            self.enter_named(event.host, event.at)
        elif event.job is not None:
            self.narrow("job", event.job)
