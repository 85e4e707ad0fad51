"""The findings of a host: symptoms that have lasted, joined into sentences, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby

from msgspec.structs import replace

from gpudash.analysis.health.context import Sight, Work
from gpudash.analysis.health.rule import Symptom, bounded, lasted
from gpudash.analysis.health.rules import RANKS, families
from gpudash.analysis.labels import device_labels, index_ranges
from gpudash.model.snapshot import Evidence, Finding, FindingLevel, Snapshot, UptimeClock

_LEVELS: dict[FindingLevel, int] = {"critical": 0, "warn": 1, "info": 2}
_MOST_EVIDENCE = 32
_LEAST_SECONDS = 0.9
"""Samples that come faster are not examined each: no rule is as quick as that."""
_FAR_SECONDS = 1e12
"""No host is up for longer: spans that a strange clock makes stay numbers that can be told."""


class _Standing:
    """A symptom that was seen: since when, when last, and the worst level of late."""

    __slots__ = ("is_told", "level", "level_at", "sample", "seen_at", "since", "symptom")

    def __init__(self, symptom: Symptom, now: float) -> None:
        self.symptom = symptom
        self.sample = 0
        self.since = self.seen_at = self.level_at = now
        self.level = symptom.level
        self.is_told = False

    def see(self, symptom: Symptom, now: float) -> None:
        """Take it as it is now; a level that fell stays for as long as the rule lets it linger."""
        self.symptom, self.seen_at = symptom, now
        fell = _LEVELS[symptom.level] > _LEVELS[self.level]
        if not fell or now - self.level_at >= symptom.rule.goes_after_seconds:
            self.level, self.level_at = symptom.level, now


class Diagnosis:
    """Judges the samples of one host, one after the other.

    What the first sample shows is told at once, without a duration. Later a symptom must last
    before it is told, and be away for some time before it is told no more; both are the rule's.
    """

    def __init__(self) -> None:
        self._now: float | None = None
        self._sample = 0
        self._clock = UptimeClock()
        self._states: list[tuple[str, str]] = []
        self._found: tuple[Finding, ...] = ()
        self._begin()

    def examine(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with its findings, those of a moment ago if nothing else is new."""
        now = min(max(self._clock.instant(snapshot), -_FAR_SECONDS), _FAR_SECONDS)
        if self._now is not None and now < self._now:
            self._now = None
            self._begin()
        states = [(device.key, str(device.state)) for device in snapshot.devices]
        if self._now is not None and now - self._now < _LEAST_SECONDS and states == self._states:
            return replace(snapshot, findings=self._found)
        self._states = states
        is_first, self._now = self._now is None, now
        self._sample += 1
        self._work.see(now, snapshot)
        sight = Sight(snapshot, self._work, is_first=is_first)
        self._take(sight, now)
        self._forget(snapshot, now)
        told = [each for each in self._standing.values() if each.is_told]
        self._found = _findings(told, snapshot, None if is_first else now)
        return replace(snapshot, findings=self._found)

    def _begin(self) -> None:
        self._work = Work()
        self._families = families()
        self._standing: dict[object, _Standing] = {}

    def _take(self, sight: Sight, now: float) -> None:
        for family in self._families:
            for symptom in family(sight):
                key = symptom.rule.id, symptom.subject
                known = self._standing.get(key)
                if known is None:
                    known = self._standing[key] = _Standing(symptom, now)
                else:
                    known.see(symptom, now)
                known.sample = self._sample
                if sight.is_first or now - known.since >= symptom.rule.appears_after_seconds:
                    known.is_told = True

    def _forget(self, snapshot: Snapshot, now: float) -> None:
        """Let go of what was away for long enough, or whose device or process is gone."""
        absent = [key for key, each in self._standing.items() if each.sample != self._sample]
        if not absent:
            return
        devices = {device.key for device in snapshot.devices if device.state == "ok"}
        pids = {process.pid for process in snapshot.processes}
        for key in absent:
            each = self._standing[key]
            symptom = each.symptom
            away = now - each.seen_at
            if (
                not each.is_told
                or away >= symptom.rule.goes_after_seconds
                or not devices.issuperset(device.key for device in symptom.devices)
                or not pids.issuperset(symptom.pids)
            ):
                del self._standing[key]


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot; one that nobody judged is judged by itself."""
    if snapshot.findings is not None:
        return snapshot.findings
    return Diagnosis().examine(snapshot).findings or ()


def findings_by_device(snapshot: Snapshot) -> dict[str, tuple[Finding, ...]]:
    """Return what concerns each device, by its key; devices that nothing concerns are left out."""
    uuids: dict[str, str] = {d.uuid: d.key for d in snapshot.devices if d.uuid}
    nameless = {device.index: device.key for device in snapshot.devices if not device.uuid}
    concerned: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings(snapshot):
        keys = [uuids[uuid] for uuid in finding.uuids if uuid in uuids]
        keys += [nameless[index] for index in finding.indices if index in nameless]
        for key in keys:
            concerned[key].append(finding)
    return {key: tuple(found) for key, found in concerned.items()}


def _findings(
    standing: Iterable[_Standing], snapshot: Snapshot, now: float | None
) -> tuple[Finding, ...]:
    groups: dict[object, list[_Standing]] = defaultdict(list)
    for each in standing:
        symptom = each.symptom
        alone = symptom.subject if symptom.sentence else None
        groups[symptom.rule.id, each.level, symptom.fact, symptom.advice, alone].append(each)
    labels = device_labels(snapshot.devices) if groups else {}
    parents: dict[str, int] = {d.uuid: d.index for d in snapshot.devices if d.uuid}
    found = [_finding(group, labels, parents, now) for group in groups.values()]
    return tuple(sorted(found, key=_importance))


def _finding(
    group: list[_Standing],
    labels: dict[str, str],
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
    if len(evidence) <= _MOST_EVIDENCE:
        return evidence
    of_each = [tuple(proofs) for _, proofs in groupby(evidence, key=lambda proof: proof.of)]
    return bounded(of_each, len(of_each), _MOST_EVIDENCE - 1)


def _held(each: _Standing, now: float) -> float:
    known = each.symptom.held_seconds
    return lasted(min(now - each.since if known is None else known, _FAR_SECONDS))


def _sentence(fact: tuple[str, str], labels: list[str]) -> str:
    whole = [int(label) for label in labels if label.isdecimal()]
    instances = [label for label in labels if not label.isdecimal()]
    names = ",".join(filter(None, [index_ranges(whole) if whole else "", *instances]))
    return f"GPU {names} {fact[len(labels) > 1]}"


def _importance(finding: Finding) -> tuple[int, int, tuple[int, ...]]:
    return _LEVELS[finding.level], RANKS.get(finding.rule, len(RANKS)), finding.indices
