"""A host's history on disk: each sample for an hour, one in ten seconds for a day, one a minute.

All are written at once, to hourly segments, along with numbers per minute, for charts and reports,
and per several minutes, for long charts: expiry removes whole files, and nothing is rewritten. The
order and age of segments are those of writing, so that no change of the clock loses data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from math import ceil, inf
from typing import Protocol

from msgspec.structs import replace

from gpudash.feed.recording.segments import CHARTED_SECONDS, MINUTE_SECONDS, Folder
from gpudash.model import wire
from gpudash.model.errors import OutputError
from gpudash.model.report import Charted, ChartedMinutes, Minute, encode_minute, joined
from gpudash.model.snapshot import Snapshot

_HOURS = {1: 1, 10: 24}
"""How many hours to keep samples this many seconds apart, other than those of a minute."""
_COARSE_SECONDS = 60
_EARLY_SECONDS = 2.5
"""Half of the interval of a server without viewers: samples come a little early or late."""


class Numbers(Protocol):
    """Aggregates samples into minutes."""

    def add(self, snapshot: Snapshot) -> Minute | None:
        """Add a sample; return the minute that it completes."""

    def end(self) -> Minute | None:
        """Return the unfinished minute."""


class KeptHistory:
    """Writes samples to a folder, as its only writer.

    Anything that cannot be written is lost, which is reported once until it can be written again.
    """

    def __init__(
        self,
        path: str,
        keep_seconds: float,
        max_bytes: int,
        report: Callable[[str], object],
        *,
        numbers: Numbers | None = None,
        has_commands: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the folder; raises UsageError if it is unusable.

        `keep_seconds` counts hours with samples, `max_bytes` all segments. Without `has_commands`,
        command lines are omitted; without `numbers`, so are numbers.
        """
        self.path = path
        hours = ceil(keep_seconds / 3600)
        kept = {seconds: min(count, hours) for seconds, count in _HOURS.items()}
        kept[_COARSE_SECONDS] = hours
        self._folder = Folder(path, max_bytes, {**kept, CHARTED_SECONDS: hours})
        self._report, self._minutes = report, list[Minute]()
        """Minutes of the current slot of `CHARTED_SECONDS`."""
        self._is_whole = False
        """Whether this server wrote the slot from its start."""
        self._numbers, self._has_commands, self._clock = numbers, has_commands, clock
        self._due = dict.fromkeys(kept, -inf)
        self._has_failed = False

    def take(self, snapshot: Snapshot, line: bytes) -> None:
        """Keep a sample, whose document is `line`, if one is due; its numbers always."""
        minute = self._numbers.add(snapshot) if self._numbers is not None else None
        charted = minute and self._joined(minute, snapshot.taken_at)
        now = self._clock()
        due = [
            seconds
            for seconds, at in self._due.items()
            if now >= at - min(_EARLY_SECONDS, seconds / 2)
        ]
        if snapshot.brief or not (due or minute):
            return
        for seconds in due:
            is_late = now - self._due[seconds] > seconds
            self._due[seconds] = (now if is_late else self._due[seconds]) + seconds
        try:
            if minute is not None:
                self._keep(minute)
            if charted is not None:
                self._keep(charted, CHARTED_SECONDS)
            if due:
                line = line if self._has_commands else _bare(snapshot)
                self._folder.write(line, snapshot.taken_at, due)
            if _COARSE_SECONDS in due:
                self._folder.sync()
        except OutputError as error:
            if not self._has_failed:
                self._report(f"gpudash: history: {error}: samples are lost\n")
            self._has_failed = True
            return
        if self._has_failed:
            self._report("gpudash: history: samples are kept again\n")
        self._has_failed = False

    def _keep(self, minute: Charted, seconds: int = MINUTE_SECONDS) -> None:
        """Write numbers; raises OutputError."""
        line = encode_minute(minute)
        self._folder.write(line, minute.taken_at, (seconds,), has_numbers=True)

    def _joined(self, minute: Minute, now: datetime) -> ChartedMinutes | None:
        """Return the chart values of a slot that this minute completes, if it is whole."""
        self._minutes.append(minute)
        if _slot(now) == _slot(minute.taken_at):
            return None
        minutes, self._minutes = self._minutes, []
        is_whole, self._is_whole = self._is_whole, True
        return joined(minutes) if is_whole else None

    def close(self) -> None:
        """Finish writing, and release the folder."""
        with suppress(OutputError):
            if self._numbers is not None and (minute := self._numbers.end()) is not None:
                self._keep(minute)
        with suppress(OutputError):
            self._folder.close()


def _slot(at: datetime) -> int:
    return int(at.timestamp() // CHARTED_SECONDS)


def _bare(snapshot: Snapshot) -> bytes:
    """Return a document without command lines."""
    processes = tuple(replace(each, command_line=None) for each in snapshot.processes)
    holders = tuple(replace(each, command_line=None) for each in snapshot.holders)
    return wire.encode(replace(snapshot, processes=processes, holders=holders))
