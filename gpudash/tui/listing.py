"""The order of the processes and the selected one, which is followed by identity."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.columns import PROCESS_COLUMNS
from gpudash.layout import Column
from gpudash.rows import ProcessRow

Key = tuple[int, float | None]

_BY_KEY: dict[str, Column[ProcessRow]] = {column.key: column for column in PROCESS_COLUMNS}


class Listing:
    """Rows in the order asked for, a cursor on one of them, and the part that is in view."""

    def __init__(self, sort_key: str, *, descending: bool = True) -> None:
        self.rows: list[ProcessRow] = []
        self.members: frozenset[Key] = frozenset()
        """Who is listed, in whatever order."""
        self.sort_key = sort_key
        self.descending = descending
        self.cursor = 0
        self.top = 0

    @property
    def selected(self) -> ProcessRow | None:
        """The row under the cursor, None in an empty list."""
        return self.rows[self.cursor] if self.rows else None

    def fill(self, rows: Sequence[ProcessRow]) -> None:
        """Take new rows; the cursor stays on its process, or in its place if that is gone."""
        followed = self.selected
        self.rows = list(rows)
        self.members = frozenset(row.process.key for row in rows)
        self._order(followed)

    def sort_by(self, key: str) -> None:
        """Order by a column, numbers from the largest; the column in force turns around."""
        if key == self.sort_key:
            self.reverse()
            return
        self.sort_key, self.descending = key, _BY_KEY[key].align == ">"
        self._order(self.selected)

    def reverse(self) -> None:
        """Turn the order around."""
        self.descending = not self.descending
        self._order(self.selected)

    def move(self, rows: int) -> None:
        """Move the cursor by so many rows, at most to an end."""
        self.move_to(self.cursor + rows)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row of the list, the nearest that there is."""
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def window(self, height: int) -> range:
        """Return the rows in view, moved as little as the cursor and the end demand."""
        height = max(1, height)
        self.top = max(self.top, self.cursor - height + 1)
        self.top = min(self.top, self.cursor, max(0, len(self.rows) - height))
        return range(self.top, min(len(self.rows), self.top + height))

    def _order(self, followed: ProcessRow | None) -> None:
        text = _BY_KEY[self.sort_key].sort_key
        self.rows.sort(key=lambda row: row.process.pid)
        self.rows.sort(key=text, reverse=self.descending)
        if followed is not None:
            key = followed.process.key
            places = (i for i, row in enumerate(self.rows) if row.process.key == key)
            self.move_to(next(places, self.cursor))
        else:
            self.move_to(self.cursor)
