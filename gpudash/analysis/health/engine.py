"""The findings of a host: symptoms that have lasted, joined into sentences, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby

from msgspec.structs import replace

from gpudash.analysis.health.context import ActivityTracker, RuleContext
from gpudash.analysis.health.findings import findings_by_device
from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.analysis.health.rule import Symptom, bounded
from gpudash.analysis.health.rules import RULES_BY_ID, checks
from gpudash.analysis.labels import index_ranges
from gpudash.analysis.status import judged
from gpudash.model.device import device_labels
from gpudash.model.snapshot import Evidence, Finding, Snapshot, UptimeClock
from gpudash.model.units import floor_tenths

_MAX_EVIDENCE = 32
_MIN_SECONDS = 0.9
"""Of samples that come faster only some are examined: no rule is as quick as that."""
_MAX_UPTIME_SECONDS = 1e12
"""Bounds the spans that a broken clock or a hostile document would make."""


class _ActiveSymptom:
    """A symptom that was seen: since when, when last, and its worst recent level."""

    __slots__ = ("is_reported", "level", "level_at", "sample", "seen_at", "since", "symptom")

    def __init__(self, symptom: Symptom, now: float) -> None:
        self.symptom = symptom
        self.sample = 0
        self.since = self.seen_at = self.level_at = now
        self.level = symptom.level
        self.is_reported = False

    def update(self, symptom: Symptom, now: float) -> None:
        """Take the symptom as it is now; a lower level counts once the rule's time has passed."""
        self.symptom, self.seen_at = symptom, now
        fell = FINDING_RANKS[symptom.level] < FINDING_RANKS[self.level]
        if not fell or now - self.level_at >= symptom.rule.goes_after_seconds:
            self.level, self.level_at = symptom.level, now


class Diagnosis:
    """Examines the samples of one host, one after the other.

    First-sample symptoms are reported at once, without a duration; later ones must last, and be
    away, for the times of their rule before they appear or go.
    """

    def __init__(self) -> None:
        self._now: float | None = None
        self._sample = 0
        self._clock = UptimeClock()
        self._states: list[tuple[str, str]] = []
        self._found: tuple[Finding, ...] = ()
        self._begin()

    def examine(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with its findings, the status of its devices and their idle times.

        The findings are those of the last one if it was a moment ago.

        A brief one has none: what is missing in it was only not read yet.
        """
        if snapshot.brief:
            return snapshot
        now = min(max(self._clock.instant(snapshot), -_MAX_UPTIME_SECONDS), _MAX_UPTIME_SECONDS)
        if self._now is not None and now < self._now:
            self._now = None
            self._begin()
        states = [(device.key, str(device.state)) for device in snapshot.devices]
        is_first, last = self._now is None, self._now
        self._activity.add(now, snapshot)
        context = RuleContext(snapshot, self._activity, is_first=is_first)
        if last is None or now - last >= _MIN_SECONDS or states != self._states:
            self._now, self._states = now, states
            self._sample += 1
            self._check(context, now)
            self._forget(snapshot, now)
            reported = [each for each in self._active.values() if each.is_reported]
            self._found = _findings(reported, snapshot, None if is_first else now)
        return self._judged(context, replace(snapshot, findings=self._found))

    def _judged(self, context: RuleContext, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the status of each device, and since when nothing uses it."""
        found = judged(context, findings_by_device(snapshot))
        return replace(
            snapshot,
            devices=tuple(
                [
                    replace(
                        device,
                        status=found[device.key].id,
                        idle_seconds=self._activity.idle_seconds(device),
                    )
                    for device in snapshot.devices
                ]
            ),
            processes=tuple(
                [
                    process
                    if (idle := self._activity.process_idle_seconds(process)) is None
                    and process.idle_seconds is None
                    else replace(process, idle_seconds=idle)
                    for process in snapshot.processes
                ]
            ),
        )

    def _begin(self) -> None:
        self._activity = ActivityTracker()
        self._checks = checks()
        self._active: dict[object, _ActiveSymptom] = {}

    def _check(self, context: RuleContext, now: float) -> None:
        for check in self._checks:
            for symptom in check(context):
                key = symptom.rule.id, symptom.subject
                known = self._active.get(key)
                if known is None:
                    known = self._active[key] = _ActiveSymptom(symptom, now)
                else:
                    known.update(symptom, now)
                known.sample = self._sample
                if context.is_first or now - known.since >= symptom.rule.appears_after_seconds:
                    known.is_reported = True

    def _forget(self, snapshot: Snapshot, now: float) -> None:
        """Drop what was away for long enough, or whose device or process is gone."""
        absent = [key for key, each in self._active.items() if each.sample != self._sample]
        if not absent:
            return
        devices = {device.key for device in snapshot.devices if device.state == "ok"}
        pids = {process.pid for process in snapshot.processes}
        for key in absent:
            each = self._active[key]
            symptom = each.symptom
            away = now - each.seen_at
            if (
                not each.is_reported
                or away >= symptom.rule.goes_after_seconds
                or not devices.issuperset(device.key for device in symptom.devices)
                or not pids.issuperset(symptom.pids)
            ):
                del self._active[key]


def _findings(
    active: Iterable[_ActiveSymptom], snapshot: Snapshot, now: float | None
) -> tuple[Finding, ...]:
    groups: dict[object, list[_ActiveSymptom]] = defaultdict(list)
    for each in active:
        symptom = each.symptom
        alone = symptom.subject if symptom.sentence else None
        groups[symptom.rule.id, each.level, symptom.fact, symptom.advice, alone].append(each)
    labels = device_labels(snapshot.devices) if groups else {}
    parents: dict[str, int] = {d.uuid: d.index for d in snapshot.devices if d.uuid}
    found = [_finding(group, labels, parents, now) for group in groups.values()]
    return tuple(sorted(found, key=_importance))


def _finding(
    group: list[_ActiveSymptom],
    labels: Mapping[str, str],
    parents: dict[str, int],
    now: float | None,
) -> Finding:
    """Write down the symptoms of several devices as one."""
    first = group[0].symptom
    devices = {device.key: device for each in group for device in each.symptom.devices}
    evidence = tuple(proof for each in group for proof in each.symptom.evidence)
    pids = dict.fromkeys(pid for each in group for pid in each.symptom.pids)
    indices = {
        parents.get(device.parent_uuid or "", device.index) if device.is_mig else device.index
        for device in devices.values()
    }
    return Finding(
        rule=first.rule.id,
        level=group[0].level,
        sentence=first.sentence or _sentence(first.fact, [labels[key] for key in devices]),
        advice=first.advice.replace("INDEX", ",".join(map(str, sorted(indices)))),
        evidence=_bounded(evidence),
        uuids=tuple(device.uuid for device in devices.values() if device.uuid),
        indices=tuple(sorted(indices)),
        pids=tuple(pids),
        held_seconds=None if now is None else max(_held(each, now) for each in group),
    )


def _bounded(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    if len(evidence) <= _MAX_EVIDENCE:
        return evidence
    of_each = [tuple(proofs) for _, proofs in groupby(evidence, key=lambda proof: proof.of)]
    return bounded(of_each, len(of_each), _MAX_EVIDENCE - 1)


def _held(each: _ActiveSymptom, now: float) -> float:
    known = each.symptom.held_seconds
    return floor_tenths(min(now - each.since if known is None else known, _MAX_UPTIME_SECONDS))


def _sentence(fact: tuple[str, str], labels: list[str]) -> str:
    whole = [int(label) for label in labels if label.isdecimal()]
    instances = [label for label in labels if not label.isdecimal()]
    names = ",".join(filter(None, [index_ranges(whole) if whole else "", *instances]))
    return f"GPU {names} {fact[len(labels) > 1]}"


def _importance(finding: Finding) -> tuple[int, int, tuple[int, ...]]:
    return -FINDING_RANKS[finding.level], RULES_BY_ID[finding.rule].rank, finding.indices
