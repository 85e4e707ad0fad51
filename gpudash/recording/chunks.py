"""A recording's file as a row of chunks of whole lines, each read by itself.

A plain file is cut where its bytes are counted: a chunk holds the lines that begin in it. A packed
one consists of zstd frames already, whose places are found without unpacking any.
"""

from __future__ import annotations

import os
import stat
import weakref
from typing import Protocol

from gpudash.child import LINE_LIMIT
from gpudash.errors import UsageError
from gpudash.recording import zstd

FRAME_BYTES = 4 << 20
"""About so much a frame holds; its last line may be as long as a line can be."""

_PLAIN_BYTES = 1 << 20
_HEAD_BYTES = 18
_CHECKSUM_BYTES = 4
_RUN = 1
"""The type of a block that is one byte, repeated."""


class Chunks(Protocol):
    """The lines of a file in pieces that are small enough to be read at once."""

    count: int

    def read(self, number: int) -> list[bytes]:
        """Return the lines of a chunk, without their newlines."""
        ...


class Plain:
    """A file of lines in pieces of a megabyte; its descriptor is closed with it."""

    def __init__(self, descriptor: int, chunk_bytes: int = _PLAIN_BYTES) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._bytes = chunk_bytes
        self._size = os.fstat(descriptor).st_size
        self.count = -(-self._size // chunk_bytes)

    def read(self, number: int) -> list[bytes]:
        """Return the lines that begin in a piece; none where one longer than it goes on."""
        start, end = number * self._bytes, min((number + 1) * self._bytes, self._size)
        # The byte before tells whether a line begins with the piece.
        data = os.pread(self._descriptor, end - max(start - 1, 0), max(start - 1, 0))
        if start:
            _, newline, data = data.partition(b"\n")
            if not newline or not data:
                return []
        if not data.endswith(b"\n"):
            data += self._rest(end)
        return data.removesuffix(b"\n").split(b"\n")

    def _rest(self, place: int) -> bytes:
        """Return the line's end behind `place`."""
        found: list[bytes] = []
        size = 0
        while place < self._size and size <= LINE_LIMIT:
            piece = os.pread(self._descriptor, min(self._bytes, self._size - place), place)
            line, newline, _ = piece.partition(b"\n")
            found.append(line)
            if newline or not piece:
                break
            place += len(piece)
            size += len(piece)
        return b"".join(found)


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


def open_chunks(path: str) -> Chunks:
    """Open a recording, whatever its name; raises UsageError where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: no file that can be replayed")
    packed = zstd.is_zstd(os.pread(descriptor, _HEAD_BYTES, 0))
    return Packed(descriptor) if packed else Plain(descriptor)
