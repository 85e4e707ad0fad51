"""Parsing of instants, for --at and for the key that goes to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from gpudash.model import units
from gpudash.model.errors import UsageError
from gpudash.model.text import clean

FORMS = (
    "write 10:53, yesterday, monday 18:00, 11-21 10:53, 2026-11-21T10:53:41, +5m from the start or "
    "-30s from the end"
)
_WEEKDAYS = "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
_YEARS = 9
"""Years to try back: there may be eight from one 29 February to the next."""
_GAP, _GAP_INTERVALS, GAP_COUNTED = timedelta(minutes=1), 3, 3
"""A sample is too old after this and this many times the shortest of this many last intervals."""


class Span(NamedTuple):
    """The time range of samples that can be shown."""

    first: datetime | None
    """None if it is unknown how far the past reaches."""
    last: datetime

    def has(self, moment: datetime) -> bool:
        """Whether it contains an instant, as far as known."""
        # The full second of the first or last sample means that sample.
        first = moment if self.first is None else self.first.replace(microsecond=0)
        return first <= moment <= self.last

    @property
    def outside(self) -> str:
        """The message for an instant outside the range."""
        return f"is outside of what is there: {self}"

    @property
    def missing(self) -> str:
        """The message for an instant in it, if it has samples only at its ends."""
        return f"no samples from {self}"

    def __str__(self) -> str:
        end = self.last.astimezone()
        if self.first is None:
            return f"up to {end:%F %T}"
        start = self.first.astimezone()
        return f"{start:%F %T} to {end:{'%T' if end.date() == start.date() else '%F %T'}}"


def is_gap(moment: datetime, near: Sequence[datetime]) -> bool:
    """Whether a sample is too old for an instant; `near` are its time and earlier ones."""
    steps = [later - earlier for later, earlier in pairwise(near[: GAP_COUNTED + 1])]
    shortest = max(min(steps, default=timedelta()), timedelta())
    return moment - near[0] > _GAP + _GAP_INTERVALS * shortest


def parse_instant(text: str, span: Span) -> datetime:
    """Return the instant in a span that a text means, in local time.

    Without a day, a year or a zone, the last match counts. Raises UsageError for a text that is no
    time, or one outside the span.
    """
    text = text.strip()
    moment = _parsed(text, span)
    if moment is None:
        raise UsageError(f"{text!r} is not a time: {FORMS}")
    if not span.has(moment):
        raise UsageError(f"{clean(text)} {span.outside}")
    return moment


def parse_window(since: str, until: str | None, known: Span) -> tuple[datetime, datetime]:
    """Return the start and end: `since` is a duration before the end, or an instant.

    Without `until`, it ends with the known span. Raises UsageError.
    """
    end = known.last if until is None else parse_instant(until, known)
    back = units.parse_span(since)
    try:
        start = (
            parse_instant(since, Span(None, end))
            if back is None
            else end - timedelta(seconds=back.value)
        )
    except OverflowError:
        raise UsageError(f"--since {since!r} is too far back: {FORMS}") from None
    if start >= end:
        raise UsageError(f"--since {since}: that is not before the end, {end:%F %T}")
    return start, end


def _parsed(text: str, span: Span) -> datetime | None:
    with suppress(OverflowError, ValueError, OSError):
        if text.casefold() == "now":
            return span.last.astimezone()
        if text[:1] == "+" and span.first is None:
            raise UsageError(f"{text!r}: it is not known when the samples begin")
        start = {"+": span.first, "-": span.last}.get(text[:1])
        if start is not None:
            away = units.parse_span(text[1:])
            if away is None:
                return None
            distance = timedelta(seconds=away.value)
            return (start + distance if text[0] == "+" else start - distance).astimezone()
        found = [moment for each in _meanings(text, span.last) for moment in _dated(each)]
        return next((each for each in found if each <= span.last), found[-1] if found else None)
    return None


def _meanings(text: str, last: datetime) -> Iterator[str]:
    """Yield a time completed by each possible day or year, the latest first, or unchanged."""
    today = last.astimezone().date()
    if len(text) == 4 and text.isdecimal() and not 0 <= today.year - int(text) < _YEARS:
        # Four digits that are not a recent year are a time.
        text = f"{text[:2]}:{text[2:]}"
    named: dict[str, tuple[int, ...]] = {"today": (0,), "yesterday": (1,)}
    for number, day in enumerate(_WEEKDAYS):
        days = (today.weekday() - number) % 7
        named[day] = named[day[:3]] = days, days + 7
    name, _, clock = text.casefold().partition(" ")
    ago = named.get(name, ())
    if ":" in text[:3]:
        clock, ago = text, (0, 1)
    if ago:
        clock = clock.strip() or "0:00"
        clock = clock.zfill(5 if clock.count(":") == 1 else 8)
        if clock.replace(":", "").isdecimal():
            yield from (f"{today - timedelta(days=days)} {clock}" for days in ago)
    elif text[:2].isdecimal() and text[2:3] == "-":
        yield from (f"{today.year - years}-{text}" for years in range(_YEARS))
    else:
        # Python 3.10 does not accept the Z.
        yield text[:-1] + "+00:00" if text.endswith("Z") else text


def _dated(text: str) -> list[datetime]:
    """Return the instants of a date with or without time and zone, the latest first; else none.

    An hour that clocks show twice gives two instants.
    """
    with suppress(ValueError, OverflowError, OSError):
        date = datetime.fromisoformat(text)
        return sorted((date.replace(fold=fold).astimezone() for fold in (0, 1)), reverse=True)
    return []
