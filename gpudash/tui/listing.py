"""The processes that are shown: which of all, in what order, which are tagged and selected.

Cursor and tags stand on identities: no snapshot moves them to another process. A list in which
none was chosen stays at its top: a cursor whose process would leave the screen is dropped, and
that of another table goes to the first row.
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
    """Rows in the order asked for, the one under the cursor known by its identity."""

    _UNSEEN: ClassVar[int] = 0
    """Where the cursor goes when its row, not chosen, leaves the screen; -1 for nowhere."""

    def __init__(
        self, columns: Sequence[Column[Row]], identity: Callable[[Row], Hashable], sort_key: str
    ) -> None:
        self.rows: list[Row] = []
        """Those that are shown, ordered."""
        self.sort_key = sort_key
        self.descending = True
        self._then_by = sort_key, True
        """The column sorted by before, which decides between ties, and whether it descends."""
        self.cursor = 0
        """Index of the selected row, -1 for none."""
        self.is_at_home = True
        """Whether the top is looked at, and not the row under the cursor."""
        self.top = 0
        self._columns = {column.key: column for column in columns}
        self._identity = identity

    @property
    def selected(self) -> Row | None:
        """The row under the cursor, None if there is none."""
        return self.rows[self.cursor] if self.rows and self.cursor >= 0 else None

    def fill(self, rows: Sequence[Row]) -> None:
        """Take new rows; the cursor stays on its row, or at its index if that is gone."""
        followed = self._followed
        self.rows = list(rows)
        self._order(followed)

    def sort_by(self, key: str) -> None:
        """Order by a column, numbers from the largest; the column in force turns around.

        Rows that are equal in it keep the order of the column before.
        """
        if key == self.sort_key:
            self.reverse()
            return
        self._then_by = self.sort_key, self.descending
        self.sort_key, self.descending = key, largest_first(self._columns[key])
        self._order(self._followed)

    def reverse(self) -> None:
        """Turn the order around."""
        self.descending = not self.descending
        self._order(self._followed)

    def sort_beside(self, keys: Sequence[str], step: int) -> None:
        """Order by the column `step` places after the one in force in `keys`, if that has any."""
        if keys:
            index = keys.index(self.sort_key) if self.sort_key in keys else 0
            self.sort_by(keys[(index + step) % len(keys)])

    def move(self, rows: int) -> None:
        """Move the cursor by a number of rows, at most to an end; beyond the top it is at home."""
        self.move_to(self.cursor + rows)
        self.is_at_home |= rows <= -len(self.rows)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, the nearest that there is."""
        self.is_at_home = not self.rows
        self._put(index)

    def _put(self, index: int) -> None:
        self.cursor = max(0, min(index, len(self.rows) - 1))

    def window(self, height: int) -> range:
        """Return the rows in view, moved as little as the cursor and the end demand.

        They are those at the top until one was chosen.
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
        """Sort the rows and put the cursor on the first that is followed and shown."""
        # Both may be the same column, which is then sorted by once.
        for key, descending in dict([self._then_by, (self.sort_key, self.descending)]).items():
            self.rows.sort(key=self._columns[key].sort_key, reverse=descending)
        self.rows = self._arranged()
        found = (self._index_of(each) for each in followed if each is not None)
        self._put(next((index for index in found if index is not None), self.cursor))

    def _arranged(self) -> list[Row]:
        """Return the rows, which are sorted, as they are shown."""
        return self.rows

    def _index_of(self, wanted: Hashable) -> int | None:
        found = (i for i, row in enumerate(self.rows) if self._identity(row) == wanted)
        return next(found, None)


PROCESS_ORDERS: tuple[Column[ProcessRow], ...] = (*PROCESS_COLUMNS, TREE)
"""What processes can be sorted by."""

_COLUMNS = {column.key: column for column in PROCESS_ORDERS}


class Listing(Ranking[ProcessRow]):
    """Rows in the order asked for, a cursor on one of them, and the part that is in view."""

    # No signal may reach a process that the user did not choose.
    _UNSEEN = -1

    def __init__(self, sort_key: str) -> None:
        super().__init__(PROCESS_ORDERS, lambda row: row.process.key, sort_key)
        self.descending = True
        self.everything: Sequence[ProcessRow] = ()
        """All processes, those that are not shown too, in any order."""
        self.members: frozenset[ProcessKey] = frozenset()
        """Those that are shown, in any order."""
        self.matching = 0
        """How many fit; a selected one that no longer does is shown all the same."""
        self.filter = EVERYTHING
        self.hidden_devices: Collection[int] = ()
        """Indices of GPUs: processes that use no others are not shown."""
        self.tagged: set[ProcessKey] = set()
        self.is_per_gpu = False
        """Whether a process on several GPUs has a row for each."""
        self._per_gpu: Callable[[ProcessRow], list[ProcessRow]] = lambda row: [row]
        self._gpus = ""
        """The GPUs of the row under the cursor."""
        self._missed: ProcessKey | None = None
        """The process under the cursor before a sample left it out."""

    @property
    def selected_key(self) -> ProcessKey | None:
        """The identity of the process under the cursor."""
        return self.selected.process.key if self.selected else None

    @property
    def leading(self) -> tuple[str, bool]:
        """See `Ranking`; in a tree the column is that of the siblings."""
        return self._then_by if self.sort_key == TREE.key else super().leading

    def reverse(self) -> None:
        """Turn the order around; in a tree that of siblings."""
        if self.sort_key == TREE.key:
            key, descending = self._then_by
            self._then_by = key, not descending
            self._order(self._followed)
        else:
            super().reverse()

    @property
    def tagged_rows(self) -> list[ProcessRow]:
        """All tagged processes, also those that are not shown."""
        rows = self.everything if self.tagged else ()
        return [row for row in rows if row.process.key in self.tagged]

    def fill(
        self,
        rows: Sequence[ProcessRow],
        per_gpu: Callable[[ProcessRow], list[ProcessRow]] = lambda row: [row],
    ) -> None:
        """Take new rows; the cursor stays on its process, or at its index if that is gone.

        It stays even if the process no longer fits the filter, until the cursor is moved, and
        goes back to one that only some samples left out. `per_gpu` returns the rows of a process,
        one for each of its GPUs.
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
        """Show what fits; the cursor goes to `anchor` if that is shown, or else stays."""
        self.filter = wanted
        self._choose(anchor, self.selected_key)

    def toggle_per_gpu(self) -> None:
        """Show a process on several GPUs once for each, or once."""
        self.is_per_gpu = not self.is_per_gpu
        self._choose(self.selected_key)

    def hide_devices(self, indices: Collection[int]) -> None:
        """Leave out the processes that use none but these GPUs."""
        self.hidden_devices = indices
        self._choose(self.selected_key)

    def tag(self) -> None:
        """Tag the selected process, or take its tag back."""
        if self.selected_key is not None:
            self.hold()
            self.tagged ^= {self.selected_key}

    def hold(self) -> None:
        """Stay with the process under the cursor from now on, wherever the order takes it."""
        if self.selected is not None:
            self._missed, self.is_at_home = None, False

    def move_to(self, index: int) -> None:
        """Put the cursor on a row of the list, the nearest that there is."""
        self._missed = None
        super().move_to(index)

    def select(self, key: ProcessKey) -> bool:
        """Put the cursor on a process; False if it is not shown."""
        index = self._index_of(key)
        if index is not None:
            self.move_to(index)
        return index is not None

    def _choose(self, *followed: ProcessKey | None, kept: ProcessKey | None = None) -> None:
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
        if self.is_per_gpu:
            self.rows = [part for row in fitting for part in self._parts(row)]
        self._order(*followed)

    def _parts(self, row: ProcessRow) -> list[ProcessRow]:
        """Return the rows of a process on each GPU, as far as they fit; itself if none does."""
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
    """Whether processes are sorted by a column from the largest at first."""
    return largest_first(_COLUMNS[key])
