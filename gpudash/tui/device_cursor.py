"""Which of the devices is under the cursor, and which of them are in view.

The cursor stands on an identity: a device that comes or goes moves it to no other one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.table import DeviceRow
from gpudash.tui.layout import Arrangement


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

    def move(self, steps: int, rows: Sequence[DeviceRow], plan: Arrangement) -> None:
        """Move the cursor by so many devices, at most to an end, and let it be seen."""
        if self.row(rows) is None:
            return
        self._place = max(0, min(self._place + steps, len(rows) - 1))
        self._key = rows[self._place].device.key
        self.first = max(self.first, self._place - plan.seen + 1)
        self.first = min(self.first, self._place)

    def scroll(self, steps: int, rows: Sequence[DeviceRow], plan: Arrangement) -> None:
        """Show later or earlier devices where not all fit."""
        self.first = max(0, min(self.first + steps, len(rows) - plan.seen))

    def at(
        self, x: int, line: int, rows: Sequence[DeviceRow], plan: Arrangement, cells: int
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
