"""The view of events on the host while it was watched, or in the samples played.

If a service has a history, earlier events are read from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.model.fleet import Event
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, joined
from gpudash.tui.views.view import View

_COLUMNS = tuple(each for each in EVENT_COLUMNS if each.key not in ("host", "cluster"))


class EventsView(View):
    """Events, the newest first, with the columns of the page of many hosts."""

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self._grid: Grid[Event] = Grid(_COLUMNS, {"time": "dim", "user": "owner"})

    @property
    def _happened(self) -> list[Event]:
        """The events until the instant shown."""
        until = self.model.snapshot.taken_at
        return [each for each in reversed(self.model.events.all) if each.at <= until]

    def ask(self) -> None:
        """Read earlier events on record, and the signals that were sent."""
        self.model.events.read_earlier(self.model.snapshot.taken_at)
        self.model.events.read_signals(self.draw)

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the title, and the headings if there are rows."""
        events = self.model.events
        theme, found = self.model.value_theme, self._happened
        title = [Segment(" " * MARGIN + "Events", theme.title)]
        if events.is_loading:
            title.append(Segment("  loading those before", theme.dim))
        elif events.since is not None:
            title.append(Segment(f"  since {events.since.astimezone():%m-%d %H:%M}", theme.dim))
        if not found:
            return [title]
        self._grid.fit(found, len(found), cells)
        return [title, self._grid.heading(theme, sorted_by="time", down=True)]

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the rows; those out of view are blank."""
        theme, found = self.model.value_theme, self._happened
        since = self.model.events.since
        if not found:
            when = "while it was watched" if since is None else "since then"
            text = f"nothing has happened {when}"
            return [[], [Segment(" " * MARGIN + text, theme.dim)]]
        first = max(0, min(self.first, len(found) - height))
        seen = found[first : first + height]
        rows = self._grid.rows(
            found, len(found), cells, seen, lambda event: joined(self._grid.draw(event, theme))
        )
        return [*[[]] * first, *rows, *[[]] * (len(found) - first - len(rows))]
