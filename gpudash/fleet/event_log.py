"""The events of what is watched beside those that sources know of before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from gpudash.fleet.events import Changes
from gpudash.model.fleet import Event, FleetSnapshot
from gpudash.model.process import Lease

MAX_KEPT = 1 << 14
"""Of more events those of jobs go first, the oldest first: a key that filters reads all of them."""
_SAME_SECONDS = 600.0
"""How far apart two sources, or one and what is watched, may see the same event."""


class Log:
    """What happened while snapshots were watched, and before where a source knows that."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        """From when on it is asked for, None for not at all."""
        self.until: datetime | None = None
        """To when, None for now."""
        self._changes = Changes()
        self._at = datetime.min.replace(tzinfo=timezone.utc)
        self._watched: deque[Event] = deque(maxlen=MAX_KEPT)

    @property
    def watched(self) -> tuple[Event, ...]:
        """What happened while it was watched."""
        return tuple(self._watched)

    def watch(self, snapshot: FleetSnapshot, leases: Sequence[Lease] = ()) -> None:
        """Take the next snapshot; after one of before, what comes is compared to that."""
        if snapshot.taken_at < self._at:
            self._changes = Changes()
            known = [event for event in self._watched if event.at <= snapshot.taken_at]
            self._watched = deque(known, MAX_KEPT)
        self._at = snapshot.taken_at
        self._watched.extend(self._changes.add(snapshot, leases))

    def shown(self, known: Iterable[Event] | None) -> tuple[Event, ...] | None:
        """Return what happened in that time, the oldest first; `known` is that of the sources.

        What both have seen is one event. None where it is not asked for, or nothing is there yet.
        """
        since = self.since
        if since is None or (known is None and not self._watched):
            return None
        found, until = together([*(known or ())], self._watched), self.until
        found = [each for each in found if each.at >= since and (not until or each.at <= until)]
        if len(found) > MAX_KEPT:
            found.sort(key=lambda each: (not each.is_of_job, each.at))
        return tuple(sorted(found[-MAX_KEPT:], key=lambda each: each.at))


def together(known: Sequence[Event], more: Sequence[Event]) -> list[Event]:
    """Return events, and of others those that are not among them, seen a little apart."""
    moments: dict[object, list[datetime]] = {}
    # Far more may be known: none of those before the first of the others is the same.
    first = min((each.at for each in more), default=None)
    for each in known:
        if first is not None and (first - each.at).total_seconds() < _SAME_SECONDS:
            moments.setdefault(identity(each), []).append(each.at)
    return [
        *known,
        *(
            each
            for each in more
            if not any(
                abs((each.at - at).total_seconds()) < _SAME_SECONDS
                for at in moments.get(identity(each), ())
            )
        ),
    ]


def with_later(known: Sequence[Event], asked_again: Iterable[Event]) -> tuple[Event, ...]:
    """Return what is known of a span, with what was found when its end was asked for again.

    What may have happened at the same instant is one event.
    """
    found = [*known]
    seen: dict[object, list[Event]] = {}
    for each in known:
        seen.setdefault(identity(each), []).append(each)
    for event in asked_again:
        same = seen.get(identity(event), ())
        if not any(_began(event) <= each.at and _began(each) <= event.at for each in same):
            found.append(event)
    return tuple(sorted(found, key=lambda each: each.at))


def _began(event: Event) -> datetime:
    return event.at - timedelta(seconds=event.within_seconds or 0)


def identity(event: Event) -> object:
    """Return what is equal for one event that was seen twice, a little apart."""
    job = event.job if event.is_of_job else None
    return event.kind, event.cluster, event.host, event.gpu_key, job, event.xid
