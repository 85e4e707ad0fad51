"""Which GPUs are on screen: all of them, until some are hidden."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.labels import index_ranges
from gpudash.analysis.table import DeviceRow, device_rows
from gpudash.model.snapshot import Snapshot
from gpudash.tui.layout import Layout


class ShownDevices:
    """Hides GPUs by their index, MIG instances with the GPU that they are part of."""

    def __init__(self) -> None:
        self.hidden: frozenset[int] = frozenset()

    def toggle(self, index: int, snapshot: Snapshot) -> None:
        """Hide a GPU, or show it again; to hide the last one shows all."""
        self._hide(self.hidden ^ {index}, snapshot)

    def only(self, index: int, snapshot: Snapshot) -> None:
        """Hide all others."""
        self._hide(frozenset(indices(snapshot)) - {index}, snapshot)

    def show_all(self) -> None:
        """Hide nothing."""
        self.hidden = frozenset()

    def rows(self, snapshot: Snapshot) -> list[DeviceRow]:
        """Return the devices to be shown, in the order of the snapshot."""
        rows = device_rows(snapshot)
        if not self.hidden:
            return rows
        return [row for row in rows if _index(row) not in self.hidden]

    def count(self, snapshot: Snapshot) -> int:
        """Return how many devices are to be shown."""
        return len(self.rows(snapshot)) if self.hidden else len(snapshot.devices)

    def mark(self, snapshot: Snapshot) -> str:
        """Return `GPU 0,2 of 8` while some are hidden."""
        if not self.hidden:
            return ""
        present = indices(snapshot)
        shown = [index for index in present if index not in self.hidden]
        if len(shown) == len(present):
            return ""
        return f"GPU {index_ranges(shown)} of {len(present)}"

    def _hide(self, hidden: frozenset[int], snapshot: Snapshot) -> None:
        shown = set(indices(snapshot)) - hidden
        self.hidden = hidden if shown else frozenset()


def indices(snapshot: Snapshot) -> list[int]:
    """Return the indices of the GPUs that a snapshot has."""
    return [device.index for device in snapshot.devices if not device.is_mig]


def _index(row: DeviceRow) -> int | None:
    """Return the index of the GPU that a row belongs to, None if its parent is not listed."""
    text = row.label.partition(":")[0]
    return int(text) if text.isdecimal() else None


class DeviceCursor:
    """A place in the list of the devices, which counts while the list has the focus."""

    def __init__(self) -> None:
        self.focused = False
        self.first = 0
        """Number of the first device in view."""
        self._key: str | None = None
        self._place = 0

    def row(self, rows: Sequence[DeviceRow]) -> DeviceRow | None:
        """Return the device under the cursor, or the one in its place once it is gone."""
        if not rows:
            return None
        places = (place for place, row in enumerate(rows) if row.device.key == self._key)
        self._place = min(next(places, self._place), len(rows) - 1)
        self._key = self._key or rows[self._place].device.key
        return rows[self._place]

    def shown(self, rows: Sequence[DeviceRow]) -> int | None:
        """Return the number of the device that is to be highlighted."""
        return self._place if self.focused and self.row(rows) is not None else None

    def move(self, steps: int, rows: Sequence[DeviceRow], plan: Layout) -> None:
        """Move the cursor by so many devices, at most to an end, and let it be seen."""
        if self.row(rows) is None:
            return
        self._place = max(0, min(self._place + steps, len(rows) - 1))
        self._key = rows[self._place].device.key
        self.first = max(self.first, self._place - plan.seen + 1)
        self.first = min(self.first, self._place)

    def scroll(self, steps: int, rows: Sequence[DeviceRow], plan: Layout) -> None:
        """Show later or earlier devices where not all fit."""
        self.first = max(0, min(self.first + steps, len(rows) - plan.seen))

    def at(
        self, x: int, line: int, rows: Sequence[DeviceRow], plan: Layout, cells: int
    ) -> DeviceRow | None:
        """Return the device at a cell of a line below the headings."""
        height = plan.device_lines
        column = x // max(1, cells // plan.across)
        if not 0 <= line < height or column >= plan.across:
            return None
        place = self.first + column * height + line
        return rows[place] if place < min(len(rows), self.first + plan.seen) else None

    def select(self, row: DeviceRow) -> None:
        """Put the cursor on a device."""
        self._key = row.device.key
