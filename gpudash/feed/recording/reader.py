"""A recording: samples in the order of the file, found by the time they were taken."""

from __future__ import annotations

import os
import stat
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import cached_property, lru_cache
from io import BytesIO
from itertools import chain
from typing import Annotated, NamedTuple, Protocol, TypeVar

import msgspec

from gpudash.feed.collector import FLEET_LINE_LIMIT, FLEET_START
from gpudash.feed.instants import Span
from gpudash.feed.recording import segments
from gpudash.feed.recording.segments import Segments
from gpudash.model import SCHEMA, fleet, wire
from gpudash.model.errors import UsageError, WireError
from gpudash.model.fields import Index
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import grouped

_PLAIN_BYTES = 1 << 20
_MAX_KEPT_CHUNKS = 4
_COARSE_SECONDS = 10, 60
"""Minimum interval of samples for a long span, and of large samples."""
_LARGE_BYTES = 1 << 18
_MAX_OPEN_FILES = 4
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
"""The start of a file whose name does not show it."""
_MAX_UNREADABLE_LINES = 64
"""Unreadable lines allowed in a row: a crash leaves one torn line."""

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of a compressed file, whatever its name."""

_OF_MANY = "a recording of many hosts: for gpudash replay, --once and --json"
_D = TypeVar("_D")
_HINT = "not a recording: make one with gpudash record"


class Chunks(Protocol):
    """The lines of a file in pieces small enough to be read at once."""

    count: int
    max_empty: int
    """Chunks without a sample allowed in a row."""
    is_damaged: bool = False
    """Whether damage has lost lines so far."""
    is_cut: bool = False
    """Whether it ends within a line, like a file that is being written."""

    def read(self, number: int) -> bytes:
        """Return the lines of a chunk."""

    def first_line(self, number: int) -> bytes:
        """Return its first line, which may be cheaper; empty if that cannot be read alone."""
        return b""


class PlainChunks(Chunks):
    """A file of lines in pieces of a megabyte; owns its descriptor."""

    def __init__(self, descriptor: int, chunk_bytes: int = _PLAIN_BYTES) -> None:
        weakref.finalize(self, os.close, descriptor)
        self._file = os.fdopen(descriptor, "rb", closefd=False)
        self._bytes = chunk_bytes
        self._size = os.fstat(descriptor).st_size
        self.count = -(-self._size // chunk_bytes)
        self.max_empty = FLEET_LINE_LIMIT // chunk_bytes + 1

    def read(self, number: int) -> bytes:
        """Return the lines that begin in a piece; none if a longer line spans it."""
        file, start = self._file, number * self._bytes
        end = min(start + self._bytes, self._size)
        file.seek(max(start - 1, 0))
        if start:
            # The byte before the piece shows whether a line begins at its start.
            file.readline(self._bytes + 1)
        data = file.read(max(end - file.tell(), 0))
        if data and not data.endswith(b"\n"):
            data += file.readline(min(FLEET_LINE_LIMIT, self._size - end))
        return data


class _Gone(Chunks):
    """A file that no longer exists."""

    count = max_empty = 0

    def read(self, number: int) -> bytes:
        """Return nothing."""
        return b""


def open_chunks(path: str) -> Chunks:
    """Open a recording, whatever its name; raises UsageError if the file does not exist."""
    try:
        return _chunks(os.open(path, segments.READ), path)
    except OSError as error:
        raise UsageError(f"{path or repr(path)}: {error.strerror}") from None


def _chunks(descriptor: int, path: str) -> Chunks:
    """Return the content of a descriptor, which it owns then; raises OSError, UsageError."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path}: not a regular file: expected one that gpudash record wrote")
    if os.pread(descriptor, len(ZSTD_MAGIC), 0) != ZSTD_MAGIC:
        return PlainChunks(descriptor)
    from gpudash.feed.recording.zstd import ZstdChunks

    return ZstdChunks(descriptor)


class _Stamp(msgspec.Struct):
    """The fields of a line that locate it, and its version: of one host or of many."""

    taken_at: Annotated[datetime, msgspec.Meta(tz=True)]
    schema: Index = 1
    fleet: Index = 1


class Sample(NamedTuple):
    """A line of a recording: its file, chunk and row, its time, and the line itself."""

    file: int
    chunk: int
    row: int
    taken_at: datetime
    schema: int
    line: bytes

    @property
    def position(self) -> tuple[int, int, int]:
        """Its position among the others."""
        return self.file, self.chunk, self.row

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
        """Return the decoded snapshot of one host; raises WireError for any other line."""
        if self.is_fleet:
            raise WireError(_OF_MANY)
        return self._decoded(wire.decode)

    def fleet(self) -> fleet.FleetSnapshot:
        """Return the decoded snapshot of many hosts; raises WireError for any other line."""
        return self._decoded(fleet.decode)

    def _decoded(self, decode: Callable[[bytes], _D]) -> _D:
        try:
            return decode(self.line)
        except WireError as error:
            raise WireError(f"{self.note or self.taken_at.isoformat()}: {error}") from None


class Recording:
    """The samples of a file, or of segments: of a folder by its path, or of a service.

    Raises WireError, UsageError if nothing can be replayed. Samples are found by the wall clock: if
    it was set back during the recording, an instant is found in one of the two passes. Unreadable
    segments are skipped.
    """

    def __init__(
        self,
        source: str | Segments,
        chunks: Callable[[str], Chunks] = open_chunks,
        *,
        of_numbers: bool = False,
        seconds: int = 0,
    ) -> None:
        """Skip segments with samples closer together than `seconds`.

        With `of_numbers`, samples are the lines of numbers of this many seconds.
        """
        if isinstance(source, str) and os.path.isdir(source):
            source = segments.LocalSegments(source)
        self._open_chunks, self._segments = chunks, None
        self._starts: Sequence[datetime] = [_NEVER]
        if isinstance(source, str):
            self.path, self._files = source, [[source]]
        else:
            self.path, self._segments = source.path, source
            self._starts, self._files = _files_of(source, of_numbers, seconds)
        self._by_start = sorted(range(len(self._files)), key=lambda file: self._starts[file])
        self._open: dict[int, Chunks] = {}
        self._kept: dict[tuple[int, int], list[Sample]] = {}
        self._empty_chunks = 0
        self._is_fleet: bool | None = None
        """Whether the first sample is of many hosts: samples of the other kind are skipped."""
        self._is_mixed = False
        self._damaged = ""
        first = next(self._forward(0), None)
        if first is None:
            raise WireError(f"{self.path}: {self._why_empty()}")
        self.first = first
        self.last = next(self._backward(len(self._files) - 1))

    @property
    def note(self) -> str:
        """A warning that samples have been skipped so far, else empty."""
        if self._damaged:
            return f"{self._damaged} is damaged: samples behind the damage are missing"
        if self._is_mixed:
            others = "one host" if self._is_fleet else "many hosts"
            return f"{self.path} has samples of {others}, too, which are left out"
        return ""

    @property
    def span(self) -> Span:
        """The time from the first sample to the last."""
        return Span(self.first.taken_at, self.last.taken_at)

    def at(self, moment: datetime) -> Sample:
        """Return the last sample at or before an instant, else the first."""
        count = bisect_right([self._starts[file] for file in self._by_start], moment)
        for file in reversed(self._by_start[:count]):
            found = self._found(file, moment)
            if found is not None:
                return found
        return self.first

    @cached_property
    def numbers(self) -> Recording | None:
        """The numbers per minute kept beside the samples, None if there are none.

        Each line is a `Minute`.
        """
        return self._numbers(segments.MINUTE_SECONDS)

    @cached_property
    def charted_numbers(self) -> Recording | None:
        """The numbers per `CHARTED_SECONDS`, only for charts; there may be gaps."""
        return self._numbers(segments.CHARTED_SECONDS)

    def _numbers(self, seconds: int) -> Recording | None:
        if self._segments is None:
            return None
        try:
            return Recording(self._segments, of_numbers=True, seconds=seconds)
        except (UsageError, WireError):
            return None

    def between(self, since: datetime, until: datetime) -> Iterator[Sample]:
        """Yield the samples from one instant to another, both included."""
        first = self.at(since)
        for each in chain((first,), self.after(first)):
            if each.taken_at > until:
                return
            if each.taken_at >= since:
                yield each

    def after(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples after this one, in order."""
        for each in self._forward(sample.file, sample.chunk):
            if each.position > sample.position:
                yield each

    def before(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples before this one, the nearest first."""
        for each in self._backward(sample.file, sample.chunk):
            if each.position < sample.position:
                yield each

    def _found(self, file: int, moment: datetime) -> Sample | None:
        """Return the last sample of a file at or before an instant, None for none."""
        chunk: int | None = None
        low, high = 0, self._chunks(file).count - 1
        while low <= high:
            middle = (low + high) // 2
            stamp = _stamp(self._chunks(file).first_line(middle))
            sample = None if stamp else next(self._forward_in(file, middle), None)
            first = stamp or sample
            if first is None or first.taken_at > moment:
                high = middle - 1
            else:
                chunk = max(middle, sample.chunk if sample else 0)
                low = chunk + 1
        for sample in () if chunk is None else self._backward(file, chunk):
            if sample.file != file:
                break
            if sample.taken_at <= moment:
                return sample
        return None

    def _forward(self, file: int, chunk: int = 0) -> Iterator[Sample]:
        yield from self._forward_in(file, chunk)
        for each in range(file + 1, len(self._files)):
            yield from self._forward_in(each, 0)

    def _forward_in(self, file: int, chunk: int) -> Iterator[Sample]:
        for number in range(chunk, self._chunks(file).count):
            yield from self._read(file, number)

    def _backward(self, file: int, chunk: int | None = None) -> Iterator[Sample]:
        for each in range(file, -1, -1):
            last = self._chunks(each).count - 1 if chunk is None else chunk
            for number in range(last, -1, -1):
                yield from reversed(self._read(each, number))
            chunk = None

    def _chunks(self, file: int) -> Chunks:
        """Return the chunks of a file, kept open if read recently; none if it is gone."""
        found = self._open.pop(file, None)
        self._open[file] = found = self._opened(file) if found is None else found
        if len(self._open) > _MAX_OPEN_FILES:
            del self._open[next(iter(self._open))]
        return found

    def _opened(self, file: int) -> Chunks:
        if self._segments is None:
            return self._open_chunks(self.path)
        for name in self._files[file]:
            try:
                found = _chunks(self._segments.open(name), name)
            except FileNotFoundError:
                continue
            except (OSError, UsageError):
                self._damaged = name
                continue
            # A power cut may leave an empty file or one of zeros; segments are compressed.
            if not isinstance(found, PlainChunks):
                return found
            if found.count:
                self._damaged = name
        return _Gone()

    def _read(self, file: int, number: int) -> list[Sample]:
        """Return the samples of a chunk; those read last are cached."""
        found = self._kept.pop((file, number), None)
        if found is None:
            try:
                found = self._samples(file, number)
            except WireError:
                if self._segments is None:
                    raise
                self._damaged, found = self._files[file][0], []
            chunks, is_last = self._chunks(file), file == len(self._files) - 1
            if chunks.is_damaged or (chunks.is_cut and not is_last):
                self._damaged = self._files[file][0]
        self._kept[file, number] = found
        if len(self._kept) > _MAX_KEPT_CHUNKS:
            del self._kept[next(iter(self._kept))]
        return found

    def _samples(self, file: int, number: int) -> list[Sample]:
        """Return the samples of a chunk without other lines, such as a torn one.

        Raises WireError after many other lines or chunks in a row: this is not a recording.
        """
        found: list[Sample] = []
        unreadable = 0
        try:
            data = self._chunks(file).read(number)
        except WireError as error:
            raise WireError(f"{self.path}: {error}") from None
        except OSError as error:
            if self._segments is not None and isinstance(error, FileNotFoundError):
                return []
            raise WireError(f"{self.path}: {error.strerror}") from None
        lines = (line.rstrip(b"\n") for line in BytesIO(data))
        for row, line in enumerate(filter(None, lines)):
            stamp = _stamp(line)
            unreadable = 0 if stamp else unreadable + 1
            if unreadable > _MAX_UNREADABLE_LINES:
                raise WireError(f"{self.path}: {unreadable} lines in a row are no samples: {_HINT}")
            if stamp is None:
                continue
            is_fleet = line.startswith(FLEET_START)
            if self._is_fleet is None:
                self._is_fleet = is_fleet
            if is_fleet is not self._is_fleet:
                self._is_mixed = True
            else:
                schema = stamp.fleet if is_fleet else stamp.schema
                found.append(Sample(file, number, row, stamp.taken_at, schema, line))
        self._empty_chunks = 0 if found else self._empty_chunks + 1
        if self._empty_chunks > self._chunks(file).max_empty:
            raise WireError(f"{self.path}: several MiB in a row hold no sample: {_HINT}")
        return found

    def _why_empty(self) -> str:
        """Return why there is no sample, with the path of a rejected document."""
        if self._segments is not None:
            return "no segment of it can be read"
        if not self._chunks(0).count:
            return "empty: nothing was recorded"
        line = self._chunks(0).read(0).lstrip(b"\n").partition(b"\n")[0]
        if line.startswith(b"{"):
            try:
                (fleet.decode if line.startswith(FLEET_START) else wire.decode)(line)
            except WireError as error:
                return str(error)
        return _HINT


def open_coarse(source: str | Segments) -> Recording:
    """Return a recording, like `Recording`, of segments no finer than long spans need."""
    seconds, others = _COARSE_SECONDS
    recording = Recording(source, seconds=seconds)
    is_large = len(recording.last.line) > _LARGE_BYTES
    return Recording(source, seconds=others) if is_large else recording


def _files_of(
    source: Segments, of_numbers: bool, seconds: int
) -> tuple[Sequence[datetime], list[list[str]]]:
    """Return the starts of segments, and the files of each, the best first.

    Raises UsageError if there are none.
    """
    try:
        listed = segments.listed(source.names())
        same = [each for each in listed if each.has_numbers is of_numbers]
        found = [each for each in same if each.seconds >= seconds] or same
        if of_numbers:
            found = [each for each in same if each.seconds == seconds]
    except OSError as error:
        raise UsageError(f"{source.path}: {error.strerror}") from None
    if not found:
        raise UsageError(f"{source.path}: a folder without a recording in it")
    files = grouped((each[:2], each.name) for each in found)
    return [start for _number, start in files], list(files.values())


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
