"""The whole snapshots of the last minutes, each as the line that arrived, compressed.

A line differs little from those before it, but zlib sees no further back than 32 KiB, and a line
may be longer. So a line is compressed in pieces, each with the same part of a reference line as
its dictionary: 2.6 KB instead of 6.3 for a line of 76 KB.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from math import inf
from typing import NamedTuple

from gpudash.model import wire
from gpudash.model.snapshot import EMPTY, Snapshot

_LEVEL = 3
_PIECE, _SLACK = 24 << 10, 4 << 10
"""Bytes of a piece, and those around it in the reference, for what has moved."""
_REFERENCE_SECONDS = 60.0
_SMALL = 2048
"""Bytes up to which a line is kept by a reference that it has little in common with."""
_RECENT = 60
"""Newest snapshots that are kept however close together they are."""
_SETTLED_SECONDS = 0.9
"""Minimum distance between those before them."""
_MAX_COUNT = 660
_MAX_AGE_SECONDS = 630.0
_MAX_BYTES = 12 << 20


class _Packed(NamedTuple):
    time: float
    reference: bytes
    """A line, compressed."""
    pieces: tuple[bytes, ...]
    """This line in pieces, each compressed with its part of the reference; none if it is that."""

    @property
    def size(self) -> int:
        """Bytes, those of a reference only once."""
        return sum(map(len, self.pieces)) or len(self.reference)


class Snapshots:
    """The snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest = EMPTY
        self._kept: list[_Packed] = []
        self._bytes = 0
        self._reference = _Packed(-inf, b"", ())
        self._reference_line = b""

    def push(self, now: float, snapshot: Snapshot, line: bytes) -> None:
        """Add a snapshot and its line; one of the same instant replaces the last."""
        self._latest = snapshot
        if self._kept and self._kept[-1].time == now:
            self._drop(len(self._kept) - 1)
        packed = self._pack(now, line)
        self._kept.append(packed)
        self._bytes += packed.size
        settled = len(self._kept) - _RECENT - 1
        if settled > 0:
            distance = self._kept[settled].time - self._kept[settled - 1].time
            if distance < _SETTLED_SECONDS:
                self._drop(settled)
        while self._is_full(now):
            self._drop(0)

    def times(self) -> list[float]:
        """Return the instants of all, oldest first."""
        return [packed.time for packed in self._kept]

    def at(self, moment: float) -> Snapshot:
        """Return the last one not after `moment`, else the oldest; EMPTY before the first."""
        if not self._kept or moment >= self._kept[-1].time:
            return self._latest
        return wire.decode(_unpacked(self._kept[self._index(moment)]))

    def step(self, moment: float, count: int) -> float:
        """Return the instant `count` snapshots away from the one of `moment`, within what is."""
        if not self._kept:
            return moment
        index = self._index(moment) + count
        return self._kept[min(max(index, 0), len(self._kept) - 1)].time

    def _index(self, moment: float) -> int:
        return max(bisect_right(self.times(), moment) - 1, 0)

    def _is_full(self, now: float) -> bool:
        count = len(self._kept)
        if count <= 1:
            return False
        is_old = count > _RECENT and now - self._kept[0].time > _MAX_AGE_SECONDS
        return is_old or count > _MAX_COUNT or self._bytes > _MAX_BYTES

    def _drop(self, index: int) -> None:
        self._bytes -= self._kept.pop(index).size

    def _pack(self, now: float, line: bytes) -> _Packed:
        if now - self._reference.time < _REFERENCE_SECONDS:
            pieces = _compressed(line, self._reference_line)
            packed = _Packed(now, self._reference.reference, pieces)
            if packed.size <= max(_SMALL, len(packed.reference) // 2):
                return packed
        self._reference = _Packed(now, zlib.compress(line, _LEVEL), ())
        self._reference_line = line
        return self._reference


def _compressed(line: bytes, reference: bytes) -> tuple[bytes, ...]:
    pieces = []
    for start in range(0, len(line), _PIECE):
        compressor = zlib.compressobj(_LEVEL, zdict=_dictionary(reference, start))
        pieces.append(compressor.compress(line[start : start + _PIECE]) + compressor.flush())
    return tuple(pieces)


def _unpacked(packed: _Packed) -> bytes:
    reference = zlib.decompress(packed.reference)
    if not packed.pieces:
        return reference
    return b"".join(
        zlib.decompressobj(zdict=_dictionary(reference, number * _PIECE)).decompress(piece)
        for number, piece in enumerate(packed.pieces)
    )


def _dictionary(reference: bytes, start: int) -> bytes:
    return reference[max(0, start - _SLACK) : start + _PIECE + _SLACK]
