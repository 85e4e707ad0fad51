"""Several sources of hosts, read in parallel and merged into one snapshot."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from gpudash.fleet.event_log import together
from gpudash.fleet.jobs import known_key
from gpudash.fleet.lasting import Lasting
from gpudash.fleet.merger import Merger, filled
from gpudash.fleet.names import short
from gpudash.fleet.source import Reading, Source
from gpudash.fleet.sources import ANNOTATING, MONITORING
from gpudash.fleet.summary import Fits, findings_about, fitting, host_rows
from gpudash.fleet.users import Price, users_of
from gpudash.model.fleet import (
    ChartRequest,
    Event,
    FleetChart,
    FleetHost,
    FleetJob,
    FleetRequest,
    FleetSnapshot,
    HostKey,
    JobKey,
)
from gpudash.model.text import SafeText

_Chart = TypeVar("_Chart", FleetChart, ChartRequest)


class Collector:
    """Sources as one; its methods are those of `Source`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)

    def descriptors(self) -> list[int]:
        """Return descriptors that become readable when there is something to do."""
        return [each for source in self._sources for each in source.descriptors()]

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do, infinity for never."""
        return min((source.due_in() for source in self._sources), default=inf)

    def advance(self) -> None:
        """Read what has arrived, and start what is due."""
        for source in self._sources:
            source.advance()

    def ask(self, request: FleetRequest) -> None:
        """Pass on a screen's request, with each host by the name that a source has for it."""
        is_one = len(self._sources) == 1
        shown = [dict[HostKey, HostKey]()] if is_one else _merged(self.read()).names
        for source, names in zip(self._sources, shown, strict=True):
            own = {key: name for name, key in names.items()}
            charts = tuple(_about(chart, own) for chart in request.charts)
            source.ask(replace(request, charts=charts))

    def pasts(
        self, since: datetime, until: datetime
    ) -> Iterator[tuple[SafeText, Iterable[FleetSnapshot]]]:
        """Yield the name of each source with its past, as `Source.past` returns it."""
        for source in self._sources:
            yield source.read().report.name, source.past(since, until)

    def is_partial(self) -> bool:
        """Whether a source will soon know more; cheap to ask."""
        return any(source.is_partial() for source in self._sources)

    def date(self, lasting: Lasting) -> bool:
        """Find out since when findings have lasted; return whether some times are still to come."""
        # Every source must get the request, so `any` may not stop early.
        are_open = [source.date(lasting) for source in self._sources]
        return any(are_open)

    def read(self) -> list[Reading]:
        """Return what each source knows now."""
        return [source.read() for source in self._sources]

    def close(self, wait_seconds: float = 0.0) -> None:
        """End all that the sources started; waits at most `wait_seconds` for all of them."""
        deadline = time.monotonic() + wait_seconds
        for source in self._sources:
            source.close(max(0.0, deadline - time.monotonic()))


def has_answer(readings: Iterable[Reading]) -> bool:
    """Whether there is anything to show: a known host, or a source that failed."""
    return any(
        reading.report.state == "failed"
        or any(host.state != "connecting" for host in reading.hosts)
        for reading in readings
        if reading.report.kind not in ANNOTATING
    )


def is_settled(readings: Iterable[Reading]) -> bool:
    """Whether every source and every expected host has answered or failed."""
    return all(
        reading.report.state != "starting"
        and (reading.is_whole or reading.report.state == "failed")
        and all(host.state != "connecting" for host in reading.hosts)
        for reading in readings
    )


def merge(readings: Sequence[Reading]) -> FleetSnapshot:
    """Return one snapshot of all readings, still without status, users and findings."""
    readings = [_by_names(reading, readings) for reading in readings]
    merger = _merged(readings)
    readings = [*map(_renamed, readings, merger.names)]
    for number, reading in enumerate(readings):
        if reading.report.kind in ANNOTATING:
            given = merger.annotate(reading.hosts, reading.jobs)
            readings[number] = replace(reading, jobs=given)
            if _are_all_known(readings):
                merger.add_unseen(number, reading.hosts)
    jobs: dict[tuple[str, JobKey], FleetJob] = {}
    shown: dict[JobKey, SafeText]
    shown = {(job.cluster, job.number): job.id for e in readings for job in e.jobs if job.number}
    for each in (each for reading in readings for each in reading.jobs):
        job = replace(each, id=shown.get(each.key, each.id))
        known = jobs.get((job.kind, job.key))
        jobs[job.kind, job.key] = job if known is None else filled(known, job)
    moments = [reading.at for reading in readings if reading.at is not None]
    return FleetSnapshot(
        taken_at=moments[0] if moments else datetime.now(timezone.utc),
        sources=tuple(reading.report for reading in readings),
        hosts=tuple(sorted(merger.hosts, key=lambda host: (host.cluster or "", host.name))),
        jobs=tuple(jobs.values()),
        charts=tuple(chart for reading in readings for chart in reading.charts),
        events=_together([reading.events for reading in readings], shown),
    )


def _by_names(reading: Reading, readings: Sequence[Reading]) -> Reading:
    """Return a scheduler's reading, with hosts under their own names only if these are shown.

    Otherwise, and for several nodes on one host, users know the names of the nodes.
    """
    if reading.report.kind not in ANNOTATING or not any(each.node_name for each in reading.hosts):
        return reading
    others = (each.hosts for each in readings if each.report.kind not in ANNOTATING)
    shown = {short(host.name) for host in chain.from_iterable(others)}
    nodes = {
        host.name: host.node_name
        for host in reading.hosts
        if host.node_name is not None and short(host.name) not in shown
    }
    hosts = (
        replace(host, name=nodes[host.name], node_name=None) if host.name in nodes else host
        for host in reading.hosts
    )
    jobs = (
        replace(job, hosts=tuple(nodes.get(name, name) for name in job.hosts))
        for job in reading.jobs
    )
    return replace(reading, hosts=tuple(hosts), jobs=tuple(jobs))


def _merged(readings: Sequence[Reading]) -> Merger:
    """Return the hosts of all sources except those that only annotate."""
    merger = Merger([reading.report for reading in readings])
    for number, reading in enumerate(readings):
        if reading.report.kind not in ANNOTATING:
            merger.add(number, reading.hosts)
    return merger


def _renamed(reading: Reading, names: Mapping[HostKey, HostKey]) -> Reading:
    """Return a reading whose jobs, events and charts use the names that its hosts are shown by."""
    if not names:
        return reading
    return replace(
        reading,
        jobs=tuple(_on(job, names) for job in reading.jobs),
        events=None if reading.events is None else tuple(_shown(e, names) for e in reading.events),
        charts=tuple(_about(chart, names) for chart in reading.charts),
    )


def _on(job: FleetJob, names: Mapping[HostKey, HostKey]) -> FleetJob:
    keys = [names.get((job.cluster, name), (job.cluster, name)) for name in job.hosts]
    clusters = {cluster for cluster, _ in keys}
    cluster = clusters.pop() if len(clusters) == 1 else job.cluster
    return replace(job, cluster=cluster, hosts=tuple(name for _, name in keys))


def _shown(event: Event, names: Mapping[HostKey, HostKey]) -> Event:
    cluster, name = names.get((event.cluster, event.host or ""), (None, ""))
    return replace(event, cluster=cluster, host=name) if name else event


def _about(chart: _Chart, names: Mapping[HostKey, HostKey]) -> _Chart:
    """Return a chart or chart request with these names for its hosts."""
    found = {name: names.get((chart.cluster, name)) for name in chart.hosts}
    known = {name: key for name, key in found.items() if key is not None}
    if not known:
        return chart
    cluster = next(iter(known.values()))[0]
    hosts = tuple(known[name][1] if name in known else name for name in chart.hosts)
    if isinstance(chart, FleetChart):
        lines = [
            replace(line, host=known[line.host][1]) if line.host in known else line
            for line in chart.lines
        ]
        chart = replace(chart, lines=tuple(lines))
    return replace(chart, cluster=cluster, hosts=hosts)


def _are_all_known(readings: Iterable[Reading]) -> bool:
    """Whether the monitoring sources have shown all of their hosts, so that any other is unseen."""
    asked = [each for each in readings if each.report.kind in MONITORING]
    return bool(asked) and all(
        each.report.state == "ok" and each.report.expected_hosts is not None and each.at is None
        for each in asked
    )


def _together(
    found: Sequence[tuple[Event, ...] | None], shown: Mapping[JobKey, SafeText]
) -> tuple[Event, ...] | None:
    """Return the events of all sources, each once; None while one is still being asked.

    `shown` maps ids of jobs to those that are shown.
    """
    known: list[Event] = []
    for some in found:
        if some is None:
            return None
        known = together(known, some)
    return tuple(
        each if job is None else replace(each, job=job)
        for each in known
        for job in (shown.get((each.cluster, each.job or "")),)
    )


def narrowed(snapshot: FleetSnapshot, fits: Fits | None, price: Price) -> FleetSnapshot:
    """Return a snapshot of the GPUs that pass a filter, with their hosts, users and jobs.

    The sources stay, so that failures still show; None passes everything.
    """
    if fits is None:
        return snapshot
    hosts: list[FleetHost] = []
    rows = fitting(host_rows(snapshot), fits)
    for row in rows:
        expected = None if row.host.expected_devices is None else row.gpus + row.missing
        hosts.append(replace(row.host, devices=row.devices, expected_devices=expected))
    known = {job.key for job in snapshot.jobs}
    left = {known_key(row.host, job, known) for row in rows for job in row.jobs}
    jobs = tuple(job for job in snapshot.jobs if job.key in left)
    return replace(
        snapshot,
        hosts=tuple(hosts),
        users=users_of(((row.host, row.devices) for row in rows), jobs, price),
        jobs=jobs,
        findings=tuple(findings_about(snapshot.findings, hosts)),
    )
