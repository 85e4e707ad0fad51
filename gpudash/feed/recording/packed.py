"""A packed recording as chunks: its zstd frames, whose places are found without unpacking any."""

from __future__ import annotations

import os
import weakref

from gpudash.feed.collector import LINE_LIMIT
from gpudash.feed.recording import reader as zstd

FRAME_BYTES = 4 << 20
"""About so much a frame holds; its last line may be as long as a line can be."""

_HEAD_BYTES = 18
_CHECKSUM_BYTES = 4
_RUN = 1
"""The type of a block that is one byte, repeated."""


class Packed:
    """A file of zstd frames, the last of which may be cut off; closes the descriptor, too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._size = os.fstat(descriptor).st_size
        self._ends = self._walk()
        self.count = len(self._ends)

    def read(self, number: int) -> list[bytes]:
        """Return the lines of a frame; raises WireError for one that is too large."""
        start = self._ends[number - 1] if number else 0
        frame = os.pread(self._descriptor, self._ends[number] - start, start)
        data = zstd.unpack(frame, FRAME_BYTES + 2 * LINE_LIMIT)
        return data.removesuffix(b"\n").split(b"\n") if data else []

    def _walk(self) -> list[int]:
        """Return where each frame ends; the last one ends with the file at the latest."""
        ends: list[int] = []
        place = 0
        while place < self._size:
            end = self._end_of_frame(place)
            place = self._size if end is None else end
            ends.append(place)
        return ends

    def _end_of_frame(self, place: int) -> int | None:
        header = zstd.frame_size(os.pread(self._descriptor, _HEAD_BYTES, place))
        if header is None:
            return None
        size, has_checksum = header
        place += size
        last = 0
        while not last:
            block = int.from_bytes(os.pread(self._descriptor, 3, place), "little")
            last, kind, length = block & 1, block >> 1 & 3, block >> 3
            place += 3 + (1 if kind == _RUN else length)
            if place > self._size:
                return None
        place += _CHECKSUM_BYTES * has_checksum
        return place if place <= self._size else None
