"""What happened on many hosts: of which time a screen asks for it, and what it has of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from gpudash.fleet.event_log import MAX_KEPT, identity
from gpudash.model.fleet import Event, FleetSnapshot

_SPANS = (("1 hour", 3600.0), ("1 day", 86400.0), ("7 days", 7 * 86400.0))
"""How long a time it is asked for; the first only around an instant in the past."""
_AROUND = timedelta(minutes=5)
"""How far from an instant what happened around it may be."""


class Happened:
    """The events of a span up to now, or around an instant in the past."""

    def __init__(self) -> None:
        self.events: tuple[Event, ...] = ()
        """As far as they are known, the oldest first."""
        self.has_some = False
        """Whether some have arrived."""
        self.asked_since: datetime | None = None
        """From when on they are asked for, None before they are."""
        self.since: datetime | None = None
        """From when on they are listed: up to now, what was asked for becomes too long."""
        self.until: datetime | None = None
        """To when, None for now."""
        self.is_whole = False
        """Whether all have, as far as a source knows them."""
        self._index = 1

    @property
    def span(self) -> str:
        """How long it is, `1 day`."""
        return _SPANS[self._index][0]

    @property
    def _span(self) -> timedelta:
        return timedelta(seconds=_SPANS[self._index][1])

    @property
    def listed(self) -> Sequence[Event]:
        """The events of that span, as far as they are known, the oldest first."""
        since = self.since
        return self.events if since is None else [each for each in self.events if each.at >= since]

    @property
    def jobs_since(self) -> datetime | None:
        """Since when those of jobs are known, where older ones were too many; None for all."""
        if len(self.events) < MAX_KEPT:
            return None
        return min((each.at for each in self.events if each.is_of_job), default=None)

    def cover(self, then: datetime | None, now: datetime) -> None:
        """Ask for another span if an instant is not well within this one; None is the present."""
        if then is None:
            if self.asked_since is None:
                # There is nothing to drop.
                self.asked_since = now - self._span
            elif self.until is not None:
                self._ask(max(1, self._index), None, now)
        elif not self._covers(then):
            # The first is asked for soonest, and is known most exactly.
            self._ask(0 if self.until is None else self._index, then, now)
        self.pass_time(now)

    def zoom(self, step: int, then: datetime | None, now: datetime) -> None:
        """Ask for a longer (1) or a shorter (-1) span."""
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
        """List no more what is too long ago by now."""
        if self.until is None and self.asked_since is not None:
            self.since = max(self.asked_since, now - self._span)

    def take(self, snapshot: FleetSnapshot) -> None:
        """Take what a snapshot has of it; what was asked for before, and comes late, is not that.

        A sample of before has those that were known then.
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
        """Yield what happened about an instant, None while not all of that is known.

        Of what is known to lie between two instants the middle counts: most of that time is in it.
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
    """Return from when to when it is about an instant."""
    return then - _AROUND, then + _AROUND


def besides(changed: Iterable[Event], around: Iterable[Event], then: datetime) -> Sequence[Event]:
    """Return what has changed since an instant but for what is listed around it already."""
    known = {identity(each) for each in around if each.at > then}
    return [each for each in changed if identity(each) not in known]


def _last(events: tuple[Event, ...]) -> list[datetime]:
    return [each.at for each in events[-1:]]
