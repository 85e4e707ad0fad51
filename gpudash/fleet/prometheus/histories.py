"""GPUs and hosts at each instant of a past, reconstructed from when their series came and went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

from gpudash.fleet.prometheus.dialects import Person, held_by
from gpudash.fleet.prometheus.known import KnownDevice, KnownHost
from gpudash.model.device import device_label
from gpudash.model.fleet import FleetDevice, FleetHost, HostState
from gpudash.model.state import HOT, UNKNOWN
from gpudash.model.text import SafeText
from gpudash.model.units import counted

_CHUNK_POINTS = 250_000
"""Devices times steps that the server evaluates in one query."""
_MAX_STEPS = 10_000
"""Of one query: Prometheus refuses more than 11,000."""

Span = tuple[float, float]
"""Start and end, in seconds since 1970."""


class Spacing(NamedTuple):
    """The steps at which a past is sampled."""

    start: float
    end: float
    step: int
    window: int
    """How far back each step looks: shorter absences do not show."""
    within: int
    """How long before a step an event may have happened: a step plus the time between scrapes."""

    def chunks(self, devices: int) -> Iterator[Span]:
        """Yield the first and the last step of each query."""
        steps = max(1, min(_MAX_STEPS, _CHUNK_POINTS // max(1, devices)))
        at = self.start + self.step
        while at <= self.end:
            last = min(at + (steps - 1) * self.step, self.end)
            yield at, last
            at = last + self.step


class GpuPast:
    """What is known of a GPU over time; its MIG instances may come and go while it stays."""

    def __init__(self, device: KnownDevice) -> None:
        self.device = device
        self.open: dict[frozenset[tuple[str, str]], tuple[float, Person | None]] = {}
        """Its present series: since when, and who has it by their labels."""
        self.indices: list[tuple[float, int]] = []
        """Its indices, each with the time from which it had it."""
        self.spans: list[tuple[float, float, Person | None]] = []
        """Its ended series: from when to when, and who had it by their labels."""
        self.xids: list[tuple[float, int, str]] = []
        """The times and codes of its errors, and the metric of each."""
        self.hot: list[float] = []
        """The steps at which it was throttled."""


class GpuHistory:
    """The states of a GPU at each instant."""

    def __init__(self, gpu: GpuPast, spacing: Spacing, gaps: Sequence[Span]) -> None:
        self._device = gpu.device
        self._indices = sorted(gpu.indices)
        end, window, within = spacing.end + 1, spacing.window, spacing.within
        spans = [*gpu.spans, *((at, end, person) for at, person in gpu.open.values())]
        # A series whose labels change ends, but its GPU and its job go on.
        seen = joined([each[:2] for each in spans], window)
        self.there = _through(joined(seen, window, gaps), gaps, within)
        people: dict[Person, list[Span]] = {}
        for *span, person in spans:
            if person is not None:
                people.setdefault(person, []).append((span[0], span[1]))
        self._people = {
            person: _through(joined(some, window, gaps), gaps, within)
            for person, some in people.items()
        }
        self._hot = joined([(at, at + spacing.step) for at in gpu.hot], spacing.step, gaps)
        self._xids: list[tuple[float, int | None]] = []
        last = ""
        for at, code, metric in sorted({*gpu.xids}):
            before, last = last, metric
            if self._xids and self._xids[-1][1] == code:
                since = max((start for start, _ in seen if start <= at), default=0.0)
                if at - since <= window or metric != before:
                    # It came back with its earlier error, or another exporter reports the same.
                    continue
                self._xids.append((at - 1, None))
            self._xids.append((at, code))
        jobs = chain.from_iterable(self._people.values())
        instants = {at for span in (*self.there, *jobs, *self._hot) for at in span}
        instants |= {at for at, _ in self._xids}
        self.instants = {at for at in instants if spacing.start <= at <= spacing.end}

    def seen(self, at: float) -> float:
        """Return when it was last seen at or before an instant; infinity if never."""
        return max((min(end, at) for start, end in self.there if start <= at), default=inf)

    def at(self, at: float) -> tuple[FleetDevice, ...]:
        """Return its state at an instant and a part for each further job; empty before it began."""
        # A GPU without a utilization or the like shows only by its errors.
        if self.there and at < self.there[0][0]:
            return ()
        device = self._device
        earlier = [index for since, index in self._indices if since <= at]
        index = earlier[-1] if earlier else device.index
        label = device_label(index)
        fields: dict[str, Any] = {"index": index, "label": label, "uuid": device.uuid}
        if self.there and not _has(self.there, at):
            return (FleetDevice(**fields, state="lost"),)
        people = [person for person, spans in self._people.items() if _has(spans, at)]
        job, users = held_by(people)
        jobs = {*(held_by([each]) for each in people)} if len(people) > 1 else ()
        fields_of_part = {**fields, "uuid": None, "parent_uuid": device.uuid or label}
        last, xid = max((each for each in self._xids if each[0] <= at), default=(0.0, None))
        gpu = FleetDevice(
            **fields,
            status=(HOT if _has(self._hot, at) else UNKNOWN).id,
            xid=xid,
            xid_seconds=None if xid is None else at - last,
            job=job,
            users=users,
        )
        parts = (
            FleetDevice(**fields_of_part, job=own, users=its) for own, its in jobs if own != job
        )
        return (gpu, *parts)


def joined(spans: Iterable[Span], distance: float, gaps: Sequence[Span] = ()) -> list[Span]:
    """Return spans in order, joining those that are close to each other or to one of the gaps.

    Nothing is known in a gap: what was there before and after it is assumed to have stayed.
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        before = found[-1][1] if found else -inf
        if start - before <= distance or any(
            first - distance <= before and start <= last + distance for first, last in gaps
        ):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _through(spans: Iterable[Span], gaps: Sequence[Span], within: float) -> list[Span]:
    """Return spans, extending those that end where a gap begins to the end of the gap."""
    return [
        (start, next((last for first, last in gaps if first - within <= end < last), end))
        for start, end in spans
    ]


def host_at(
    host: KnownHost, gpus: Iterable[GpuHistory], at: float, *, answers: bool
) -> FleetHost | None:
    """Return a host as it was at an instant, None before it existed.

    `answers` says whether its exporter responds, with or without GPUs.
    """
    known = [(each.seen(at), now) for each in gpus if (now := each.at(at))]
    if not known:
        return None
    # A host never has more GPUs than indices: those lost for longest were exchanged.
    gpus_then = [now for _, now in sorted(known, key=_lasting)[-len(host.indices) :]]
    gpus_then.sort(key=lambda each: (each[0].index, each[0].state != "ok"))
    found = [*chain.from_iterable(gpus_then)]
    is_up = any(each.state == "ok" for each in found)
    state: HostState = "ok" if is_up else "no-gpus" if answers else "down"
    why = f"it had {counted(len(found), 'GPU')}" if answers else "its series have ended"
    return FleetHost(
        name=host.name,
        cluster=host.cluster,
        group=host.group,
        state=state,
        message=None if is_up else SafeText(why),
        devices=tuple(found),
    )


def _lasting(known: tuple[float, Sequence[FleetDevice]]) -> tuple[bool, float, bool]:
    """Sort GPUs that are gone and have no UUID first, then those not seen for longest."""
    seen, (device, *_) = known
    is_there = device.state == "ok"
    return device.uuid is not None or is_there, seen, is_there


def was_silent(gpus: Sequence[GpuHistory], end: float) -> bool:
    """Whether a host was without any of its GPUs for a time before an end."""
    ends = (span[1] for each in gpus for span in each.there if span[1] <= end)
    return any(not any(_has(each.there, at) for each in gpus) for at in ends)


def _has(spans: Iterable[Span], at: float) -> bool:
    return any(start <= at < end for start, end in spans)
