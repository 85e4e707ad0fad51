"""What comes of a tape around a sample: the moments before it, and those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from itertools import islice
from typing import NamedTuple

from gpudash.feed.recording.reader import Sample, Tape
from gpudash.model import units
from gpudash.model.errors import UsageError, WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean

_FORMS = "write 10:53, 2026-11-21T10:53:41, +5m from the start or -30s from the end"


def find(text: str, tape: Tape) -> datetime:
    """Return the instant that a text means in a recording.

    A time of day is the first such one in it, on the clock of here. Raises UsageError for what
    is no time, or lies outside.
    """
    start, end = tape.first.taken_at, tape.last.taken_at
    if text[:1] in ("+", "-"):
        span = units.parse_span(text[1:])
        if span is None:
            raise UsageError(f"{text!r} is no time: {_FORMS}")
        if span.value > tape.seconds:
            raise UsageError(outside(text, tape))
        away = timedelta(seconds=span.value)
        return start + away if text[0] == "+" else end - away
    moment = _clock(text, start) or _date(text)
    if moment is None:
        raise UsageError(f"{text!r} is no time: {_FORMS}")
    # Who names the second in which it began or ended means that sample.
    if not start.replace(microsecond=0) <= moment <= end:
        raise UsageError(outside(text, tape))
    return moment


def outside(text: str, tape: Tape) -> str:
    """Return what to say of a time at which nothing was recorded."""
    return f"{clean(text)} is not in {tape.path}: it was recorded {extent(tape)}"


def extent(tape: Tape) -> str:
    """Return when a recording was made, on the clock of here."""
    start, end = tape.first.taken_at.astimezone(), tape.last.taken_at.astimezone()
    until = f"{end:%T}" if end.date() == start.date() else f"{end:%F %T}"
    return f"{start:%F %T} to {until}"


def _clock(text: str, start: datetime) -> datetime | None:
    """Return the first such time of day in a recording that starts then."""
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


_PAST_SECONDS, _PAST_SAMPLES, _PAST_BYTES = 600.0, 600, 8 << 20
"""How much of the past is read with a sample: what its charts show, in a tenth of a second."""
_MOST_AT_ONCE = 50


class Shot(NamedTuple):
    """A sample of a tape with what it says."""

    sample: Sample
    snapshot: Snapshot


def around(tape: Tape, sample: Sample) -> list[Shot]:
    """Return a sample, or the next one that can be read, behind those of its recent past.

    Raises WireError if there is none that can be read.
    """
    shown = next(_shots([sample]), None) or next(_shots(tape.after(sample)), None)
    if shown is None:
        shown = next(_shots(tape.before(sample)), None)
    if shown is None:
        sample.snapshot()
        raise WireError(f"{tape.path}: no line can be read")
    past = [shown]
    size = len(shown.sample.line)
    for shot in islice(_shots(tape.before(shown.sample)), _PAST_SAMPLES):
        size += len(shot.sample.line)
        away = (shown.sample.taken_at - shot.sample.taken_at).total_seconds()
        if size > _PAST_BYTES or not 0 <= away <= _PAST_SECONDS:
            break
        past.append(shot)
    return past[::-1]


def following(tape: Tape, sample: Sample, seconds: float) -> list[Shot]:
    """Return the sample after one, and those within `seconds` of it; none at the end."""
    found: list[Shot] = []
    for shot in islice(_shots(tape.after(sample)), _MOST_AT_ONCE):
        if found and elapsed(found[0].snapshot, shot.snapshot) > seconds:
            break
        found.append(shot)
    return found


def stepped(tape: Tape, sample: Sample, count: int) -> list[Shot]:
    """Return as many samples after one, fewer at the end."""
    return list(islice(_shots(tape.after(sample)), count))


def back(tape: Tape, sample: Sample, count: int) -> list[Shot]:
    """Return the sample that stands so many before one, with its past; the first at the start."""
    before = list(islice(_shots(tape.before(sample)), count))
    return around(tape, before[-1].sample if before else sample)


def elapsed(before: Snapshot, after: Snapshot) -> float:
    """Return the seconds between two samples by the host's own clock, which no one sets.

    By the other clock where that is not known, or after a reboot; 0 if that was set back.
    """
    first, second = before.host.uptime_seconds, after.host.uptime_seconds
    if first is not None and second is not None and second >= first:
        return second - first
    return max(0.0, (after.taken_at - before.taken_at).total_seconds())


def _shots(samples: Iterable[Sample]) -> Iterator[Shot]:
    """Yield the samples that can be read."""
    for sample in samples:
        try:
            yield Shot(sample, sample.snapshot())
        except WireError:
            continue


class Still:
    """A source that always tells the same: the sample that was the latest at an instant."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self.note = sample.note

    def sample(self) -> Snapshot:
        """Return it; raises WireError for a line that is no snapshot after all."""
        return self._sample.snapshot()

    def close(self) -> None:
        """Do nothing: there is no driver to let go of."""


def open_still(path: str, at: str | None) -> Still:
    """Return the last sample of a file, or the one at a time in it.

    Raises UsageError for a time that is not in it, WireError where nothing can be replayed.
    """
    tape = Tape(path)
    return Still(tape.last if at is None else tape.at(find(at, tape)))
