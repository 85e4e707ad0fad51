"""Recordings in zstd: independent frames, each of whole lines.

Every line is flushed, so that data written before a kill is readable, and frames end before they
grow large, so that any line is found without decompressing everything before it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from errno import ENOENT

from gpudash.feed.collector import FLEET_LINE_LIMIT
from gpudash.model.errors import WireError
from gpudash.system.zstd import zstd

_LEVEL = 3
_WINDOW_LINES, _MIN_WINDOW_LOG, _MAX_WINDOW_LOG = 6, 19, 21
"""Minimum lines in a window, and the powers of 2 of its minimum and maximum size.

Each file being written takes this much memory; more lines save no disk space.
"""
_FRAME_BYTES = 4 << 20
"""The size of a frame before its last line, which may be of any length."""
_MAX_BYTES = _FRAME_BYTES + FLEET_LINE_LIMIT
_READ_BYTES = 1 << 20
_PIECE_BYTES = 256
_END = b"\x01\0\0gpu!"
_FIRST_BYTES = 4096
"""The part of a frame that should contain its first line."""


class Compressor:
    """Compresses lines into one frame after the other."""

    def __init__(self) -> None:
        self._window_log = _MIN_WINDOW_LOG
        self._compressor = zstd.ZstdCompressor(options=_options(self._window_log))
        self._in_frame = 0

    def compress(self, data: bytes) -> bytes:
        """Return everything needed to read `data` again after the earlier output."""
        is_full = self._in_frame and self._in_frame + len(data) > _FRAME_BYTES
        ended = self.end() if is_full else b""
        window_log = min((_WINDOW_LINES * len(data)).bit_length(), _MAX_WINDOW_LOG)
        if not self._in_frame and window_log > self._window_log:
            self._window_log = window_log
            self._compressor = zstd.ZstdCompressor(options=_options(window_log))
        self._in_frame += len(data)
        packed: bytes = self._compressor.compress(data, zstd.ZstdCompressor.FLUSH_BLOCK)
        return ended + packed

    def end(self) -> bytes:
        """Return the end of the open frame; nothing if none is open."""
        if not self._in_frame:
            return b""
        self._in_frame = 0
        ended: bytes = self._compressor.flush(zstd.ZstdCompressor.FLUSH_FRAME)
        return ended


def _options(window_log: int) -> Mapping[int, int]:
    return {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.checksum_flag: 1,
        zstd.CompressionParameter.window_log: window_log,
    }


class ZstdChunks:
    """A file of zstd frames, the last of which may be cut off; owns its descriptor."""

    max_empty = 8
    is_damaged = is_cut = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._ends = _frame_ends(descriptor, os.fstat(descriptor).st_size)
        self.count = len(self._ends)

    def first_line(self, number: int) -> bytes:
        """Return the first line of a frame, empty if it is damaged or incomplete."""
        start, end = self._ends[number - 1] if number else 0, self._ends[number]
        decompressor = zstd.ZstdDecompressor()
        line = b""
        with suppress(zstd.ZstdError):
            while start < end and b"\n" not in line and not decompressor.eof:
                packed = os.pread(self._descriptor, min(_FIRST_BYTES, end - start), start)
                start += len(packed) or _FIRST_BYTES
                line += decompressor.decompress(packed, _FRAME_BYTES)
                if len(line) > _MAX_BYTES:
                    break
        return line.partition(b"\n")[0]

    def read(self, number: int) -> bytes:
        """Return the lines of a frame, up to where it is damaged, or cut off by a crash.

        Raises WireError if it is too large, FileNotFoundError if the file was emptied.
        """
        start = self._ends[number - 1] if number else 0
        frame = os.pread(self._descriptor, min(self._ends[number] - start, _MAX_BYTES), start)
        if not frame:
            raise FileNotFoundError(ENOENT, "it was emptied")
        position = 0
        # A piece with an error in it yields nothing, so it is read again byte by byte.
        for length in (_PIECE_BYTES, 1):
            decompressor = zstd.ZstdDecompressor()
            found = [decompressor.decompress(frame[:position])]
            size = len(found[0])
            with suppress(zstd.ZstdError):
                while position < len(frame) and not decompressor.eof:
                    piece = frame[position : position + length]
                    found.append(decompressor.decompress(piece, _MAX_BYTES + 1 - size))
                    position += length
                    size += len(found[-1])
                    if size > _MAX_BYTES:
                        why = "a zstd frame too large for gpudash record: unpack it with unzstd"
                        raise WireError(why)
                self.is_cut |= not decompressor.eof and _is_within_block(decompressor)
                return b"".join(found)
        self.is_damaged = True
        return b"".join(found)


def _is_within_block(decompressor: zstd.ZstdDecompressor) -> bool:
    """Whether input continues within a block: a line was cut off, as each is flushed."""
    # Otherwise this is an empty last block with a checksum that fails at its last byte.
    for number, byte in enumerate(_END, 1):
        try:
            decompressor.decompress(bytes([byte]))
        except zstd.ZstdError:
            return number < len(_END)
        if decompressor.eof:
            return False
    return True


def _frame_ends(descriptor: int, size: int) -> list[int]:
    """Return the end of each frame; the last is that of the file, if it is cut off or damaged."""
    ends: list[int] = []
    start, length = 0, _READ_BYTES
    while start < size:
        data = memoryview(os.pread(descriptor, length, start))
        used = 0
        with suppress(zstd.ZstdError):
            while used < len(data):
                used += zstd.get_frame_size(data[used:])
                ends.append(start + used)
        if used:
            start, length = start + used, _READ_BYTES
        elif length < _MAX_BYTES and len(data) == length:
            length = min(4 * length, _MAX_BYTES)
        else:
            ends.append(size)
            break
    return ends
