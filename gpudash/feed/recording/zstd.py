"""Recordings in zstd: independent frames, each of whole lines.

Every line is flushed, so that what was written before a kill can be read, and a frame ends before
it grows large, so that any line is found without decompressing what stands before it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpudash.feed.collector import FLEET_LINE_LIMIT
from gpudash.feed.recording.reader import ZSTD_MAGIC
from gpudash.model.errors import WireError
from gpudash.system.zstd import zstd

_OPTIONS: Mapping[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 1,
}
_PART_BYTES = 1 << 17

FRAME_BYTES = 4 << 20
"""The size of a frame before its last line, which may be as long as a line can be."""

_HEAD_BYTES = 18
_BLOCK_HEAD_BYTES = 3
_CHECKSUM_BYTES = 4
_RUN = 1
"""The type of a block that is one byte, repeated."""


class Compressor:
    """Compresses lines into one frame after the other."""

    def __init__(self) -> None:
        self._compressor = zstd.ZstdCompressor(options=_OPTIONS)

    def compress(self, data: bytes) -> bytes:
        """Return all that is needed to read `data` again, which the open frame goes on with."""
        packed: bytes = self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_BLOCK)
        return packed

    def end(self) -> bytes:
        """Return what ends the open frame."""
        ended: bytes = self._compressor.flush(zstd.ZstdCompressor.FLUSH_FRAME)
        return ended


class ZstdChunks:
    """A file of zstd frames, the last of which may be cut off; closes the descriptor, too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._size = os.fstat(descriptor).st_size
        self._ends = self._walk()
        self.count = len(self._ends)
        self.max_empty = 8
        self.is_damaged = False

    def read(self, number: int) -> bytes:
        """Return the lines of a frame; raises WireError for one that is too large."""
        start = self._ends[number - 1] if number else 0
        frame = os.pread(self._descriptor, self._ends[number] - start, start)
        found = decompress(frame, FRAME_BYTES + FLEET_LINE_LIMIT)
        self.is_damaged |= found.is_damaged
        return found.data

    def _walk(self) -> list[int]:
        """Return where each frame ends; the last one ends with the file at the latest.

        By hand, since the package knows the size of a frame only by decompressing it.
        """
        ends: list[int] = []
        position = 0
        while position < self._size:
            end = self._end_of_frame(position)
            position = self._size if end is None else end
            ends.append(position)
        return ends

    def _end_of_frame(self, position: int) -> int | None:
        header = _header(os.pread(self._descriptor, _HEAD_BYTES, position))
        if header is None:
            return None
        size, has_checksum = header
        position += size
        last = False
        while not last:
            length, last = _block(os.pread(self._descriptor, _BLOCK_HEAD_BYTES, position))
            position += length
            if position > self._size:
                return None
        position += _CHECKSUM_BYTES * has_checksum
        return position if position <= self._size else None


class Decompressed(NamedTuple):
    """What a frame holds, up to where it is damaged or cut off."""

    data: bytes
    is_damaged: bool
    """Not for a frame that is only cut off, as a crash leaves it."""


def decompress(frame: bytes, limit: int) -> Decompressed:
    """Return what a frame holds; of one that is cut off, as much as was flushed whole.

    Raises WireError for more than `limit` bytes. What is damaged ends where the damage begins.
    """
    found: list[bytes] = []
    size = 0
    is_damaged = False
    decompressor = zstd.ZstdDecompressor()
    try:
        # By blocks: what precedes an error in the same piece would be lost.
        for piece in _pieces(frame):
            packed = piece
            while not decompressor.eof:
                part = decompressor.decompress(packed, _PART_BYTES)
                packed = b""
                if not part:
                    break
                found.append(part)
                size += len(part)
                if size > limit:
                    why = "a zstd frame too large for gpudash record: unpack it with unzstd"
                    raise WireError(why)
    except zstd.ZstdError:
        is_damaged = True
    return Decompressed(b"".join(found), is_damaged)


def _pieces(frame: bytes) -> Iterator[bytes]:
    """Yield a frame's header, its blocks, and what follows them or cannot be told apart."""
    header = _header(frame[:_HEAD_BYTES])
    start, end = 0, len(frame) if header is None else header[0]
    last = False
    while end < len(frame) and not last:
        yield frame[start:end]
        length, last = _block(frame[end : end + _BLOCK_HEAD_BYTES])
        start, end = end, end + length
    yield frame[start:]


def _block(head: bytes) -> tuple[int, bool]:
    """Return how long a block is with its header, and whether it is the last of its frame."""
    block = int.from_bytes(head, "little")
    last, kind, length = block & 1, block >> 1 & 3, block >> 3
    return _BLOCK_HEAD_BYTES + (1 if kind == _RUN else length), bool(last)


def _header(head: bytes) -> tuple[int, bool] | None:
    """Return the bytes of a frame's header and whether a checksum ends it; None for no frame."""
    if not head.startswith(ZSTD_MAGIC) or len(head) == len(ZSTD_MAGIC):
        return None
    # The frame header descriptor of RFC 8878, 3.1.1.1.1.
    descriptor = head[len(ZSTD_MAGIC)]
    is_single = bool(descriptor & 0x20)
    window, dictionary = not is_single, (0, 1, 2, 4)[descriptor & 3]
    content = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    return len(ZSTD_MAGIC) + 1 + window + dictionary + content, bool(descriptor & 4)
