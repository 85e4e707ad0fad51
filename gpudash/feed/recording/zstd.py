"""Zstandard by the library that every Linux has: the one door to libzstd.

A recording is a row of independent frames, each of whole lines. Every line is flushed, so that
what was written before a kill can be read, and a frame ends before it grows large, so that any
line is found without decompressing what stands before it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from functools import lru_cache

from gpudash.feed.collector import LINE_LIMIT
from gpudash.feed.recording.reader import ZSTD_MAGIC
from gpudash.model.errors import GpudashError, WireError

_LIBRARY = "libzstd.so.1"
_LEVEL, _LEVEL_PARAMETER, _CHECKSUM_PARAMETER = 3, 100, 201
_FLUSH, _END = 1, 2
_OUT_BYTES = 1 << 17

FRAME_BYTES = 4 << 20
"""The size of a frame before its last line, which may be as long as a line can be."""

_HEAD_BYTES = 18
_CHECKSUM_BYTES = 4
_RUN = 1
"""The type of a block that is one byte, repeated."""


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


class Compressor:
    """Compresses lines into one frame after the other."""

    def __init__(self) -> None:
        self._library = _library()
        self._context = ctypes.c_void_p(self._library.ZSTD_createCCtx())
        self._set(_LEVEL_PARAMETER, _LEVEL)
        self._set(_CHECKSUM_PARAMETER, 1)

    def compress(self, data: bytes) -> bytes:
        """Return all that is needed to read `data` again, which the open frame goes on with."""
        return self._run(data, _FLUSH)

    def end(self) -> bytes:
        """Return what ends the open frame."""
        return self._run(b"", _END)

    def _set(self, parameter: int, value: int) -> None:
        _checked(self._library.ZSTD_CCtx_setParameter(self._context, parameter, value))

    def _run(self, data: bytes, operation: int) -> bytes:
        source = _source(data)
        room = ctypes.create_string_buffer(_OUT_BYTES)
        packed = []
        left = 1
        while left or source.position < source.size:
            target = _Buffer(ctypes.cast(room, ctypes.c_void_p), _OUT_BYTES, 0)
            left = _checked(
                self._library.ZSTD_compressStream2(
                    self._context, ctypes.byref(target), ctypes.byref(source), operation
                )
            )
            packed.append(ctypes.string_at(room, target.position))
        return b"".join(packed)


class ZstdChunks:
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
        data = decompress(frame, FRAME_BYTES + 2 * LINE_LIMIT)
        return data.removesuffix(b"\n").split(b"\n") if data else []

    def _walk(self) -> list[int]:
        """Return where each frame ends; the last one ends with the file at the latest."""
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
        last = 0
        while not last:
            block = int.from_bytes(os.pread(self._descriptor, 3, position), "little")
            last, kind, length = block & 1, block >> 1 & 3, block >> 3
            position += 3 + (1 if kind == _RUN else length)
            if position > self._size:
                return None
        position += _CHECKSUM_BYTES * has_checksum
        return position if position <= self._size else None


def decompress(frame: bytes, limit: int) -> bytes:
    """Return what a frame holds; of one that is cut off, as much as was flushed whole.

    Raises WireError for more than `limit` bytes. What is damaged ends where the damage begins.
    """
    library = _library()
    context = ctypes.c_void_p(library.ZSTD_createDCtx())
    source = _source(frame)
    room = ctypes.create_string_buffer(_OUT_BYTES)
    found, size, full = [], 0, False
    try:
        while source.position < source.size or full:
            target = _Buffer(ctypes.cast(room, ctypes.c_void_p), _OUT_BYTES, 0)
            left = library.ZSTD_decompressStream(
                context, ctypes.byref(target), ctypes.byref(source)
            )
            found.append(ctypes.string_at(room, target.position))
            size += target.position
            full = target.position == _OUT_BYTES
            if size > limit:
                raise WireError("a zstd frame too large for gpudash record: unpack it with unzstd")
            if library.ZSTD_isError(left) or not (left or full):
                break
    finally:
        library.ZSTD_freeDCtx(context)
    return b"".join(found)


def _header(head: bytes) -> tuple[int, bool] | None:
    """Return the bytes of a frame's header and whether a checksum ends it; None for no frame."""
    if len(head) < 6 or head[:4] != ZSTD_MAGIC:
        return None
    described = head[4]
    single = described >> 5 & 1
    dictionary = (0, 1, 2, 4)[described & 3]
    content = (single, 2, 4, 8)[described >> 6]
    return 5 + (not single) + dictionary + content, bool(described >> 2 & 1)


def _source(data: bytes) -> _Buffer:
    """Return bytes, which the caller keeps alive, as what the library reads from."""
    return _Buffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)


def _checked(code: int) -> int:
    library = _library()
    if library.ZSTD_isError(code):
        reason: bytes = library.ZSTD_getErrorName(code)
        raise GpudashError(f"zstd: {reason.decode(errors='replace')}")
    return code


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Load it; raises GpudashError where there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise GpudashError(
            f"{_LIBRARY} was not found: install it (libzstd1), or do without .zst"
        ) from None
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name, result, arguments in (
        ("ZSTD_createCCtx", pointer, ()),
        ("ZSTD_freeCCtx", size, (pointer,)),
        ("ZSTD_CCtx_setParameter", size, (pointer, ctypes.c_int, ctypes.c_int)),
        ("ZSTD_compressStream2", size, (pointer, pointer, pointer, ctypes.c_int)),
        ("ZSTD_createDCtx", pointer, ()),
        ("ZSTD_freeDCtx", size, (pointer,)),
        ("ZSTD_decompressStream", size, (pointer, pointer, pointer)),
        ("ZSTD_isError", ctypes.c_uint, (size,)),
        ("ZSTD_getErrorName", ctypes.c_char_p, (size,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
