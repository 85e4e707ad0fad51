"""A folder of segments: consecutive files of an hour at most, read as one recording.

`00000012-20261126T160000Z.10s.jsonl.zst`: its number in the order of writing, whatever the clock
did; its start; the seconds between its samples. Files that differ only in those seconds cover the
same time in more detail or less. `....60s.numbers.jsonl.zst` has numbers per minute instead of
samples, and `....360s.numbers.jsonl.zst` has chart values per 360 seconds.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from math import inf
from typing import NamedTuple, Protocol

from gpudash.feed.recording.writer import Writer
from gpudash.model.errors import OutputError, UsageError

_NAME = re.compile(
    r"(\d{8,12})-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.(\d{1,4})s(\.numbers)?\.jsonl\.zst",
    re.ASCII,
)
_TIME = "%Y%m%dT%H%M%S"
_SHARE = 16
"""A segment ends early at this part of the total size, so that removing the oldest loses little."""
_BLOCK_BYTES = 4096
MINUTE_SECONDS, CHARTED_SECONDS = 60, 360
"""Seconds per line of numbers: for reports and short charts, and for long charts."""
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""How to open a recording: not even a pipe blocks."""
_EMPTY = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Segment(NamedTuple):
    """A file of the folder; sorted, the first one of a number has the most detail."""

    number: int
    start: datetime
    seconds: int
    has_numbers: bool = False
    """Whether it has numbers instead of samples."""

    @property
    def name(self) -> str:
        """The name of the file."""
        start = self.start.astimezone(timezone.utc)
        kind = f"{self.seconds}s{'.numbers' if self.has_numbers else ''}"
        return f"{self.number:08d}-{start:{_TIME}}Z.{kind}.jsonl.zst"


class Segments(Protocol):
    """Segments to read: in a local folder, or from a service."""

    path: str
    """Its name in messages."""

    def names(self) -> Iterable[str]:
        """Return all names, possibly with other files; raises OSError, GpudashError."""

    def open(self, name: str) -> int:
        """Return a descriptor of a segment; raises OSError, GpudashError if there is none.

        FileNotFoundError means that this segment is gone.
        """


class LocalSegments:
    """The segments in a local folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> list[str]:
        """Return the names in the folder; raises OSError."""
        return os.listdir(self.path)

    def open(self, name: str) -> int:
        """Return a descriptor; raises OSError."""
        return os.open(os.path.join(self.path, name), READ)


def is_name(name: str) -> bool:
    """Whether this is the name of a segment, rather than a path or another file."""
    return _NAME.fullmatch(name) is not None


def listed(names: Iterable[str]) -> list[Segment]:
    """Return the segments among these names, in order."""
    found = []
    for match in filter(None, map(_NAME.fullmatch, names)):
        with suppress(ValueError):
            number, year, month, day, hour, minute, second, seconds = map(int, match.groups()[:-1])
            start = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
            found.append(Segment(number, start, seconds, match[9] is not None))
    return sorted(found)


class Folder:
    """Writes lines to segments in a folder, as its only writer.

    The oldest go if all would exceed `max_bytes`; numbers go after all samples while they take less
    than half of it. `hours` gives, by the seconds between samples, the number of later hours with
    data after which a segment goes.
    """

    def __init__(self, path: str, max_bytes: int, hours: Mapping[int, int] | None = None) -> None:
        """Make the folder if needed; raises UsageError if it is unusable."""
        self.path = path
        self.lines = self.bytes = 0
        """How much was written, whether or not it still exists."""
        self._max_bytes, self._hours = max_bytes, hours or {}
        try:
            self._descriptor = _owned(path)
            self._sizes = {
                each: os.lstat(os.path.join(path, each.name)).st_size
                for each in listed(os.listdir(path))
            }
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        self._number = max((each.number for each in self._sizes), default=0)
        self._start: datetime | None = None
        self._taken_at = datetime.min.replace(tzinfo=timezone.utc)
        self._writers: dict[Segment, Writer] = {}

    def write(
        self,
        line: bytes,
        taken_at: datetime,
        seconds: Collection[int],
        *,
        has_numbers: bool = False,
    ) -> None:
        """Add a line to the segments with this many seconds between samples, whole or not at all.

        With `has_numbers`, it is one of numbers. Raises OutputError, after which new segments
        begin.
        """
        try:
            self._write(line, taken_at, seconds, has_numbers)
        except (OSError, OutputError, UsageError) as error:
            with suppress(OutputError):
                self._end()
            reason = error.strerror if isinstance(error, OSError) else error
            raise OutputError(str(reason)) from None
        self.lines += 1

    def sync(self) -> None:
        """Flush written data to the disk; raises OutputError."""
        for writer in self._writers.values():
            writer.sync()

    def close(self) -> None:
        """Finish the segments, flush them to the disk, and release the folder.

        An empty folder is removed. Raises OutputError.
        """
        try:
            self._end()
        finally:
            with suppress(OSError):
                os.rmdir(self.path)
            os.close(self._descriptor)

    def _write(
        self, line: bytes, taken_at: datetime, seconds: Collection[int], has_numbers: bool
    ) -> None:
        is_set_back = taken_at < self._taken_at
        if self._start is not None and (is_set_back or _hour(taken_at) != _hour(self._start)):
            self._end()
        self._taken_at = taken_at
        self._make_room(len(seconds) * (_on_disk(len(line) + len(line) // 128) + _BLOCK_BYTES))
        start = self._start or self._begin(taken_at.replace(microsecond=0))
        for each in seconds:
            self._add(line, Segment(self._number, start, each, has_numbers))
        if any(writer.bytes > self._max_bytes // _SHARE for writer in self._writers.values()):
            self._end()

    def _add(self, line: bytes, segment: Segment) -> None:
        writer = self._writers.get(segment)
        if writer is None:
            writer = self._writers[segment] = Writer(self._path(segment))
            os.fsync(self._descriptor)
        before = writer.bytes
        writer.write(line)
        self.bytes += writer.bytes - before
        self._sizes[segment] = writer.bytes

    def _begin(self, start: datetime) -> datetime:
        """Begin a segment, and remove those that are too old by then; return its start."""
        self._number, self._start = self._number + 1, start
        hours = {_hour(start)}
        for each in sorted(self._sizes, reverse=True) if self._hours else ():
            hours.add(_hour(each.start))
            if len(hours) - 1 > self._hours.get(each.seconds, inf):
                self._remove(each)
        return start

    def _end(self) -> None:
        """Finish open segments; raises OutputError."""
        self._start = None
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.callback(writer.close)
            self._writers = {}

    def _make_room(self, count: int) -> None:
        """Remove the oldest until this many bytes can be added; raises OSError, OutputError."""
        if count > self._max_bytes // 2:
            raise OutputError(f"{self.path}: a sample is too large for --max-size")
        room = self._max_bytes - count - sum(map(_on_disk, self._sizes.values()))
        numbers = sum(_on_disk(size) for each, size in self._sizes.items() if each.has_numbers)
        are_last = numbers < self._max_bytes // 2
        for each in sorted(self._sizes, key=lambda each: (each.has_numbers and are_last, each)):
            if room >= 0:
                break
            if each in self._writers:
                self._end()
            room += _on_disk(self._sizes[each])
            self._remove(each)

    def _remove(self, segment: Segment) -> None:
        path = self._path(segment)
        # Truncating frees the disk even if a reader has it open; a hard-linked copy is kept.
        with suppress(OSError):
            if os.lstat(path).st_nlink == 1:
                os.close(os.open(path, _EMPTY))
        with suppress(FileNotFoundError):
            os.unlink(path)
        del self._sizes[segment]

    def _path(self, segment: Segment) -> str:
        return os.path.join(self.path, segment.name)


def _owned(folder: str) -> int:
    """Return a folder, made if needed and locked for this process.

    Raises OSError; UsageError if others may write there, or another process does.
    """
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    try:
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
            raise UsageError(f"{folder}: others may write there: expected a folder of your own")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(f"{folder}: another gpudash writes there") from None
    except (OSError, UsageError):
        os.close(descriptor)
        raise
    return descriptor


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _on_disk(count: int) -> int:
    """Return the disk space of a file of this many bytes."""
    return -(-count // _BLOCK_BYTES) * _BLOCK_BYTES
