"""The whole snapshots of the last minutes, each as the line that arrived, compressed.

A line differs little from those before it, so it is packed beside a reference line of the last
minute: 1.3 KB instead of 5.3 for a line of 78 KB.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf

from msgspec import Struct

from gpudash.model import wire
from gpudash.model.snapshot import EMPTY, Snapshot

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
"""Of all but the newest."""


class _Packed(Struct, frozen=True):
    time: float
    reference: bytes
    """A line, packed."""
    line: bytes
    """This line, packed beside that one; empty if it is that one."""

    @property
    def size(self) -> int:
        """Bytes, those of a reference only once."""
        return len(self.line or self.reference)


class Snapshots:
    """The snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest = EMPTY
        self._newest: tuple[float, bytes] | None = None
        """Packed when the next one comes: the first picture does not wait for that."""
        self._kept: list[_Packed] = []
        """Those before it."""
        self._bytes = 0
        self._reference = _Packed(-inf, b"", b"")
        self._reference_line = b""

    def push(self, now: float, snapshot: Snapshot, line: bytes) -> None:
        """Add a snapshot and its line; one of the same instant replaces the last."""
        before, self._newest, self._latest = self._newest, (now, line), snapshot
        if before is None or before[0] == now:
            return
        packed = self._pack(*before)
        self._kept.append(packed)
        self._bytes += packed.size
        settled = len(self._kept) - _RECENT
        if settled > 0:
            distance = self._kept[settled].time - self._kept[settled - 1].time
            if distance < _SETTLED_SECONDS:
                self._drop(settled)
        while self._is_full(now):
            self._drop(0)

    def times(self) -> list[float]:
        """Return the instants of all, oldest first."""
        times = [packed.time for packed in self._kept]
        return times if self._newest is None else [*times, self._newest[0]]

    def at(self, moment: float) -> Snapshot:
        """Return the last one not after `moment`, else the oldest; EMPTY before the first."""
        number = max(bisect_right(self.times(), moment) - 1, 0)
        if number >= len(self._kept):
            return self._latest
        return wire.decode(_unpacked(self._kept[number]))

    def _is_full(self, now: float) -> bool:
        if not self._kept:
            return False
        count = len(self._kept) + 1
        is_old = count > _RECENT and now - self._kept[0].time > _MAX_AGE_SECONDS
        return is_old or count > _MAX_COUNT or self._bytes > _MAX_BYTES

    def _drop(self, index: int) -> None:
        self._bytes -= self._kept.pop(index).size

    def _pack(self, now: float, line: bytes) -> _Packed:
        from gpudash.system.zstd import pack

        if now - self._reference.time < _REFERENCE_SECONDS:
            packed = _Packed(now, self._reference.reference, pack(line, self._reference_line))
            if packed.size <= max(_SMALL, len(packed.reference) // 2):
                return packed
        self._reference = _Packed(now, pack(line), b"")
        self._reference_line = line
        return self._reference


def _unpacked(packed: _Packed) -> bytes:
    from gpudash.system.zstd import unpack

    reference = unpack(packed.reference)
    return unpack(packed.line, reference) if packed.line else reference
