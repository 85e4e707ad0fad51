"""A recording's file as a row of chunks of whole lines, each read by itself.

A plain file is cut where its bytes are counted: a chunk holds the lines that begin in it. A packed
one consists of frames already.
"""

from __future__ import annotations

import os
import stat
import weakref
from typing import Protocol

from gpudash.feed.collector import LINE_LIMIT
from gpudash.model.errors import UsageError

_PLAIN_BYTES = 1 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"
"""How a packed file begins, whatever its name."""


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


def open_chunks(path: str) -> Chunks:
    """Open a recording, whatever its name; raises UsageError where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: no file that can be replayed")
    if os.pread(descriptor, len(_ZSTD), 0) != _ZSTD:
        return Plain(descriptor)
    from gpudash.feed.recording.packed import Packed

    return Packed(descriptor)
