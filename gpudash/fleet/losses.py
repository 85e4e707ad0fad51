"""What was lost in a span of events, and lasting faults that are not events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from gpudash.fleet.events import RETURNED
from gpudash.fleet.summary import HostRow, gpu_of, label_of
from gpudash.model.fleet import Event, FleetHost, HostKey, HostState
from gpudash.model.host_words import HOST_STATES
from gpudash.model.state import HELD, HOT, SLOW, STATES, State, state_of, unreadable_state
from gpudash.model.units import counted

_LOST, _BACK = ("host-down", "gpu-lost"), ("host-up", "gpu-returned")
_STALE: HostState = "stale"
_NO_EVENT: tuple[HostState, ...] = ("ok", "connecting", "powered-down", _STALE)
"""States of a host that are not events."""
_BEGINS = (HOT, SLOW, HELD)
_BEGIN = frozenset(state.id for state in _BEGINS)
_BROKEN = frozenset(state.id for state in STATES if state.is_broken)
_LATE_SECONDS = 600.0
"""By how much the first instant of a past may be later than requested."""
_Span = tuple[datetime, datetime]
_Place = tuple[HostKey, str | None]
"""A host and the key of a GPU there, None for the host itself."""


class Losses(NamedTuple):
    """Hosts and GPUs lost in a span, with the hours as far as known, and XID errors."""

    hosts: int
    host_gpu_hours: float
    """The hours that hosts were down, multiplied by their GPUs."""
    gpus: int
    gpu_hours: float
    """The hours that GPUs were lost while their host was up."""
    xids: int
    is_whole: bool
    """Whether all start times and all GPU counts of hosts are known."""

    @property
    def texts(self) -> Sequence[str]:
        """The losses and the errors, in a few words each."""
        parts = (
            (counted(self.hosts, "host"), self.hosts, self.host_gpu_hours),
            (counted(self.gpus, "GPU"), self.gpus, self.gpu_hours),
        )
        named = [(words, hours) for words, count, hours in parts if count]
        sums = ", ".join(f"{words} {_hours(hours)}" for words, hours in named)
        if len(named) == 1:
            sums = named[0][0]
        total = self.host_gpu_hours + self.gpu_hours
        least = "" if self.is_whole else "at least "
        # No sum includes the hours of stale and drained hosts, or those after an XID.
        hours = f"{least}{_hours(total)} GPU-h down or lost: "
        lost = f"{hours}{sums}" if total else f"{sums} down or lost"
        return [
            *([lost] if named else ()),
            *([f"{self.xids:,} XID"] if self.xids else ()),
        ]


def _hours(value: float) -> str:
    return f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def no_data_before(since: datetime, first: datetime | None) -> str | None:
    """Return from when on a span has data, None if from its beginning.

    `first` is the first instant of a past, None if unknown.
    """
    if first is None or (first - since).total_seconds() <= _LATE_SECONDS:
        return None
    return f"no data before {first.astimezone():%Y-%m-%d %H:%M}"


def losses(
    events: Iterable[Event],
    hosts: Iterable[FleetHost],
    since: datetime | None,
    until: datetime,
    passing: Iterable[Event] | None = None,
) -> Losses:
    """Return the losses from one instant to another; `since` is None if the beginning is unknown.

    Losses from before count from the beginning, if they ended in the span or if `hosts`, as they
    were in it or later, still have them. If a filter selects events, only these are counted. XID
    errors that make a GPU unusable lose no hours: nothing shows when it can be used again.
    """
    known = {host.key: host for host in hosts}
    spans, xids = _spans(events, since, until, None if passing is None else {*passing})
    is_whole = passing is not None or _add_lasting(spans, known.values(), since, until)
    off = {key for key, host in known.items() if host.state == "powered-down"}
    down = {key: each for (key, gpu), each in spans.items() if gpu is None and key not in off}
    gpus = {place: each for place, each in spans.items() if place[1] is not None}
    counts = {key: _gpu_count(known.get(key)) for key in down}
    return Losses(
        hosts=len(down),
        host_gpu_hours=sum(_total(each) * (counts[key] or 0) for key, each in down.items()),
        gpus=len(gpus),
        gpu_hours=sum(
            _total(each) - _both(each, down.get(key, ())) for (key, _), each in gpus.items()
        ),
        xids=xids,
        is_whole=is_whole and None not in counts.values(),
    )


def _spans(
    events: Iterable[Event], since: datetime | None, until: datetime, passing: Set[Event] | None
) -> tuple[dict[_Place, list[_Span]], int]:
    """Return when matching hosts and GPUs were lost, and the number of XID errors."""
    found: dict[_Place, list[_Span]] = {}
    began: dict[_Place, tuple[datetime | None, bool]] = {}
    known = [each for each in events if each.kind in (*_LOST, *_BACK, "xid")]
    for each in sorted(known, key=lambda event: event.at):
        place: _Place = (each.cluster, each.host or ""), each.gpu_key
        passes = passing is None or each in passing
        if each.kind in _LOST:
            began.setdefault(place, (each.at, passes))
        elif each.kind in _BACK:
            was_lost = since is not None and each.what in RETURNED and place not in found
            start, counts = began.pop(place, (since if was_lost else None, passes))
            if start is not None and counts:
                found.setdefault(place, []).append((start, each.at))
    for place, (start, counts) in began.items():
        if start is not None and counts:
            found.setdefault(place, []).append((start, max(start, until)))
    xids = sum(each.kind == "xid" and (passing is None or each in passing) for each in known)
    return found, xids


def _add_lasting(
    spans: dict[_Place, list[_Span]],
    hosts: Iterable[FleetHost],
    since: datetime | None,
    until: datetime,
) -> bool:
    """Add losses that began too long ago for an event; return whether all are known."""
    is_whole = True
    for host in hosts:
        lost: list[tuple[str | None, float | None]] = []
        if host.state not in _NO_EVENT:
            lost.append((None, host.age_seconds))
        elif host.state == "ok":
            gone = [each for each in host.devices if _is_gone(unreadable_state(each))]
            lost += [(each.key, each.age_seconds) for each in gone]
        for gpu, seconds in lost:
            if (host.key, gpu) in spans:
                continue
            if seconds is None or since is None:
                is_whole = False
                continue
            start = max(since, until - timedelta(seconds=seconds))
            spans[host.key, gpu] = [(start, until)]
    return is_whole


def _is_gone(state: State | None) -> bool:
    return state is not None and state.is_problem


def _gpu_count(host: FleetHost | None) -> int | None:
    """Return how many GPUs a host has, None if unknown."""
    if host is None:
        return None
    return host.expected_devices or sum(each.parent_uuid is None for each in host.devices) or None


def _total(spans: Iterable[_Span]) -> float:
    return sum((end - start).total_seconds() for start, end in spans) / 3600


def _both(first: Iterable[_Span], second: Sequence[_Span]) -> float:
    """Return for how many hours two places were lost at the same time."""
    shared = ((max(a[0], b[0]), min(a[1], b[1])) for a in first for b in second)
    return _total(each for each in shared if each[0] < each[1])


# States at an instant


def broken(rows: Iterable[HostRow]) -> tuple[str, ...]:
    """Return silent hosts and then lost or unusable GPUs, as they are counted.

    Acknowledged ones are left out.
    """
    hosts: list[str] = []
    gpus: list[str] = []
    for row in rows:
        if not row.is_known:
            hosts += [row.title] if row.level != "unknown" else ()
            continue
        # Nearly all hosts have none.
        gpus += [
            f"{row.title}:{label_of(row.host, each)}"
            for each in (row.judged if _BROKEN.intersection(row.counts) else ())
            if each.status in _BROKEN
        ]
        gpus += [f"{row.title} -{row.missing}"] if row.missing else ()
    return (*hosts, *gpus)


def begun(
    rows: Iterable[HostRow], events: Iterable[Event], since: datetime, at: datetime
) -> Mapping[str, int]:
    """Return by word the states that began after `since` and hold at `at`, without an event.

    These are hosts that send nothing new, and GPUs that are hot, slow or held idle, if it is known
    since when.
    """
    heated = {
        (each.cluster, each.host, each.gpu_key) for each in events if each.kind == "throttled"
    }
    seconds = (at - since).total_seconds()
    stale = 0
    found: dict[State, set[object]] = {state: set() for state in _BEGINS}
    for row in rows:
        host = row.host
        if host.state == _STALE and row.level != "unknown":
            stale += (host.age_seconds or seconds) < seconds
        for each in row.judged if row.is_known and _BEGIN.intersection(row.counts) else ():
            state = state_of(each.status)
            if state not in found or (*host.key, each.key) in heated:
                continue
            slow = host.slow_seconds.get(each.uuid or "")
            lasted = each.idle_seconds if state is HELD else slow
            if lasted is not None and lasted < seconds:
                found[state].add((host.key, gpu_of(each)))
    counts = Counter({HOST_STATES[_STALE].word: stale})
    counts.update({state.word: len(gpus) for state, gpus in found.items()})
    return +counts
