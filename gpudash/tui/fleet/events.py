"""The page of what happened on many hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.model.fleet import Event
from gpudash.tui.fleet.tables import TablePage
from gpudash.tui.listing import Ranking


class EventsPage(TablePage[Event]):
    """What happened in the last day, the newest first."""

    COLUMNS = EVENT_COLUMNS
    TITLE = "Events"
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
    def empty_text(self) -> str:
        """Why there are no rows."""
        if self.model.time.reaches_back and not self.model.has_events:
            return "asking what happened"
        return super().empty_text

    def action_enter(self) -> None:
        """Go into the host of the event under the cursor, or show the GPUs of its job."""
        event = self.ranking.selected
        if event is None:
            return
        if event.host is not None:
            self.enter_named(event.host)
        elif event.job is not None:
            self.narrow("job", event.job)
