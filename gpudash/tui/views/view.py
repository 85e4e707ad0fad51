"""The base of the pages above the overview of a host: a scrolling body."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line
from gpudash.tui.host import HostPage
from gpudash.tui.keymap import LIST_KEYS, VIEW_KEYS, Key
from gpudash.tui.panels import header_line
from gpudash.tui.widgets.lines import Wheel

_OF_LISTS = frozenset(key.id for key in LIST_KEYS)


class View(HostPage, Wheel):
    """A page about one thing: subclasses return all its lines, which are scrolled here.

    A subclass with its own keys sets `KEYS` (declared in `keymap`, `VIEW_KEYS` last).
    """

    KEYS = VIEW_KEYS

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self.keys = dashboard.in_force(self.KEYS)
        """The keys in force."""
        self.first = 0
        """Index of the first line in view."""
        self._total = self._room = 0

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the lines that stay at the top of the body while the others scroll below."""
        return ()

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys in force at present, with their labels in the footer."""
        return self.keys

    @property
    def listed_keys(self) -> tuple[Key, ...]:
        """The keys of this page, then those of all pages of the host."""
        return (*self.keys, *(key for key in self.model.keys if key.id not in _OF_LISTS))

    def draw(self) -> None:
        """Draw the present state; unchanged cells cost nothing to send."""
        cells, height = self.body.size
        if not cells or not self.is_current:
            return
        top = self.pinned(cells, height)
        room = max(0, height - len(top))
        self.page_rows = max(1, room - 1)
        lines = self.lines(cells, height)
        self._room, self._total = room, len(lines)
        self.first = max(0, min(self.first, self._total - room))
        help_key = (key for key in self.model.keys if key.id == "screen.help")
        notice = self.model.status_text or self.position
        seen = [*top, *lines[self.first : self.first + room]]
        self.show(header_line(self.model, cells), seen, (*self.keys_in_force, *help_key), notice)

    @property
    def position(self) -> str:
        """Which lines are in view, empty if all are."""
        if not 0 < self._room < self._total:
            return ""
        return f"{self.first + 1}-{self.first + self._room} of {self._total}"

    def action_back(self) -> None:
        """Go back to where this was opened."""
        self.dismiss(None)

    def move(self, rows: int) -> None:
        """Scroll by lines, within bounds: frames may be delayed, but keys are not."""
        self.first = max(0, min(self.first + rows, self._total - self._room))
