"""Zstandard by the library that every Linux has: the one door to libzstd.

A recording is a row of independent frames, each of whole lines. Every line is flushed, so that
what was written before a kill can be read, and a frame ends before it grows large, so that any
line is found without unpacking what stands before it.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

from gpudash.model.errors import GpudashError, WireError

_LIBRARY = "libzstd.so.1"
_LEVEL, _LEVEL_PARAMETER, _CHECKSUM_PARAMETER = 3, 100, 201
_FLUSH, _END = 1, 2
_OUT_BYTES = 1 << 17
_MAGIC = b"\x28\xb5\x2f\xfd"


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("place", ctypes.c_size_t))


class Compressor:
    """Packs lines into one frame after the other."""

    def __init__(self) -> None:
        self._library = _library()
        self._context = ctypes.c_void_p(self._library.ZSTD_createCCtx())
        self._set(_LEVEL_PARAMETER, _LEVEL)
        self._set(_CHECKSUM_PARAMETER, 1)

    def pack(self, data: bytes) -> bytes:
        """Return all that is needed to read `data` again, which the open frame goes on with."""
        return self._run(data, _FLUSH)

    def end(self) -> bytes:
        """Return what ends the open frame."""
        return self._run(b"", _END)

    def close(self) -> None:
        """Free its memory."""
        self._library.ZSTD_freeCCtx(self._context)
        self._context = ctypes.c_void_p()

    def _set(self, parameter: int, value: int) -> None:
        _checked(self._library.ZSTD_CCtx_setParameter(self._context, parameter, value))

    def _run(self, data: bytes, operation: int) -> bytes:
        source = _source(data)
        room = ctypes.create_string_buffer(_OUT_BYTES)
        packed = []
        left = 1
        while left or source.place < source.size:
            target = _Buffer(ctypes.cast(room, ctypes.c_void_p), _OUT_BYTES, 0)
            left = _checked(
                self._library.ZSTD_compressStream2(
                    self._context, ctypes.byref(target), ctypes.byref(source), operation
                )
            )
            packed.append(ctypes.string_at(room, target.place))
        return b"".join(packed)


def unpack(frame: bytes, limit: int) -> bytes:
    """Return what a frame holds; of one that is cut off, as much as was flushed whole.

    Raises WireError for more than `limit` bytes. What is damaged ends where the damage begins.
    """
    library = _library()
    context = ctypes.c_void_p(library.ZSTD_createDCtx())
    source = _source(frame)
    room = ctypes.create_string_buffer(_OUT_BYTES)
    found, size, full = [], 0, False
    try:
        while source.place < source.size or full:
            target = _Buffer(ctypes.cast(room, ctypes.c_void_p), _OUT_BYTES, 0)
            left = library.ZSTD_decompressStream(
                context, ctypes.byref(target), ctypes.byref(source)
            )
            found.append(ctypes.string_at(room, target.place))
            size += target.place
            full = target.place == _OUT_BYTES
            if size > limit:
                raise WireError("a zstd frame too large for gpudash record: unpack it with unzstd")
            if library.ZSTD_isError(left) or not (left or full):
                break
    finally:
        library.ZSTD_freeDCtx(context)
    return b"".join(found)


def frame_size(head: bytes) -> tuple[int, bool] | None:
    """Return the bytes of a frame's header and whether a checksum ends it; None for no frame."""
    if len(head) < 6 or head[:4] != _MAGIC:
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
