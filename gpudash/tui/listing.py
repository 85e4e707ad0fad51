"""The processes that are shown: which of all, in what order, which are tagged and selected.

Cursor and tags stand on identities: no snapshot moves them to another process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpudash.columns import PROCESS_COLUMNS
from gpudash.filtering import EVERYTHING, Filter
from gpudash.layout import Column
from gpudash.rows import ProcessRow

Key = tuple[int, float | None]

_BY_KEY: dict[str, Column[ProcessRow]] = {column.key: column for column in PROCESS_COLUMNS}


class Listing:
    """Rows in the order asked for, a cursor on one of them, and the part that is in view."""

    def __init__(self, sort_key: str, *, descending: bool = True) -> None:
        self.everything: Sequence[ProcessRow] = ()
        """All processes, those that are not shown too, in whatever order."""
        self.rows: list[ProcessRow] = []
        """Those that are shown, ordered."""
        self.members: frozenset[Key] = frozenset()
        """Who is shown, in whatever order."""
        self.matching = 0
        """How many fit; a selected one that no longer does is shown all the same."""
        self.filter = EVERYTHING
        self.hidden_devices: Collection[int] = ()
        """Indices of GPUs: who uses no others is not shown."""
        self.tagged: set[Key] = set()
        self.sort_key = sort_key
        self.descending = descending
        self.cursor = 0
        self.top = 0
        self._missed: Key | None = None
        """Who was under the cursor before a sample left it out."""

    @property
    def selected(self) -> ProcessRow | None:
        """The row under the cursor, None in an empty list."""
        return self.rows[self.cursor] if self.rows else None

    @property
    def selected_key(self) -> Key | None:
        """The identity of the process under the cursor."""
        return self.selected.process.key if self.selected else None

    @property
    def tagged_rows(self) -> list[ProcessRow]:
        """All tagged processes, also those that are not shown."""
        return [row for row in self.everything if row.process.key in self.tagged]

    def fill(self, rows: Sequence[ProcessRow]) -> None:
        """Take new rows; the cursor stays on its process, or in its place if that is gone.

        It stays even if the process no longer fits the filter, until the cursor is moved, and
        goes back to one that only some samples left out.
        """
        self.everything = rows
        before = self.selected_key
        followed = self._missed or before
        self._choose(followed, before, kept=before)
        self._missed = None if self.selected_key == followed else followed

    def filter_by(self, wanted: Filter, *, anchor: Key | None = None) -> None:
        """Show what fits; the cursor goes to `anchor` if that is shown, or else stays."""
        self.filter = wanted
        self._choose(anchor, self.selected_key)

    def hide_devices(self, indices: Collection[int]) -> None:
        """Leave out the processes that use none but these GPUs."""
        self.hidden_devices = indices
        self._choose(self.selected_key)

    def sort_by(self, key: str) -> None:
        """Order by a column, numbers from the largest; the column in force turns around."""
        if key == self.sort_key:
            self.reverse()
            return
        self.sort_key, self.descending = key, largest_first(key)
        self._order(self.selected_key)

    def reverse(self) -> None:
        """Turn the order around."""
        self.descending = not self.descending
        self._order(self.selected_key)

    def tag(self) -> None:
        """Tag the selected process, or take its tag back."""
        if self.selected_key is not None:
            self.tagged ^= {self.selected_key}

    def move(self, rows: int) -> None:
        """Move the cursor by so many rows, at most to an end."""
        self.move_to(self.cursor + rows)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row of the list, the nearest that there is."""
        self._missed = None
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def select(self, key: Key) -> bool:
        """Put the cursor on a process; False if it is not shown."""
        place = self._place(key)
        if place is not None:
            self.cursor, self._missed = place, None
        return place is not None

    def window(self, height: int) -> range:
        """Return the rows in view, moved as little as the cursor and the end demand."""
        height = max(1, height)
        self.top = max(self.top, self.cursor - height + 1)
        self.top = min(self.top, self.cursor, max(0, len(self.rows) - height))
        return range(self.top, min(len(self.rows), self.top + height))

    def _choose(self, *followed: Key | None, kept: Key | None = None) -> None:
        """Show the rows that fit, and the one that is kept."""
        fitting = list(self.everything)
        if self.hidden_devices or self.filter.clauses:
            fitting = [row for row in fitting if self._fits(row)]
        self.matching = len(fitting)
        self.members = frozenset(row.process.key for row in fitting)
        if kept is not None and kept not in self.members:
            extra = [row for row in self.everything if row.process.key == kept]
            fitting += extra
            self.members |= {row.process.key for row in extra}
        self.rows = fitting
        self._order(*followed)

    def _fits(self, row: ProcessRow) -> bool:
        devices = row.process.devices
        if self.hidden_devices and devices:
            used = {device.index for device in devices}
            if used.issubset(self.hidden_devices):
                return False
        return self.filter.matches(row)

    def _order(self, *followed: Key | None) -> None:
        """Sort the rows and put the cursor on the first that is followed and shown."""
        text = _BY_KEY[self.sort_key].sort_key
        self.rows.sort(key=lambda row: row.process.pid)
        self.rows.sort(key=text, reverse=self.descending)
        places = (self._place(key) for key in followed if key in self.members)
        self.move_to(next((place for place in places if place is not None), self.cursor))

    def _place(self, key: Key | None) -> int | None:
        places = (i for i, row in enumerate(self.rows) if row.process.key == key)
        return next(places, None)


def largest_first(key: str) -> bool:
    """Whether a column is sorted from the largest at first: numbers are, words are not."""
    return _BY_KEY[key].align == ">"
