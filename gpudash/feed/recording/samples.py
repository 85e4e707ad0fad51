"""Samples of a recording around an instant, and the texts that name an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from itertools import islice
from typing import Any, NamedTuple

from gpudash.feed.recording.reader import Recording, Sample
from gpudash.model import units
from gpudash.model.errors import UsageError, WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.wire import Document

_FORMS = "write 10:53, 2026-11-21T10:53:41, +5m from the start or -30s from the end"
_PAST_SECONDS, _PAST_SAMPLES, _PAST_BYTES = 600.0, 600, 8 << 20
"""How much of the past is read with a sample: what its charts show, in a tenth of a second."""
_MAX_AT_ONCE = 50
_MAX_UNREADABLE = 16


def parse_instant(text: str, recording: Recording) -> datetime:
    """Return the instant that a text names in a recording.

    A time of day is the first such one in it, in local time. Raises UsageError for a text that
    is not a time, or one outside the recording.
    """
    start, end = recording.first.taken_at, recording.last.taken_at
    if text[:1] in ("+", "-"):
        span = units.parse_span(text[1:])
        if span is None:
            raise UsageError(f"{text!r} is not a time: {_FORMS}")
        if span.value > recording.seconds:
            raise UsageError(_outside(text, recording))
        away = timedelta(seconds=span.value)
        return start + away if text[0] == "+" else end - away
    moment = _clock(text, start) or _date(text)
    if moment is None:
        raise UsageError(f"{text!r} is not a time: {_FORMS}")
    # The second in which it began or ended names that sample.
    if not start.replace(microsecond=0) <= moment <= end:
        raise UsageError(_outside(text, recording))
    return moment


def _outside(text: str, recording: Recording) -> str:
    """Return the message for a time outside a recording."""
    return f"{clean(text)} is not in {recording.path}: it was recorded {_extent(recording)}"


def _extent(recording: Recording) -> str:
    """Return when a recording was made, in local time."""
    start, end = recording.first.taken_at.astimezone(), recording.last.taken_at.astimezone()
    until = f"{end:%T}" if end.date() == start.date() else f"{end:%F %T}"
    return f"{start:%F %T} to {until}"


def _clock(text: str, start: datetime) -> datetime | None:
    """Return the first such time of day in a recording that starts at `start`."""
    if ":" not in text or "-" in text or "T" in text:
        return None
    try:
        wanted = time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))
    except ValueError:
        return None
    if wanted.tzinfo is not None:
        return None
    local = start.astimezone()
    day = local.date() if wanted >= local.time().replace(microsecond=0) else _next_day(local)
    return datetime.combine(day, wanted).astimezone()


def _next_day(local: datetime) -> datetime:
    return local + timedelta(days=1)


def _date(text: str) -> datetime | None:
    try:
        # Python 3.10 does not know the Z.
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
        return moment.astimezone()
    except (ValueError, OverflowError, OSError):
        return None


class DecodedSample(NamedTuple):
    """A sample of a recording and its document."""

    sample: Sample
    snapshot: Any
    """A Snapshot, or in a recording of many hosts a FleetSnapshot."""


def with_past(recording: Recording, sample: Sample) -> list[DecodedSample]:
    """Return a sample, or the next one that can be read, behind those of its recent past.

    Raises WireError if there is none that can be read.
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


def elapsed(first: Document, last: Document) -> float:
    """Return the seconds between two samples by the host's own clock, which is never set.

    By the wall clock where uptime is unknown, or after a reboot; 0 if it was set back.
    """
    if isinstance(first, Snapshot) and isinstance(last, Snapshot):
        start, end = first.host.uptime_seconds, last.host.uptime_seconds
        if start is not None and end is not None and end >= start:
            return end - start
    return max(0.0, (last.taken_at - first.taken_at).total_seconds())


def _decoded(samples: Iterable[Sample]) -> Iterator[DecodedSample]:
    """Yield the samples that can be read; raises WireError after many in a row that cannot."""
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
    """A source with one sample: the latest at an instant of a recording."""

    def __init__(self, sample: Sample, note: str) -> None:
        self._sample = sample
        self.note = note

    def sample(self) -> Snapshot:
        """Return it; raises WireError for a line that is not a snapshot."""
        return self._sample.snapshot()

    def close(self) -> None:
        """Do nothing: there is no driver to release."""


def open_recorded(path: str, at: str | None) -> RecordedSource:
    """Return the last sample of a file, or the one at a time in it.

    Raises UsageError for a time that is not in it, WireError where nothing can be replayed.
    """
    recording = Recording(path)
    sample = sample_at(recording, at)
    return RecordedSource(sample, sample.note or recording.note)


def sample_at(recording: Recording, at: str | None) -> Sample:
    """Return the last sample, or the one at a time in it; raises UsageError for another time."""
    return recording.last if at is None else recording.at(parse_instant(at, recording))
