"""The view of users: what each of them holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.analysis.activity import NOTABLE_BYTES
from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.filter.words import quoted
from gpudash.analysis.usage import (
    User,
    all_users,
    is_unlisted,
    no_processes_text,
    unowned_memory_bytes,
    users,
)
from gpudash.model.snapshot import EMPTY, Snapshot, gpus_unknown
from gpudash.model.units import size
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.grid import MARGIN, Grid, within_margins
from gpudash.tui.draw.line import Line, highlighted, in_view, joined, spread
from gpudash.tui.keymap import USERS_KEYS, VIEW_KEYS, Key
from gpudash.tui.listing import Ranking
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import View

_BAR = 8
_ROLES = {"user": "owner", "jobs": "dim", "memory_percent": "dim"}


class UserTable:
    """Draws a ranking around its cursor, with headings above and the total below."""

    def __init__(self) -> None:
        self.top = 0
        """Index in the ranking of the first line in view."""
        self.grid = Grid(USER_COLUMNS, _ROLES, bar=_BAR)

    def lines(
        self, ranking: Ranking[User], total: User, theme: Theme, cells: int, height: int
    ) -> list[Line]:
        """Return headings, the users in view and the total, in at most `height` lines."""
        window = ranking.window(height - 2)
        self.top = window.start
        rows = [ranking.rows[index] for index in window]
        drawn = self._drawn(ranking, rows, total, theme, cells)
        index = ranking.cursor - window.start
        drawn[index] = highlighted(drawn[index], theme, cells)
        titles = self.grid.heading(theme, sorted_by=ranking.sort_key, down=ranking.descending)
        which = in_view(window.start, len(rows), len(ranking.rows))
        position = [Segment(f" {which} ", theme.heading)] if which else []
        return [spread(titles, position, cells, theme.base), *drawn]

    def _drawn(
        self, ranking: Ranking[User], rows: list[User], total: User, theme: Theme, cells: int
    ) -> list[Line]:
        """Draw the rows, widening columns that are too narrow."""
        everybody = [*ranking.rows, total]
        members = tuple(user.name for user in everybody)

        def line(user: User) -> Line:
            segments = self.grid.draw(user, theme)
            return joined(_strong(segments, theme) if user is total else segments)

        shown = [*rows, total]
        return self.grid.rows(everybody, members, cells, shown, line, sorted_by=ranking.sort_key)


def _strong(segments: Sequence[Segment], theme: Theme) -> Line:
    """Return a name and plain values in bold, and the rest unchanged."""
    # Another theme would make a grid drop its cache.
    plain = theme.base, theme.owner
    return [
        Segment(text, theme.strong if any(style is each for each in plain) else style)
        for text, style, _ in segments
    ]


class UsersView(View):
    """Shows the owners of processes, with a cursor to show only one's processes."""

    KEYS = USERS_KEYS

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self._ranking = Ranking(USER_COLUMNS, lambda user: user.name, "memory")
        self._table = UserTable()
        self._counted: Snapshot = EMPTY
        self._everyone: User = all_users(EMPTY)

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys for the footer: none of a list without users."""
        return self.keys if self._ranking.rows else self.model.in_force(VIEW_KEYS)

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the title."""
        return [[Segment(" " * MARGIN + "Users", self.model.value_theme.title)]]

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the users in view, the total and the unowned rest."""
        theme, snapshot = self.model.value_theme, self.model.snapshot
        self._count(snapshot)
        if not self._ranking.rows:
            hidden = (is_unlisted(device, snapshot) for device in snapshot.devices)
            is_known = not gpus_unknown(snapshot) and not any(hidden)
            words = "No process uses a GPU" if is_known else no_processes_text(snapshot)
            return [[], *within_margins(words, theme.dim, cells)]
        notes: list[Line] = []
        unowned = unowned_memory_bytes(snapshot)
        if unowned is not None and unowned >= NOTABLE_BYTES:
            text = f"{size(unowned)} of GPU memory is held by no listed process"
            notes = [[], *within_margins(text, theme.dim, cells)]
        room = max(3, height - 1 - len(notes))
        self.page_rows = room - 2
        return [*self._table.lines(self._ranking, self._everyone, theme, cells, room), *notes]

    def move(self, rows: int) -> None:
        """Move the cursor; the users in view follow it."""
        self._ranking.move(rows)

    def action_sort(self, step: int) -> None:
        """Sort by a column next to the present one."""
        self._ranking.sort_beside(self._table.grid.sortable, step)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._ranking.reverse()

    def action_open(self) -> None:
        """Show the processes of the user under the cursor."""
        user = self._ranking.selected
        if user is not None and user.name:
            self.filter_by(f"user={quoted(user.name)}")
        elif user is not None:
            self.show_message("the owner of these processes is unknown")

    def clicked(self, x: int, y: int) -> bool:
        """Sort by a clicked heading, or choose a clicked user."""
        if y == 1 and self._ranking.rows:
            key = self._table.grid.column_at(x)
            if key is not None:
                self._ranking.sort_by(key)
        index = self._table.top + y - 2
        is_user = 1 < y <= self.page_rows + 1 and index < len(self._ranking.rows)
        if is_user:
            self._ranking.move_to(index)
        return is_user

    def _count(self, snapshot: Snapshot) -> None:
        """Count each snapshot's users once."""
        if snapshot is self._counted:
            return
        self._counted = snapshot
        self._everyone = all_users(snapshot)
        self._ranking.fill(users(snapshot))
