"""Minutes of hosts added up to the rows of a report, and reports of hosts merged into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.model.fields import MAX_AMOUNT
from gpudash.model.report import (
    Grouping,
    Minute,
    MinuteDevice,
    ModelUse,
    Report,
    ReportFinding,
    ReportHost,
    ReportRow,
    Use,
)
from gpudash.model.snapshot import FindingLevel
from gpudash.model.text import SafeText
from gpudash.model.units import sum_known

Price = Callable[[str | None], float | None]
"""Returns the hourly price of a GPU by its name, None if none is configured."""

_What = tuple[SafeText, SafeText, SafeText | None]
"""The rule of a finding, its host, and its device there."""
_ORDERED: frozenset[Grouping] = frozenset({"gpu", "host"})
"""Rows ordered by hosts and devices rather than by time."""


class _Identity(NamedTuple):
    """The subject of a row: the fields of a `ReportRow` that name it."""

    host: SafeText | None = None
    cluster: SafeText | None = None
    user: SafeText | None = None
    job: SafeText | None = None
    gpu: SafeText | None = None
    uuid: SafeText | None = None
    parent_uuid: SafeText | None = None


class _Row:
    """A row being accumulated."""

    def __init__(self) -> None:
        self.held = self.share = self.idle = self.unknown = 0.0
        self.seen: float | None = None
        self.peak: int | None = None
        self.energy: float | None = None
        self.models: dict[SafeText | None, float] = {}

    def add(self, use: Use) -> None:
        """Add the time and the energy of a use."""
        self.held += use.held_seconds
        self.share += use.share_seconds
        self.idle += use.idle_seconds
        self.unknown += use.unknown_seconds
        if use.energy_mj is not None:
            self.energy = (self.energy or 0.0) + use.energy_mj

    def add_peak(self, amount: int | None) -> None:
        """Keep the peak of the memory in use at one time."""
        if amount is not None:
            self.peak = max(self.peak or 0, amount)

    def add_model(self, name: SafeText | None, seconds: float) -> None:
        """Add the part of the share that is on GPUs of one model."""
        self.models[name] = self.models.get(name, 0.0) + seconds

    def add_seen(self, seconds: float | None) -> None:
        """Add for how long devices were seen."""
        if seconds is not None:
            self.seen = (self.seen or 0.0) + seconds

    def row(self, identity: _Identity, price: Price) -> ReportRow:
        """Return the sums."""
        models = sorted(self.models.items(), key=lambda each: (-each[1], each[0] or ""))
        costs = [
            cost * seconds / 3600 for name, seconds in models if (cost := price(name)) is not None
        ]
        return ReportRow(
            held_seconds=_rounded(self.held),
            share_seconds=_rounded(self.share),
            idle_seconds=_rounded(self.idle),
            unknown_seconds=_rounded(self.unknown),
            peak_memory_bytes=self.peak,
            energy_mj=None if self.energy is None else min(self.energy, MAX_AMOUNT),
            **identity._asdict(),
            seen_seconds=None if self.seen is None else _rounded(self.seen),
            models=tuple(
                ModelUse(name=name, share_seconds=_rounded(seconds)) for name, seconds in models
            ),
            cost=min(round(sum(costs), 4), MAX_AMOUNT) if costs else None,
        )


class ReportSums:
    """Adds up minutes and reports, in any order, to one report."""

    def __init__(self, by: Grouping) -> None:
        self.by = by
        self._rows: dict[_Identity, _Row] = {}
        self._hosts: dict[SafeText, ReportHost] = {}
        self._findings: dict[_What, tuple[FindingLevel, float]] = {}

    def add(self, minute: Minute) -> None:
        """Add a minute."""
        peaks: dict[_Identity, list[int | None]] = {}
        for identity, use, name in _uses(minute, self.by):
            row = self._row(identity)
            row.add(use)
            row.add_model(name, use.share_seconds)
            if isinstance(use, MinuteDevice):
                row.add_seen(use.seen_seconds)
            peaks.setdefault(identity, []).append(use.peak_memory_bytes)
        for identity, amounts in peaks.items():
            self._rows[identity].add_peak(sum_known(amounts))
        seconds = sum(each.seen_seconds for each in minute.devices if each.parent is None)
        self._add_host(
            ReportHost(name=minute.host, seen_seconds=minute.seconds, gpu_seconds=seconds)
        )
        for finding in minute.findings:
            gpu = None if finding.device is None else minute.devices[finding.device].label
            self._add_finding((finding.rule, minute.host, gpu), finding.level, finding.seconds)

    def merge(self, report: Report, host: SafeText) -> None:
        """Add the report of a host with the same grouping, under the host's name here."""
        for found in report.rows:
            identity = _Identity(*(getattr(found, name) for name in _Identity._fields))
            row = self._row(identity._replace(host=host if self.by in _ORDERED else None))
            row.add(found)
            row.add_peak(found.peak_memory_bytes)
            row.add_seen(found.seen_seconds)
            for model in found.models:
                row.add_model(model.name, model.share_seconds)
        for each in report.hosts:
            self._add_host(replace(each, name=host))
        for finding in report.findings:
            self._add_finding((finding.rule, host, finding.gpu), finding.level, finding.seconds)

    def miss(self, host: SafeText, message: SafeText) -> None:
        """Note why there is nothing from a host."""
        self._add_host(ReportHost(name=host, message=message))

    def note(self, note: SafeText) -> None:
        """Note what is missing in the data."""
        self._hosts = {name: replace(host, note=note) for name, host in self._hosts.items()}

    def report(self, taken_at: datetime, since: datetime, until: datetime, price: Price) -> Report:
        """Return the sums as a document; without any minute or report there are no rows."""
        rows = [row.row(identity, price) for identity, row in self._rows.items()]
        if self.by in _ORDERED:
            rows.sort(key=lambda row: row.host or "")
        else:
            rows.sort(
                key=lambda row: (
                    -row.held_seconds,
                    *(each or "" for each in (row.user, row.job, row.cluster)),
                )
            )
        findings = [
            ReportFinding(rule=rule, level=level, host=host, gpu=gpu, seconds=_rounded(seconds))
            for (rule, host, gpu), (level, seconds) in self._findings.items()
        ]
        findings.sort(key=lambda each: (-FINDING_RANKS[each.level], -each.seconds))
        return Report(
            taken_at=taken_at,
            by=self.by,
            since=since,
            until=until,
            hosts=tuple(
                replace(
                    host,
                    seen_seconds=_rounded(host.seen_seconds),
                    gpu_seconds=_rounded(host.gpu_seconds),
                )
                for _, host in sorted(self._hosts.items())
            ),
            rows=tuple(rows),
            findings=tuple(findings),
        )

    def _row(self, identity: _Identity) -> _Row:
        row = self._rows.get(identity)
        if row is None:
            row = self._rows[identity] = _Row()
        return row

    def _add_host(self, host: ReportHost) -> None:
        known = self._hosts.get(host.name)
        if known is not None:
            host = replace(
                host,
                seen_seconds=host.seen_seconds + known.seen_seconds,
                gpu_seconds=host.gpu_seconds + known.gpu_seconds,
                message=host.message or known.message,
                note=host.note or known.note,
            )
        self._hosts[host.name] = host

    def _add_finding(self, what: _What, level: FindingLevel, seconds: float) -> None:
        known, sum_ = self._findings.get(what, (level, 0.0))
        worst = max(known, level, key=FINDING_RANKS.__getitem__)
        self._findings[what] = worst, sum_ + seconds


def _uses(minute: Minute, by: Grouping) -> Iterable[tuple[_Identity, Use, SafeText | None]]:
    """Return a minute's uses by row, with the GPU model of each."""
    devices = minute.devices
    if by in _ORDERED:
        shown = (each for each in devices if by == "gpu" or each.parent is None)
        return [(_of_device(minute, each, by), each, each.name) for each in shown]
    uses = minute.users if by == "user" else minute.jobs
    return [
        (
            _Identity(
                cluster=minute.cluster if by == "job" and use.job is not None else None,
                user=use.user,
                job=use.job,
            ),
            use,
            devices[use.device].name,
        )
        for use in uses
    ]


def _of_device(minute: Minute, device: MinuteDevice, by: Grouping) -> _Identity:
    if by == "host":
        return _Identity(host=minute.host)
    parent = None if device.parent is None else minute.devices[device.parent].key
    return _Identity(host=minute.host, gpu=device.label, uuid=device.key, parent_uuid=parent)


def _rounded(seconds: float) -> float:
    """Return a rounded sum of seconds, limited for forged documents."""
    return min(round(seconds, 3), MAX_AMOUNT)
