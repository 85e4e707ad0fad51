"""Rows of numbers on a shared time axis, and their resampling to the points of a chart.

A row covers at most a second: several samples within one become one row of their means. Absent
values are minus infinity, which no mean ever is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf, isfinite
from struct import Struct, error
from typing import NamedTuple

BLOCK = 60
"""Rows stored and dropped together."""
CAPACITY = 31 * BLOCK
"""Rows kept: half an hour of seconds, plus a minute so that the first point is complete."""

_FLOAT_BYTES = array("f").itemsize
_GAP = array("f", [-inf]) * BLOCK
_ROW_SECONDS = 0.9
_HOLD_INTERVALS, _HOLD_MIN_SECONDS, _HOLD_MAX_SECONDS = 2.5, 2.5, 150.0

Row = Sequence[float | None]
Slot = tuple[int, int] | None
"""The numbers of a point's first row and of the one after its last; None in a gap."""
Window = tuple[float, float, int]
"""Time of the last point, seconds, and number of points."""


class Extent(NamedTuple):
    """The lowest, mean and highest value in the time of one point."""

    low: float
    mean: float
    high: float


class Axis:
    """The times of the rows; rows are numbered from the first that ever was."""

    def __init__(self) -> None:
        self.first = 0
        self._times = array("d")
        self._frozen = False
        self._cached: tuple[Window, int, list[Slot]] | None = None

    @property
    def end(self) -> int:
        """Number of the next row."""
        return self.first + len(self._times)

    def advance(self, now: float) -> bool:
        """Open a row unless the last one is still young; return whether old ones were dropped."""
        if self._times and now - self._times[-1] < _ROW_SECONDS and not self._frozen:
            return False
        self._frozen = False
        self._times.append(now)
        if len(self._times) < CAPACITY + BLOCK:
            return False
        del self._times[:BLOCK]
        self.first += BLOCK
        return True

    def freeze_last_row(self) -> None:
        """Close the last row; the next sample opens another."""
        self._frozen = True

    def slots(self, window: Window) -> list[Slot]:
        """Return the rows of each point, on a grid that does not move with the window."""
        if self._cached is None or self._cached[:2] != (window, self.end):
            self._cached = window, self.end, self._cut(window)
        return self._cached[2]

    def _cut(self, window: Window) -> list[Slot]:
        until, seconds, points = window
        width = seconds / points
        start = int(until // width) - points + 1
        edges = [bisect_left(self._times, (start + point) * width) for point in range(points)]
        edges.append(bisect_right(self._times, until))
        return [
            (self.first + low, self.first + max(low, high))
            if low < high
            else self._held(low - 1, (start + point) * width)
            for point, (low, high) in enumerate(pairwise(edges))
        ]

    def _held(self, row: int, instant: float) -> Slot:
        """Return the row before an instant if it still applies, as between two slow samples."""
        if row < 0:
            return None
        before = self._times[row] - self._times[row - 1] if row else 0.0
        hold = min(max(_HOLD_INTERVALS * before, _HOLD_MIN_SECONDS), _HOLD_MAX_SECONDS)
        held = instant - self._times[row] <= hold
        return (self.first + row, self.first + row + 1) if held else None


class Track:
    """The rows of one device, process or host, in blocks so that the oldest can be dropped."""

    __slots__ = ("_blocks", "_floats", "_known", "_width", "end")

    def __init__(self, width: int) -> None:
        self.end = 0
        """Number of the row after its last one."""
        self._known: list[int] = []
        """How many values each mean of the last row has, counted once there is a second sample."""
        self._width = width
        self._floats = _floats(width)
        self._blocks: dict[int, array[float]] = {}

    def put(self, number: int, row: Row) -> None:
        """Set row `number`, or add to its means if it is the last one."""
        block = self._blocks.get(number // BLOCK)
        if block is None:
            block = self._blocks[number // BLOCK] = array("f", [-inf]) * (BLOCK * self._width)
        values = [-inf if value is None else value for value in row]
        offset = number % BLOCK * self._width
        if number < self.end:
            values = self._with(block[offset : offset + self._width], _packed(values))
        else:
            self._known = []
        try:
            self._floats.pack_into(block, offset * _FLOAT_BYTES, *values)
        except (OverflowError, error):
            block[offset : offset + self._width] = _packed(values)
        self.end = number + 1

    def trim(self, first: int) -> None:
        """Drop the blocks before row `first`."""
        for number in [number for number in self._blocks if (number + 1) * BLOCK <= first]:
            del self._blocks[number]

    def _with(self, means: Sequence[float], sample: Sequence[float]) -> list[float]:
        """Return the means of the last row with one more sample."""
        before = self._known or [int(isfinite(mean)) for mean in means]
        self._known = [count + isfinite(value) for count, value in zip(before, sample, strict=True)]
        return [
            mean + (value - mean) / count
            if isfinite(mean) and isfinite(value)
            else max(mean, value)
            for mean, value, count in zip(means, sample, self._known, strict=True)
        ]

    def means(self, column: int, slots: list[Slot]) -> list[float | None]:
        """Return the mean of a column in each slot."""
        return [_mean_of_known(values) for values in self._cells(column, slots)]

    def extents(self, column: int, slots: list[Slot]) -> list[Extent | None]:
        """Return the lowest, mean and highest value of a column in each slot."""
        return [
            Extent(min(known), sum(known) / len(known), max(known))
            if (known := [value for value in values if isfinite(value)])
            else None
            for values in self._cells(column, slots)
        ]

    def _cells(self, column: int, slots: list[Slot]) -> list[array[float]]:
        """Return the values of a column in each slot."""
        rows = [slot for slot in slots if slot]
        if not rows:
            return [array("f") for _ in slots]
        first, last = rows[0][0] // BLOCK, (rows[-1][1] - 1) // BLOCK
        cells = array("f")
        for number in range(first, last + 1):
            block = self._blocks.get(number)
            cells.extend(_GAP if block is None else block[column :: self._width])
        base = first * BLOCK
        return [cells[slot[0] - base : slot[1] - base] if slot else array("f") for slot in slots]


def _mean_of_known(values: Sequence[float]) -> float | None:
    known = [value for value in values if isfinite(value)]
    return sum(known) / len(known) if known else None


@lru_cache
def _floats(width: int) -> Struct:
    return Struct(f"{width}f")


def _packed(row: list[float]) -> array[float]:
    try:
        return array("f", row)
    except OverflowError:
        # An integer too large for a float, which only a forged document has.
        return array("f", [value if abs(value) < 1e38 else -inf for value in row])
