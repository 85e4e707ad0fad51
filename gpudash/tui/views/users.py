"""The view of who holds how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual.events import Click
from textual.message import Message

from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.filter.terms import quoted
from gpudash.analysis.usage import User, everyone, is_unlisted, nobody, unowned_memory_bytes, users
from gpudash.model.snapshot import EMPTY, Snapshot, are_untold
from gpudash.model.units import size
from gpudash.tui.dashboard import Picture
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.users import UserTable
from gpudash.tui.keymap import USERS_KEYS, Key, bindings
from gpudash.tui.ranking import Ranking
from gpudash.tui.views.view import View

_NOTABLE = 1 << 30


class UsersView(View):
    """Shows the owners of processes, one of whom can be chosen to see only these."""

    KEYS: ClassVar[tuple[Key, ...]] = USERS_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(USERS_KEYS)

    class Chosen(Message):
        """The processes that a filter fits are asked for."""

        def __init__(self, filter: str) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, picture: Picture) -> None:
        super().__init__(picture)
        self._ranking = Ranking(USER_COLUMNS, lambda user: user.name, "memory")
        self._table = UserTable()
        self._counted: Snapshot = EMPTY
        self._everyone: User = everyone(EMPTY, picture.history.idle_seconds)
        self._page = 1

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the users in view, the total and what belongs to none of them."""
        theme, snapshot = self.picture.look, self.picture.snapshot
        self._count(snapshot)
        if not self._ranking.rows:
            hidden = (is_unlisted(device, snapshot) for device in snapshot.devices)
            is_known = not are_untold(snapshot) and not any(hidden)
            words = "Nobody uses a GPU" if is_known else nobody(snapshot)
            return [[], [Segment(" " * MARGIN + words, theme.dim)]]
        notes: list[Line] = []
        unowned = unowned_memory_bytes(snapshot)
        if unowned is not None and unowned >= _NOTABLE:
            text = f"{size(unowned)} of GPU memory are held by no listed process"
            notes = [[], [Segment(" " * MARGIN + text, theme.dim)]]
        room = max(3, height - len(notes))
        self._page = room - 2
        return [*self._table.lines(self._ranking, self._everyone, theme, cells, room), *notes]

    def action_scroll_lines(self, lines: int) -> None:
        """Move the cursor; the users in view follow it."""
        self._ranking.move_to(self._ranking.cursor + lines)
        self.draw()

    def action_scroll_pages(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.action_scroll_lines(pages * self._page)

    def action_scroll_ends(self, end: int) -> None:
        """Move the cursor to the first (0) or the last (1) user."""
        self._ranking.move_to(len(self._ranking.rows) * end)
        self.draw()

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        keys = self._table.sortable
        if keys:
            place = keys.index(self._ranking.sort_key) if self._ranking.sort_key in keys else 0
            self._ranking.sort_by(keys[(place + step) % len(keys)])
        self.draw()

    def action_reverse(self) -> None:
        """Turn the order around."""
        self._ranking.reverse()
        self.draw()

    def action_choose(self) -> None:
        """Ask for the processes of the user under the cursor."""
        user = self._ranking.selected
        if user is None:
            return
        if not user.name:
            self.picture.notice = "the owner of these processes is not known"
            self.draw()
            return
        self.post_message(self.Chosen(f"user={quoted(user.name)}"))

    def on_click(self, event: Click) -> None:
        """Sort by a heading, or choose the user who was clicked."""
        line = event.screen_y - self.body.region.y
        if line == 0 and self._ranking.rows:
            key = self._table.column_at(event.screen_x)
            if key is not None:
                self._ranking.sort_by(key)
            self.draw()
            return
        place = self._table.top + line - 1
        if 0 < line <= self._page and place < len(self._ranking.rows):
            self._ranking.move_to(place)
            self.draw()
            self.action_choose()

    def _count(self, snapshot: Snapshot) -> None:
        """Add a snapshot up once."""
        if snapshot is self._counted:
            return
        idle = self.picture.playhead.idle_seconds
        self._counted = snapshot
        self._everyone = everyone(snapshot, idle)
        self._ranking.fill(users(snapshot, idle))
