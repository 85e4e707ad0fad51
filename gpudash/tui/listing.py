"""The processes shown: which of all, in what order, which are tagged and selected.

The cursor and tags refer to identities: no snapshot moves them to another process. Until the user
moves the cursor, a list stays at its top: there, the cursor is dropped if its process leaves the
screen; in other tables, it goes to the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.filter import EVERYTHING, Filter
from gpudash.analysis.forest import TREE, forest
from gpudash.analysis.table import Column, ProcessRow, largest_first

if TYPE_CHECKING:
    from gpudash.analysis.history.metrics import ProcessKey

Row = TypeVar("Row")


class Ranking(Generic[Row]):
    """Rows in the chosen order, with the row under the cursor known by identity."""

    _UNSEEN: ClassVar[int] = 0
    """Where an unmoved cursor goes when its row leaves the screen; -1 for nowhere."""

    def __init__(
        self, columns: Sequence[Column[Row]], identity: Callable[[Row], Hashable], sort_key: str
    ) -> None:
        self.rows: list[Row] = []
        """The rows shown, in order."""
        self.sort_key = sort_key
        self.descending = True
        self._then_by = sort_key, True
        """The previous sort column, which decides ties, and whether it descends."""
        self.cursor = 0
        """Index of the selected row, -1 for none."""
        self.is_at_home = True
        """Whether the view is at the top, rather than at the row under the cursor."""
        self.top = 0
        self._columns = {column.key: column for column in columns}
        self._identity = identity

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None if there is none."""
        return self.rows[self.cursor] if self.rows and self.cursor >= 0 else None

    def fill(self, rows: Sequence[Row]) -> None:
        """Set new rows; the cursor stays on its row, or at its index if that is gone."""
        followed = self._followed
        self.rows = list(rows)
        self._order(followed)

    def sort_by(self, key: str) -> None:
        """Sort by a column, numbers from the largest; reverse the present column.

        Rows that are equal in it keep their previous order.
        """
        if key == self.sort_key:
            self.reverse()
            return
        self._then_by = self.sort_key, self.descending
        self.sort_key, self.descending = key, largest_first(self._columns[key])
        self._order(self._followed)

    def reverse(self) -> None:
        """Reverse the order."""
        self.descending = not self.descending
        self._order(self._followed)

    def sort_beside(self, keys: Sequence[str], step: int) -> None:
        """Sort by the column `step` places on in `keys`, going round at the ends; not if empty."""
        if keys:
            index = keys.index(self.sort_key) if self.sort_key in keys else 0
            self.sort_by(keys[(index + step) % len(keys)])

    def move(self, rows: int) -> None:
        """Move the cursor by rows, stopping at the ends; beyond the top, it is at home."""
        self.move_to(self.cursor + rows)
        self.is_at_home |= rows <= -len(self.rows)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, or the nearest."""
        self.is_at_home = not self.rows
        self._put(index)

    def _put(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def window(self, height: int) -> range:
        """Return the rows in view, scrolled no further than the cursor and the end demand.

        Until a row is chosen, they are those at the top.
        """
        height = max(1, height)
        if self.is_at_home:
            self.top = 0
            if self.cursor >= height:
                self.cursor = self._UNSEEN
        self.top = max(self.top, self.cursor - height + 1)
        self.top = max(0, min(self.top, self.cursor, len(self.rows) - height))
        return range(self.top, min(len(self.rows), self.top + height))

    @property
    def leading(self) -> tuple[str, bool]:
        """The column that orders the rows, and whether it descends."""
        return self.sort_key, self.descending

    @property
    def _followed(self) -> Hashable:
        return None if self.selected is None else self._identity(self.selected)

    def _order(self, *followed: Hashable) -> None:
        """Sort the rows, and put the cursor on the first of these identities that is shown."""
        # Both may be the same column, which is then sorted only once.
        for key, descending in dict([self._then_by, (self.sort_key, self.descending)]).items():
            self.rows.sort(key=self._columns[key].sort_key, reverse=descending)
        self.rows = self._arranged()
        found = (self._index_of(each) for each in followed if each is not None)
        self._put(next((index for index in found if index is not None), self.cursor))

    def _arranged(self) -> list[Row]:
        """Return the sorted rows as arranged for display."""
        return self.rows

    def _index_of(self, wanted: Hashable) -> int | None:
        found = (i for i, row in enumerate(self.rows) if self._identity(row) == wanted)
        return next(found, None)


PROCESS_ORDERS: tuple[Column[ProcessRow], ...] = (*PROCESS_COLUMNS, TREE)
"""The columns that processes can be sorted by."""

_COLUMNS = {column.key: column for column in PROCESS_ORDERS}


class Listing(Ranking[ProcessRow]):
    """Rows in the chosen order, a cursor on one of them, and the part in view."""

    # No signal may reach a process that the user did not choose.
    _UNSEEN = -1

    def __init__(self, sort_key: str) -> None:
        super().__init__(PROCESS_ORDERS, lambda row: row.process.key, sort_key)
        self.descending = True
        self.everything: Sequence[ProcessRow] = ()
        """All processes, including hidden ones, in any order."""
        self.members: frozenset[ProcessKey] = frozenset()
        """The processes shown, in any order."""
        self.matching = 0
        """How many match; a selected one that no longer does is shown all the same."""
        self.filter = EVERYTHING
        self.hidden_devices: Collection[int] = ()
        """Indices of GPUs: processes that use only these are hidden."""
        self.tagged: set[ProcessKey] = set()
        self.is_per_gpu = False
        """Whether a process on several GPUs has a row for each."""
        self._per_gpu: Callable[[ProcessRow], list[ProcessRow]] = lambda row: [row]
        self._gpus = ""
        """The GPUs of the row under the cursor."""
        self._missed: ProcessKey | None = None
        """The process under the cursor when a sample left it out."""

    @property
    def selected_key(self) -> ProcessKey | None:
        """The identity of the process under the cursor."""
        return self.selected.process.key if self.selected else None

    @property
    def leading(self) -> tuple[str, bool]:
        """See `Ranking`; in a tree, it orders siblings."""
        return self._then_by if self.sort_key == TREE.key else super().leading

    def reverse(self) -> None:
        """Reverse the order; in a tree, that of siblings."""
        if self.sort_key == TREE.key:
            key, descending = self._then_by
            self._then_by = key, not descending
            self._order(self._followed)
        else:
            super().reverse()

    @property
    def tagged_rows(self) -> list[ProcessRow]:
        """All tagged processes, including hidden ones."""
        rows = self.everything if self.tagged else ()
        return [row for row in rows if row.process.key in self.tagged]

    def fill(
        self,
        rows: Sequence[ProcessRow],
        per_gpu: Callable[[ProcessRow], list[ProcessRow]] = lambda row: [row],
    ) -> None:
        """Set new rows; the cursor stays on its process, or at its index if that is gone.

        Until the cursor is moved, it stays even if the process no longer matches the filter, and
        returns to one that only some samples left out. `per_gpu` returns the rows of a process, one
        for each of its GPUs.
        """
        self.everything, self._per_gpu = rows, per_gpu
        before = self.selected_key
        followed = self._missed or before
        was_given_up = bool(self.rows) and before is None
        self._choose(followed, before, kept=before)
        if was_given_up:
            self.cursor = -1
        self._missed = None if self.selected_key == followed else followed

    def filter_by(self, wanted: Filter[ProcessRow], *, anchor: ProcessKey | None = None) -> None:
        """Show the matches; the cursor goes to `anchor` if that is shown, else stays."""
        self.filter = wanted
        self._choose(anchor, self.selected_key)

    def toggle_per_gpu(self) -> None:
        """Show a process on several GPUs once for each, or only once."""
        self.is_per_gpu = not self.is_per_gpu
        self._choose(self.selected_key)

    def hide_devices(self, indices: Collection[int]) -> None:
        """Hide the processes that use only these GPUs."""
        self.hidden_devices = indices
        self._choose(self.selected_key)

    def tag(self) -> None:
        """Tag the selected process, or untag it."""
        if self.selected_key is not None:
            self.hold()
            self.tagged ^= {self.selected_key}

    def hold(self) -> None:
        """Keep the cursor on its process from now on, wherever the order moves it."""
        if self.selected is not None:
            self._missed, self.is_at_home = None, False

    def move_to(self, index: int) -> None:
        """Put the cursor on a row of the list, or the nearest."""
        self._missed = None
        super().move_to(index)

    def select(self, key: ProcessKey) -> bool:
        """Put the cursor on a process; False if it is not shown."""
        index = self._index_of(key)
        if index is not None:
            self.move_to(index)
        return index is not None

    def _choose(self, *followed: ProcessKey | None, kept: ProcessKey | None = None) -> None:
        """Show the matching rows, and the one that is kept."""
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
        if self.is_per_gpu:
            self.rows = [part for row in fitting for part in self._parts(row)]
        self._order(*followed)

    def _parts(self, row: ProcessRow) -> list[ProcessRow]:
        """Return the rows of a process per GPU, as far as they match; itself if none does."""
        return [part for part in self._per_gpu(row) if self._fits(part)] or [row]

    def _fits(self, row: ProcessRow) -> bool:
        devices = row.process.devices
        if self.hidden_devices and devices:
            used = {device.index for device in devices}
            if used.issubset(self.hidden_devices):
                return False
        return self.filter.matches(row)

    def _order(self, *followed: Hashable) -> None:
        self._missed = None
        self.rows.sort(key=lambda row: row.process.pid)
        super()._order(*(key for key in followed if key in self.members))

    def _put(self, index: int) -> None:
        super()._put(index)
        self._gpus = self.rows[self.cursor].gpus if self.rows else ""

    def _index_of(self, wanted: Hashable) -> int | None:
        found = [i for i, row in enumerate(self.rows) if row.process.key == wanted]
        same = (i for i in found if self.rows[i].gpus == self._gpus)
        return next(same, found[0] if found else None)

    def _arranged(self) -> list[ProcessRow]:
        if self.sort_key == TREE.key:
            return forest(self.rows, self.everything)
        return [row._replace(branch="") if row.branch else row for row in self.rows]


def starts_largest(key: str) -> bool:
    """Whether processes are first sorted by a column from the largest."""
    return largest_first(_COLUMNS[key])
