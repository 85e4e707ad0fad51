"""Zstandard by the library that every Linux has: the one door to libzstd.

A recording is a row of independent frames, each of whole lines. Every line is flushed, so that
what was written before a kill can be read, and a frame ends before it grows large, so that any
line is found without unpacking what stands before it.
"""

from __future__ import annotations

import ctypes
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Annotated, NamedTuple, Protocol

import msgspec

from gpudash.feed.collector import LINE_LIMIT
from gpudash.model import wire
from gpudash.model.errors import GpudashError, UsageError, WireError
from gpudash.model.snapshot import SCHEMA, Snapshot

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
        data = unpack(frame, FRAME_BYTES + 2 * LINE_LIMIT)
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
        header = frame_size(os.pread(self._descriptor, _HEAD_BYTES, place))
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

    return Packed(descriptor)


_KEPT_CHUNKS = 4


class _Stamp(msgspec.Struct):
    """What is read of a line to find it, without the rest."""

    taken_at: Annotated[datetime, msgspec.Meta(tz=True)]
    schema: int = 1


class Sample(NamedTuple):
    """A line of a recording: where it stands, when it was taken, and the line itself."""

    chunk: int
    row: int
    taken_at: datetime
    schema: int
    line: bytes

    @property
    def note(self) -> str:
        """What to say of one whose schema is not known yet, empty for the others."""
        if self.schema <= SCHEMA:
            return ""
        return (
            f"recorded by a newer gpudash (schema {self.schema}, this one reads {SCHEMA}): what "
            "it cannot know is left out; update it"
        )

    def snapshot(self) -> Snapshot:
        """Return what it says; raises WireError if that is no snapshot."""
        try:
            return wire.decode(self.line)
        except WireError as error:
            raise WireError(f"{self.note or self.taken_at.isoformat()}: {error}") from None


class Tape:
    """The samples of a file; raises WireError, UsageError where nothing can be replayed.

    Samples are in the order of the file. They are found by the wall clock, and a clock that was
    set back while it was recorded is found in one of the two passes.
    """

    def __init__(self, path: str, chunks: Callable[[str], Chunks] = open_chunks) -> None:
        self.path = path
        self._chunks = chunks(path)
        self._kept: dict[int, list[Sample]] = {}
        first = next(self._forward(0), None)
        if first is None:
            raise WireError(f"{path}: {self._why_nothing()}")
        self.first = first
        self.last = next(self._backward(self._chunks.count - 1))

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return (self.last.taken_at - self.first.taken_at).total_seconds()

    def at(self, moment: datetime) -> Sample:
        """Return the last sample not after an instant, the first one if all are."""
        low, high = 0, self._chunks.count - 1
        found = self.first
        while low <= high:
            middle = (low + high) // 2
            sample = next(self._forward(middle), None)
            if sample is None or sample.taken_at > moment:
                high = middle - 1
            else:
                found, low = sample, max(middle, sample.chunk) + 1
        for sample in self._read(found.chunk):
            if sample.taken_at <= moment:
                found = sample
        return found

    def after(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples behind one, in order."""
        for each in self._forward(sample.chunk):
            if (each.chunk, each.row) > (sample.chunk, sample.row):
                yield each

    def before(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples before one, the nearest first."""
        for each in self._backward(sample.chunk):
            if (each.chunk, each.row) < (sample.chunk, sample.row):
                yield each

    def _forward(self, chunk: int) -> Iterator[Sample]:
        for number in range(chunk, self._chunks.count):
            yield from self._read(number)

    def _backward(self, chunk: int) -> Iterator[Sample]:
        for number in range(chunk, -1, -1):
            yield from reversed(self._read(number))

    def _read(self, number: int) -> list[Sample]:
        """Return the samples of a chunk, of which those read last are kept."""
        found = self._kept.pop(number, None)
        self._kept[number] = found = self._samples(number) if found is None else found
        if len(self._kept) > _KEPT_CHUNKS:
            del self._kept[next(iter(self._kept))]
        return found

    def _samples(self, number: int) -> list[Sample]:
        """Return the samples of a chunk; a line that is none, such as a torn one, is left out."""
        found = []
        for row, line in enumerate(self._chunks.read(number)):
            stamp = _stamp(line)
            if stamp is not None:
                found.append(Sample(number, row, stamp.taken_at, stamp.schema, line))
        return found

    def _why_nothing(self) -> str:
        if not self._chunks.count:
            return "empty: nothing was recorded"
        return "no recording of gpudash: make one with gpudash record"


def _stamp(line: bytes) -> _Stamp | None:
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[_Stamp]:
    return msgspec.json.Decoder(_Stamp)
