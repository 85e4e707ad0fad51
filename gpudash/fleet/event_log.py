"""Events seen while watching, joined with those that sources know from before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from gpudash.fleet.events import Changes
from gpudash.model.fleet import Event, FleetSnapshot
from gpudash.model.process import Lease

MAX_KEPT = 1 << 14
"""Beyond this, the oldest events of jobs go first: each key typed in a filter reads all events."""
_SAME_SECONDS = 600.0
"""How far apart two sources, or a source and the watch, may see the same event."""


class Log:
    """The events since the watch began, and earlier ones that a source knows."""

    def __init__(self) -> None:
        self.since: datetime | None = None
        """From when on events are shown, None for not at all."""
        self.until: datetime | None = None
        """Until when, None for now."""
        self._changes = Changes()
        self._at = datetime.min.replace(tzinfo=timezone.utc)
        self._watched: deque[Event] = deque(maxlen=MAX_KEPT)

    @property
    def watched(self) -> tuple[Event, ...]:
        """The events seen while watching."""
        return tuple(self._watched)

    def watch(self, snapshot: FleetSnapshot, leases: Sequence[Lease] = ()) -> None:
        """Add the next snapshot; an older one than the last restarts the comparison."""
        if snapshot.taken_at < self._at:
            self._changes = Changes()
            known = [event for event in self._watched if event.at <= snapshot.taken_at]
            self._watched = deque(known, MAX_KEPT)
        self._at = snapshot.taken_at
        self._watched.extend(self._changes.add(snapshot, leases))

    def shown(self, known: Iterable[Event] | None) -> tuple[Event, ...] | None:
        """Return the events of the shown time, oldest first; `known` are those of the sources.

        An event seen by both counts once. None if nothing is shown, or nothing has arrived yet.
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
    """Return the known events and the others of `more`: two seen a little apart may be one."""
    moments: dict[object, list[datetime]] = {}
    # There may be far more known events: those before the first other one cannot match.
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
    """Return the known events of a span, with those found when its end was read again.

    Equal events that may have happened at the same instant are one.
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
    """Return what two sightings of one event have in common."""
    job = event.job if event.is_of_job else None
    return event.kind, event.cluster, event.host, event.gpu_key, job, event.xid
