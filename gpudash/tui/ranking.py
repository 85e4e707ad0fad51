"""Rows of any kind in the order of a column, and a cursor that follows one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from gpudash.analysis.table import Column

Row = TypeVar("Row")


class Ranking(Generic[Row]):
    """Rows in the order asked for, the one under the cursor known by its identity."""

    def __init__(
        self, columns: Sequence[Column[Row]], identity: Callable[[Row], Hashable], sort_key: str
    ) -> None:
        self.rows: list[Row] = []
        """Those that are shown, ordered."""
        self.sort_key = sort_key
        self.descending = True
        self.cursor = 0
        """The place of the row that is selected, -1 for none."""
        self.top = 0
        self._columns = {column.key: column for column in columns}
        self._identity = identity

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None if there is none."""
        return self.rows[self.cursor] if self.rows and self.cursor >= 0 else None

    def fill(self, rows: Sequence[Row]) -> None:
        """Take new rows; the cursor stays on its own, or in its place if that is gone."""
        followed = self._followed
        self.rows = list(rows)
        self._order(followed)

    def sort_by(self, key: str) -> None:
        """Order by a column, numbers from the largest; the column in force turns around."""
        if key == self.sort_key:
            self.reverse()
            return
        self.sort_key, self.descending = key, largest_first(self._columns[key])
        self._order(self._followed)

    def reverse(self) -> None:
        """Turn the order around."""
        self.descending = not self.descending
        self._order(self._followed)

    def move(self, rows: int) -> None:
        """Move the cursor by so many rows, at most to an end."""
        self.move_to(self.cursor + rows)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, the nearest that there is."""
        self._put(index)

    def _put(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def window(self, height: int) -> range:
        """Return the rows in view, moved as little as the cursor and the end demand."""
        height = max(1, height)
        self.top = max(self.top, self.cursor - height + 1)
        self.top = max(0, min(self.top, self.cursor, len(self.rows) - height))
        return range(self.top, min(len(self.rows), self.top + height))

    @property
    def _followed(self) -> Hashable:
        return None if self.selected is None else self._identity(self.selected)

    def _order(self, *followed: Hashable) -> None:
        """Sort the rows and put the cursor on the first that is followed and shown."""
        self.rows.sort(key=self._columns[self.sort_key].sort_key, reverse=self.descending)
        places = (self._place(each) for each in followed if each is not None)
        self._put(next((place for place in places if place is not None), self.cursor))

    def _place(self, wanted: Hashable) -> int | None:
        places = (i for i, row in enumerate(self.rows) if self._identity(row) == wanted)
        return next(places, None)


def largest_first(column: Column[Row]) -> bool:
    """Whether a column is sorted from the largest at first: numbers are, words are not."""
    return column.align == ">"
