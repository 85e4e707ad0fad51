"""The events of many hosts: the span that a screen requests, and the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from gpudash.fleet.event_log import MAX_KEPT, identity
from gpudash.model.fleet import Event, FleetSnapshot

_SPANS = (("1 hour", 3600.0), ("1 day", 86400.0), ("7 days", 7 * 86400.0))
"""The spans to choose from; the first only around a past instant."""
_AROUND = timedelta(minutes=5)
"""How far the events around an instant may be from it."""


class Happened:
    """The events of a span up to now, or around a past instant."""

    def __init__(self) -> None:
        self.events: tuple[Event, ...] = ()
        """The known events, the oldest first."""
        self.has_some = False
        """Whether any have arrived."""
        self.asked_since: datetime | None = None
        """The start of the requested span, None before it is requested."""
        self.since: datetime | None = None
        """The start of the listed span: as time passes, the requested one becomes too long."""
        self.until: datetime | None = None
        """The end of the span, None for now."""
        self.is_whole = False
        """Whether all events that a source knows have arrived."""
        self._index = 1

    @property
    def span(self) -> str:
        """The length of the span, `1 day`."""
        return _SPANS[self._index][0]

    @property
    def _span(self) -> timedelta:
        return timedelta(seconds=_SPANS[self._index][1])

    @property
    def listed(self) -> Sequence[Event]:
        """The known events of the span, the oldest first."""
        since = self.since
        return self.events if since is None else [each for each in self.events if each.at >= since]

    @property
    def jobs_since(self) -> datetime | None:
        """Since when those of jobs are known, if older ones were too many; None for all."""
        if len(self.events) < MAX_KEPT:
            return None
        return min((each.at for each in self.events if each.is_of_job), default=None)

    def cover(self, then: datetime | None, now: datetime) -> None:
        """Request another span if an instant is not well within this one; None is the present."""
        if then is None:
            if self.asked_since is None:
                # There is nothing to drop.
                self.asked_since = now - self._span
            elif self.until is not None:
                self._ask(max(1, self._index), None, now)
        elif not self._covers(then):
            # The first span is answered soonest and most exactly.
            self._ask(0 if self.until is None else self._index, then, now)
        self.pass_time(now)

    def zoom(self, step: int, then: datetime | None, now: datetime) -> None:
        """Request a longer (1) or a shorter (-1) span."""
        shortest = 1 if then is None else 0
        index = max(shortest, min(self._index + step, len(_SPANS) - 1))
        if index != self._index:
            self._ask(index, then, now)

    def _covers(self, then: datetime) -> bool:
        first, last = span_around(then)
        is_after = self.asked_since is not None and self.asked_since <= first
        return is_after and (self.until is None or last <= self.until)

    def _ask(self, index: int, then: datetime | None, now: datetime) -> None:
        self._index = index
        self.asked_since = now - self._span if then is None else then - self._span / 2
        self.since, self.until = self.asked_since, None if then is None else then + self._span / 2
        self.events, self.has_some, self.is_whole = (), False, False

    def pass_time(self, now: datetime) -> None:
        """Drop events that have become too old from the list."""
        if self.until is None and self.asked_since is not None:
            self.since = max(self.asked_since, now - self._span)

    def take(self, snapshot: FleetSnapshot) -> None:
        """Store a snapshot's events, except for late answers to an earlier request.

        An older sample has those known at its time.
        """
        found, since = snapshot.events, snapshot.events_since
        is_whole = since is not None and since == self.asked_since
        is_part = since is None and self.until is None and not self.is_whole
        if found is not None and (is_whole or is_part):
            if (is_whole and not self.is_whole) or _last(found) >= _last(self.events):
                self.events = found
            self.has_some = True
        self.is_whole = self.is_whole or (is_whole and self.has_some)

    def around(self, then: datetime) -> Iterator[Event] | None:
        """Yield the events around an instant, None while some are unknown.

        An event known to lie between two instants counts at the middle: if that is around the
        instant, so is most of that time.
        """
        if not (self.is_whole and self._covers(then)):
            return None
        first, last = span_around(then)
        return (
            each
            for each in self.events
            if first <= each.at - timedelta(seconds=(each.within_seconds or 0) / 2) <= last
        )


def span_around(then: datetime) -> tuple[datetime, datetime]:
    """Return the span around an instant."""
    return then - _AROUND, then + _AROUND


def besides(changed: Iterable[Event], around: Iterable[Event], then: datetime) -> Sequence[Event]:
    """Return what has changed since an instant, except for events listed around it."""
    known = {identity(each) for each in around if each.at > then}
    return [each for each in changed if identity(each) not in known]


def _last(events: tuple[Event, ...]) -> list[datetime]:
    return [each.at for each in events[-1:]]
