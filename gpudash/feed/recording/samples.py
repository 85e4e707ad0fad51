"""What comes of a tape around a sample: the moments before it, and those that follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from gpudash.feed.recording.tape import Sample, Tape
from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot

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
