"""A recording: samples in the order of the file, found by the time at which they were taken."""

from __future__ import annotations

import os
import re
import stat
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Annotated, NamedTuple, Protocol, TypeVar

import msgspec

from gpudash.feed.collector import FLEET_LINE_LIMIT, FLEET_START
from gpudash.feed.instants import Span
from gpudash.model import SCHEMA, fleet, wire
from gpudash.model.errors import UsageError, WireError
from gpudash.model.fields import Index
from gpudash.model.snapshot import Snapshot

_PLAIN_BYTES = 1 << 20
_MAX_KEPT_CHUNKS = 4
_LINE = re.compile(rb"[^\n]+")
_MAX_UNREADABLE_LINES = 64
"""How many in a row may be no samples: a crash leaves one torn line."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""How a compressed file begins, whatever its name."""

_OF_MANY = "a recording of many hosts: for gpudash replay, --once and --json"
_D = TypeVar("_D")
_HINT = "not a recording: make one with gpudash record"


class Chunks(Protocol):
    """The lines of a file in pieces small enough to be read at once."""

    count: int
    max_empty: int
    """How many in a row may hold no sample."""
    is_damaged: bool = False
    """Whether lines of what was read so far are lost to damage."""

    def read(self, number: int) -> bytes:
        """Return the lines of a chunk."""
        ...


class PlainChunks(Chunks):
    """A file of lines in pieces of a megabyte; its descriptor is closed with it."""

    def __init__(self, descriptor: int, chunk_bytes: int = _PLAIN_BYTES) -> None:
        weakref.finalize(self, os.close, descriptor)
        self._file = os.fdopen(descriptor, "rb", closefd=False)
        self._bytes = chunk_bytes
        self._size = os.fstat(descriptor).st_size
        self.count = -(-self._size // chunk_bytes)
        self.max_empty = FLEET_LINE_LIMIT // chunk_bytes + 1

    def read(self, number: int) -> bytes:
        """Return the lines that begin in a piece; none where one longer than it goes on."""
        file, start = self._file, number * self._bytes
        end = min(start + self._bytes, self._size)
        file.seek(max(start - 1, 0))
        if start:
            # The byte before the piece shows whether a line begins with it.
            file.readline(self._bytes + 1)
        data = file.read(max(end - file.tell(), 0))
        if data and not data.endswith(b"\n"):
            data += file.readline(min(FLEET_LINE_LIMIT, self._size - end))
        return data


def open_chunks(path: str) -> Chunks:
    """Open a recording, whatever its name; raises UsageError where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise UsageError(f"{path}: not a regular file: expected one that gpudash record wrote")
        if os.pread(descriptor, len(ZSTD_MAGIC), 0) != ZSTD_MAGIC:
            return PlainChunks(descriptor)
        from gpudash.feed.recording.zstd import ZstdChunks

        return ZstdChunks(descriptor)
    except OSError as error:
        raise UsageError(f"{path or repr(path)}: {error.strerror}") from None


class _Stamp(msgspec.Struct):
    """The values of a line by which it is found, and its version: of one host or of many."""

    taken_at: Annotated[datetime, msgspec.Meta(tz=True)]
    schema: Index = 1
    fleet: Index = 1


class Sample(NamedTuple):
    """A line of a recording: its chunk and row, when it was taken, and the line itself."""

    chunk: int
    row: int
    taken_at: datetime
    schema: int
    line: bytes

    @property
    def note(self) -> str:
        """A warning that its schema is newer than ours, else empty."""
        known = fleet.FLEET_SCHEMA if self.is_fleet else SCHEMA
        if self.schema <= known:
            return ""
        return (
            f"recorded by a newer gpudash (schema {self.schema}, this one reads {known}): "
            "unknown values are left out; update gpudash"
        )

    @property
    def is_fleet(self) -> bool:
        """Whether it is of many hosts."""
        return self.line.startswith(FLEET_START)

    def snapshot(self) -> Snapshot:
        """Return the decoded line of one host; raises WireError if it is none."""
        if self.is_fleet:
            raise WireError(_OF_MANY)
        return self._decoded(wire.decode)

    def fleet(self) -> fleet.FleetSnapshot:
        """Return the decoded line of many hosts; raises WireError if it is none."""
        return self._decoded(fleet.decode)

    def _decoded(self, decode: Callable[[bytes], _D]) -> _D:
        try:
            return decode(self.line)
        except WireError as error:
            raise WireError(f"{self.note or self.taken_at.isoformat()}: {error}") from None


class Recording:
    """The samples of a file; raises WireError, UsageError where nothing can be replayed.

    Samples are found by the wall clock. Where it was set back during the recording, an instant
    is found in one of the two passes.
    """

    def __init__(self, path: str, chunks: Callable[[str], Chunks] = open_chunks) -> None:
        self.path = path
        self._chunks = chunks(path)
        self._kept: dict[int, list[Sample]] = {}
        self._empty_chunks = 0
        self._is_fleet: bool | None = None
        """Whether the first sample is of many hosts: those of the other kind are left out."""
        self._is_mixed = False
        first = next(self._forward(0), None)
        if first is None:
            raise WireError(f"{path}: {self._why_empty()}")
        self.first = first
        self.last = next(self._backward(self._chunks.count - 1))

    @property
    def note(self) -> str:
        """A warning that samples of what was read so far are left out, else empty."""
        if self._chunks.is_damaged:
            return f"{self.path} is damaged: samples behind the damage are missing"
        if self._is_mixed:
            others = "one host" if self._is_fleet else "many hosts"
            return f"{self.path} has samples of {others}, too, which are left out"
        return ""

    @property
    def span(self) -> Span:
        """From the first sample to the last."""
        return Span(self.first.taken_at, self.last.taken_at)

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
        if len(self._kept) > _MAX_KEPT_CHUNKS:
            del self._kept[next(iter(self._kept))]
        return found

    def _samples(self, number: int) -> list[Sample]:
        """Return the samples of a chunk without its other lines, such as a torn one.

        Raises WireError after many such lines or chunks in a row, which are no recording.
        """
        found: list[Sample] = []
        unreadable = 0
        try:
            data = self._chunks.read(number)
        except WireError as error:
            raise WireError(f"{self.path}: {error}") from None
        except OSError as error:
            raise WireError(f"{self.path}: {error.strerror}") from None
        for row, match in enumerate(_LINE.finditer(data)):
            stamp = _stamp(match[0])
            unreadable = 0 if stamp else unreadable + 1
            if unreadable > _MAX_UNREADABLE_LINES:
                raise WireError(f"{self.path}: {unreadable} lines in a row are no samples: {_HINT}")
            if stamp is None:
                continue
            is_fleet = match[0].startswith(FLEET_START)
            if self._is_fleet is None:
                self._is_fleet = is_fleet
            if is_fleet is not self._is_fleet:
                self._is_mixed = True
            else:
                schema = stamp.fleet if is_fleet else stamp.schema
                found.append(Sample(number, row, stamp.taken_at, schema, match[0]))
        self._empty_chunks = 0 if found else self._empty_chunks + 1
        if self._empty_chunks > self._chunks.max_empty:
            raise WireError(f"{self.path}: several MiB in a row hold no sample: {_HINT}")
        return found

    def _why_empty(self) -> str:
        """Return why there is no sample; where a document is refused, with the path in it."""
        if not self._chunks.count:
            return "empty: nothing was recorded"
        line = _LINE.search(self._chunks.read(0))
        if line is not None and line[0].startswith(b"{"):
            try:
                (fleet.decode if line[0].startswith(FLEET_START) else wire.decode)(line[0])
            except WireError as error:
                return str(error)
        return _HINT


def _stamp(line: bytes) -> _Stamp | None:
    try:
        stamp = _decoder().decode(line)
        wire.require_calendar(stamp.taken_at)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return stamp


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[_Stamp]:
    return msgspec.json.Decoder(_Stamp)
