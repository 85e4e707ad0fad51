"""What a host did, on disk: its samples every ten seconds for a day, every minute for longer.

Both are written at once, to segments of an hour: what has become too old is a file to remove, and
nothing is ever written again. The order and the age of segments are those of their writing,
so that no clock that is set loses what is kept.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from math import ceil, inf

from msgspec.structs import replace

from gpudash.feed.recording.segments import Segment, listed
from gpudash.feed.recording.writer import Writer
from gpudash.model import wire
from gpudash.model.errors import OutputError, UsageError
from gpudash.model.snapshot import Snapshot

_FINE_SECONDS, _COARSE_SECONDS = 10, 60
_EARLY_SECONDS = 2.5
"""Half of the interval of a server that nobody watches: samples come a little early or late."""
_FINE_HOURS = 24
_SHARE = 16
"""A segment ends early at this part of the size of all, so that the oldest is never much of it."""
_BLOCK_BYTES = 4096


class History:
    """Writes samples to a folder, in which nobody else does.

    What cannot be written is lost, and is reported once until it can be again.
    """

    def __init__(
        self,
        folder: str,
        keep_seconds: float,
        max_bytes: int,
        report: Callable[[str], object],
        *,
        has_commands: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the folder; raises UsageError where it cannot be used.

        `keep_seconds` counts hours in which something was written, `max_bytes` all segments.
        Without `has_commands` command lines are left out.
        """
        self._folder, self._max_bytes, self._report = folder, max_bytes, report
        self._hours = ceil(keep_seconds / 3600)
        self._has_commands, self._clock = has_commands, clock
        try:
            self._descriptor = _owned(folder)
            self._sizes = {
                each: os.lstat(os.path.join(folder, each.name)).st_size for each in listed(folder)
            }
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None
        self._number = max((each.number for each in self._sizes), default=0)
        self._start: datetime | None = None
        self._taken_at = datetime.min.replace(tzinfo=timezone.utc)
        self._due = dict.fromkeys((_FINE_SECONDS, _COARSE_SECONDS), -inf)
        self._writers: dict[Segment, Writer] = {}
        self._has_failed = False

    def take(self, snapshot: Snapshot, line: bytes) -> None:
        """Keep a sample, of which `line` is the document, if one is due."""
        now = self._clock()
        due = [seconds for seconds, at in self._due.items() if now >= at - _EARLY_SECONDS]
        if snapshot.brief or not due:
            return
        for seconds in due:
            is_late = now - self._due[seconds] > seconds
            self._due[seconds] = (now if is_late else self._due[seconds]) + seconds
        try:
            self._write(due, snapshot.taken_at, line if self._has_commands else _bare(snapshot))
        except (OSError, OutputError, UsageError) as error:
            with suppress(OutputError):
                self._end_segment()
            if not self._has_failed:
                self._report(f"gpudash: history: {error}: samples are lost\n")
            self._has_failed = True
            return
        if self._has_failed:
            self._report("gpudash: history: samples are kept again\n")
        self._has_failed = False

    def close(self) -> None:
        """Finish the segments, which are on the disk then, and leave the folder to others."""
        with suppress(OutputError):
            self._end_segment()
        os.close(self._descriptor)

    def _write(self, due: list[int], taken_at: datetime, line: bytes) -> None:
        """Add a line where it is due; raises OSError, OutputError, UsageError."""
        is_set_back = taken_at < self._taken_at
        if self._start is not None and (is_set_back or _hour(taken_at) != _hour(self._start)):
            self._end_segment()
        self._taken_at = taken_at
        self._make_room(len(due) * (_on_disk(len(line) + len(line) // 128) + _BLOCK_BYTES))
        if self._start is None:
            self._begin_segment(taken_at.replace(microsecond=0))
        for seconds in due:
            self._add(seconds, line)
        if _COARSE_SECONDS in due:
            for writer in self._writers.values():
                writer.sync()
        if any(writer.bytes > self._max_bytes // _SHARE for writer in self._writers.values()):
            self._end_segment()

    def _add(self, seconds: int, line: bytes) -> None:
        assert self._start is not None
        segment = Segment(self._number, self._start, seconds)
        writer = self._writers.get(segment)
        if writer is None:
            writer = self._writers[segment] = Writer(self._path(segment))
            os.fsync(self._descriptor)
        writer.write(line)
        self._sizes[segment] = writer.bytes

    def _begin_segment(self, start: datetime) -> None:
        """Begin one, and remove those that are too old then."""
        self._number, self._start = self._number + 1, start
        hours = {_hour(start)}
        for each in sorted(self._sizes, reverse=True):
            hours.add(_hour(each.start))
            limit = self._hours if each.seconds >= _COARSE_SECONDS else _FINE_HOURS
            if len(hours) > 1 + min(limit, self._hours):
                self._remove(each)

    def _end_segment(self) -> None:
        """Finish what is written; raises OutputError."""
        self._start = None
        with ExitStack() as stack:
            for writer in self._writers.values():
                stack.callback(writer.close)
            self._writers = {}

    def _make_room(self, count: int) -> None:
        """Remove the oldest until so many bytes may be added; raises OSError, OutputError."""
        if count > self._max_bytes // 2:
            raise OutputError(f"{self._folder}: a sample is too large for --max-size")
        room = self._max_bytes - count - sum(map(_on_disk, self._sizes.values()))
        for each in sorted(self._sizes):
            if room >= 0:
                break
            if each in self._writers:
                self._end_segment()
            room += _on_disk(self._sizes[each])
            self._remove(each)

    def _remove(self, segment: Segment) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._path(segment))
        del self._sizes[segment]

    def _path(self, segment: Segment) -> str:
        return os.path.join(self._folder, segment.name)


def _owned(folder: str) -> int:
    """Return a folder, made if it is not there, locked for this process.

    Raises OSError, UsageError where others may write there, or one does.
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
        raise UsageError(f"{folder}: another gpudash serve writes there") from None
    except (OSError, UsageError):
        os.close(descriptor)
        raise
    return descriptor


def _bare(snapshot: Snapshot) -> bytes:
    """Return a document without command lines."""
    processes = tuple(replace(each, command_line=None) for each in snapshot.processes)
    holders = tuple(replace(each, command_line=None) for each in snapshot.holders)
    return wire.encode(replace(snapshot, processes=processes, holders=holders))


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def _on_disk(count: int) -> int:
    """Return what a file of so many bytes takes."""
    return -(-count // _BLOCK_BYTES) * _BLOCK_BYTES
