"""What GPUs of one or many hosts were used for, from what is kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from statistics import median

from gpudash.analysis.minutes import Minutes
from gpudash.feed.instants import Span
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.model.errors import UsageError, WireError
from gpudash.model.report import Minute, decode_minute


def recorded_span(recording: Recording) -> Span:
    """Return from when to when minutes are known: numbers may reach further back than samples."""
    first, last = recording.span
    if recording.numbers is not None:
        first = min(recording.first.taken_at, recording.numbers.first.taken_at)
    return Span(first, last)


def recorded_minutes(recording: Recording, since: datetime, until: datetime) -> Iterator[Minute]:
    """Yield the minutes of a recording of one host; raises UsageError for one of many.

    What its numbers do not reach back to is added up from its samples.
    """
    if recording.first.is_fleet:
        raise UsageError(f"{recording.path} is a recording of many hosts: a report is of one")
    numbers = recording.numbers
    if numbers is None:
        yield from _added_up(recording.between(since, until))
        return
    began = numbers.first.taken_at - timedelta(minutes=1)
    if since < began:
        yield from _added_up(recording.between(since, min(began, until)))
    for sample in numbers.between(since, until):
        # What can be read of a damaged recording still counts.
        with suppress(WireError):
            yield decode_minute(sample.line)


def _added_up(samples: Iterable[Sample]) -> Iterator[Minute]:
    """Yield the minutes that samples add up to, as far apart as most of a chunk are."""
    sums = Minutes(0.0)
    for _, group in groupby(samples, key=lambda each: each.position[:2]):
        chunk = list(group)
        steps = [(b.taken_at - a.taken_at).total_seconds() for a, b in pairwise(chunk)]
        if steps:
            sums.interval_seconds = median(steps)
        for sample in chunk:
            # What can be read of a damaged recording still counts.
            with suppress(WireError):
                if (minute := sums.add(sample.snapshot())) is not None:
                    yield minute
    if (minute := sums.end()) is not None:
        yield minute
