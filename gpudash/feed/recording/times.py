"""Times within a recording: `2026-11-21T10:53:41`, `10:53`, `+5m` from its start, `-30s`."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from gpudash.feed.recording.tape import Tape
from gpudash.model import units
from gpudash.model.errors import UsageError
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
