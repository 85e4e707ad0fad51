"""The GPUs of the main screen: all of them until some are hidden, and a cursor on one."""

from __future__ import annotations

from gpudash.analysis.labels import index_ranges
from gpudash.analysis.table import DeviceRow, device_rows
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import State


class DeviceList:
    """Rows of devices, with GPUs hidden by index, and their MIG instances with them.

    The cursor counts while the list has the focus, and follows a device by identity.
    """

    def __init__(self) -> None:
        self.rows: list[DeviceRow] = []
        """Rows that are not hidden, in the order of the snapshot, whether in view or not."""
        self.hidden: frozenset[int] = frozenset()
        self.focused = False
        self.first = 0
        """Index of the first row in view."""
        self.indices: tuple[int, ...] = ()
        """Indices of all GPUs."""
        self._all: list[DeviceRow] = []
        self._key: str | None = None
        self._index = 0

    def fill(self, snapshot: Snapshot) -> None:
        """Set the devices of another snapshot."""
        self._all = device_rows(snapshot)
        self.indices = tuple(each.index for each in snapshot.devices if not each.is_mig)
        self._hide(self.hidden, keep=True)

    def toggle(self, index: int) -> None:
        """Hide a GPU, or show it again; hiding the last one shows all."""
        self._hide(self.hidden ^ {index})

    def only(self, index: int) -> None:
        """Hide all other GPUs."""
        self._hide(frozenset(self.indices) - {index})

    def show_all(self) -> None:
        """Hide nothing."""
        self._hide(frozenset())

    @property
    def states(self) -> dict[str, State]:
        """The state of each device by its key, hidden or not."""
        return {row.device.key: row.state for row in self._all}

    @property
    def mark(self) -> str:
        """The mark in the header: `GPU 0,2 of 8`; empty while none is hidden."""
        shown = [index for index in self.indices if index not in self.hidden]
        if len(shown) == len(self.indices):
            return ""
        return f"GPU {index_ranges(shown)} of {len(self.indices)}"

    @property
    def selected(self) -> DeviceRow | None:
        """The device under the cursor, or the one at its index if it is gone; None for none."""
        if not self.rows:
            return None
        found = (index for index, row in enumerate(self.rows) if row.device.key == self._key)
        self._index = min(next(found, self._index), len(self.rows) - 1)
        row = self.rows[self._index]
        self._key = self._key or row.device.key
        return row

    @property
    def focused_row(self) -> DeviceRow | None:
        """The device that keys apply to, None while the list does not have the focus."""
        return self.selected if self.focused else None

    @property
    def highlighted(self) -> int | None:
        """The index of the row under the cursor, None while the list does not have the focus."""
        return None if self.focused_row is None else self._index

    def move(self, steps: int, seen: int) -> None:
        """Move the cursor, stopping at the ends, and keep it among the `seen` rows in view."""
        if self.selected is None:
            return
        self._index = max(0, min(self._index + steps, len(self.rows) - 1))
        self._key = self.rows[self._index].device.key
        self.first = max(self.first, self._index - seen + 1)
        self.first = min(self.first, self._index)

    def scroll(self, steps: int, seen: int) -> None:
        """Show later or earlier devices if there are more than `seen`."""
        self.first = max(0, min(self.first + steps, len(self.rows) - seen))

    def select(self, row: DeviceRow) -> None:
        """Put the cursor on a device."""
        self._key = row.device.key

    def _hide(self, hidden: frozenset[int], *, keep: bool = False) -> None:
        """Hide GPUs; none if all would be hidden, unless the choice is to be kept."""
        self.hidden = hidden if keep or set(self.indices) - hidden else frozenset()
        self.rows = [row for row in self._all if _index(row) not in self.hidden]


def _index(row: DeviceRow) -> int | None:
    """Return the index of the GPU that a row belongs to, None if its parent is not listed."""
    text = row.label.partition(":")[0]
    return int(text) if text.isdecimal() else None
