"""Which GPUs are on screen: all of them, until some are hidden."""

from __future__ import annotations

from gpudash.analysis.labels import index_ranges
from gpudash.analysis.table import DeviceRow, device_rows
from gpudash.model.snapshot import Snapshot


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
