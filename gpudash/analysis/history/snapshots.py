"""The whole snapshots of the last minutes, each as the line that arrived, compressed."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from typing import NamedTuple

from gpudash.model import wire
from gpudash.model.snapshot import EMPTY, Snapshot

_LEVEL = 1
_RECENT = 60
"""Newest snapshots that are kept however close together they are."""
_SETTLED_SECONDS = 0.9
"""Least distance between those before them."""
_MAX_COUNT = 660
_MAX_AGE_SECONDS = 630.0
_MAX_BYTES = 12 << 20


class _Packed(NamedTuple):
    time: float
    line: bytes


class Snapshots:
    """The snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest = EMPTY
        self._kept: list[_Packed] = []
        self._bytes = 0

    def push(self, now: float, snapshot: Snapshot, line: bytes) -> None:
        """Add a snapshot and its line; one of the same instant replaces the last."""
        self._latest = snapshot
        if self._kept and self._kept[-1].time == now:
            self._drop(len(self._kept) - 1)
        packed = _Packed(now, zlib.compress(line, _LEVEL))
        self._kept.append(packed)
        self._bytes += len(packed.line)
        settled = len(self._kept) - _RECENT - 1
        if (
            settled > 0
            and self._kept[settled].time - self._kept[settled - 1].time < _SETTLED_SECONDS
        ):
            self._drop(settled)
        while len(self._kept) > 1 and (
            len(self._kept) > _MAX_COUNT
            or self._bytes > _MAX_BYTES
            or (len(self._kept) > _RECENT and now - self._kept[0].time > _MAX_AGE_SECONDS)
        ):
            self._drop(0)

    def times(self) -> list[float]:
        """Return the instants of all, oldest first."""
        return [packed.time for packed in self._kept]

    def at(self, moment: float) -> Snapshot:
        """Return the last one not after `moment`, else the oldest; EMPTY before the first."""
        if not self._kept or moment >= self._kept[-1].time:
            return self._latest
        return wire.decode(zlib.decompress(self._kept[self._index(moment)].line))

    def step(self, moment: float, count: int) -> float:
        """Return the instant `count` snapshots away from the one of `moment`, within what is."""
        if not self._kept:
            return moment
        index = self._index(moment) + count
        return self._kept[min(max(index, 0), len(self._kept) - 1)].time

    def _index(self, moment: float) -> int:
        return max(bisect_right(self.times(), moment) - 1, 0)

    def _drop(self, index: int) -> None:
        self._bytes -= len(self._kept.pop(index).line)
