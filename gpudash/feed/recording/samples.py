"""Samples of a recording around an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from gpudash.feed.instants import GAP_COUNTED, Span, is_gap, parse_instant
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.feed.recording.segments import CHARTED_SECONDS
from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Document

_PAST_SECONDS, _PAST_SAMPLES, _PAST_BYTES = 600.0, 600, 8 << 20
"""Limits of the past read with a sample: enough for its charts, and read in a tenth of a second."""
_CHARTED = timedelta(seconds=CHARTED_SECONDS)
_MAX_AT_ONCE = 50
_MAX_UNREADABLE = 16


class DecodedSample(NamedTuple):
    """A sample of a recording with its document."""

    sample: Sample
    snapshot: Any
    """A Snapshot, or in a recording of many hosts a FleetSnapshot."""


def with_past(recording: Recording, sample: Sample) -> list[DecodedSample]:
    """Return a sample, or the next readable one, after those of its recent past.

    Raises WireError if none is readable.
    """
    shown = next(_decoded([sample]), None) or next(_decoded(recording.after(sample)), None)
    if shown is None:
        shown = next(_decoded(recording.before(sample)), None)
    if shown is None:
        sample.fleet() if sample.is_fleet else sample.snapshot()
        raise WireError(f"{recording.path}: no line can be read")
    past = [shown]
    size = len(shown.sample.line)
    for decoded in islice(_decoded(recording.before(shown.sample)), _PAST_SAMPLES):
        size += len(decoded.sample.line)
        away = (shown.sample.taken_at - decoded.sample.taken_at).total_seconds()
        if size > _PAST_BYTES or not 0 <= away <= _PAST_SECONDS:
            break
        past.append(decoded)
    return past[::-1]


def following(recording: Recording, sample: Sample, seconds: float) -> list[DecodedSample]:
    """Return the sample after one, and those within `seconds` of it; none at the end."""
    found: list[DecodedSample] = []
    for decoded in islice(_decoded(recording.after(sample)), _MAX_AT_ONCE):
        if found and elapsed(found[0].snapshot, decoded.snapshot) > seconds:
            break
        found.append(decoded)
    return found


def after(recording: Recording, sample: Sample, count: int) -> list[DecodedSample]:
    """Return the `count` samples after one, fewer at the end."""
    return list(islice(_decoded(recording.after(sample)), count))


def before(recording: Recording, sample: Sample, count: int) -> list[DecodedSample]:
    """Return the sample `count` before one, with its past; the first at the start."""
    found = list(islice(_decoded(recording.before(sample)), count))
    return with_past(recording, found[-1].sample if found else sample)


def gap_at(recording: Recording, moment: datetime, end: datetime | None = None) -> str:
    """Return a message that there are no samples around an instant, empty if there are.

    After the last sample none is missing, unless there are others from `end` on.
    """
    found = recording.at(moment)
    near = [
        found.taken_at,
        *(each.taken_at for each in islice(recording.before(found), GAP_COUNTED)),
    ]
    if not is_gap(moment, near):
        return ""
    until = next((each.taken_at for each in recording.after(found)), end)
    return "" if until is None else Span(found.taken_at, until).missing


def charted_lines(
    recording: Recording, since: datetime, until: datetime, seconds: int
) -> Iterator[bytes]:
    """Yield the numbers between two instants, for points of this many seconds from the first on.

    Lines of several minutes are used if they match the points and are complete.
    """
    minutes, behind = recording.numbers, since
    charted = recording.charted_numbers if seconds % CHARTED_SECONDS == 0 else None
    for each in () if charted is None else charted.between(since, until):
        begins = each.taken_at - (each.taken_at - since) % _CHARTED
        if minutes is not None and begins > behind:
            yield from (each.line for each in minutes.between(behind, begins - datetime.resolution))
        yield each.line
        behind = begins + _CHARTED
    if minutes is not None:
        yield from (each.line for each in minutes.between(behind, until))


def elapsed(first: Document, last: Document) -> float:
    """Return the seconds between two samples by the host's own clock, which is never set.

    If uptime is unknown, or after a reboot, use the wall clock; return 0 if it was set back.
    """
    if isinstance(first, Snapshot) and isinstance(last, Snapshot):
        start, end = first.host.uptime_seconds, last.host.uptime_seconds
        if start is not None and end is not None and end >= start:
            return end - start
    return max(0.0, (last.taken_at - first.taken_at).total_seconds())


def _decoded(samples: Iterable[Sample]) -> Iterator[DecodedSample]:
    """Yield readable samples; raises WireError after many unreadable ones in a row."""
    unreadable = 0
    for sample in samples:
        try:
            snapshot = sample.fleet() if sample.is_fleet else sample.snapshot()
        except WireError:
            unreadable += 1
            if unreadable > _MAX_UNREADABLE:
                raise
            continue
        unreadable = 0
        yield DecodedSample(sample, snapshot)


class RecordedSource:
    """A source with one sample: the last one at an instant of a recording."""

    def __init__(self, sample: Sample, note: str) -> None:
        self._sample = sample
        self.note = note

    def sample(self) -> Snapshot:
        """Return it; raises WireError for any other line."""
        return self._sample.snapshot()

    def close(self) -> None:
        """Do nothing: there is no driver to release."""


def open_recorded(recording: Recording, at: str | None) -> RecordedSource:
    """Return the last sample of a recording, or the one at a given time.

    Raises UsageError for a time outside it.
    """
    sample, gap = sample_at(recording, at)
    notes = gap, sample.note or recording.note
    return RecordedSource(sample, "; ".join(filter(None, notes)))


def sample_at(recording: Recording, at: str | None) -> tuple[Sample, str]:
    """Return the last sample, or the one at a given time, and a message if none is near that.

    Raises UsageError for a time outside the recording.
    """
    if at is None:
        return recording.last, ""
    moment = parse_instant(at, recording.span)
    return recording.at(moment), gap_at(recording, moment)
