"""Findings: symptoms that have lasted, merged into sentences, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby

from msgspec.structs import replace

from gpudash.analysis.health.acknowledged import InForce, spellings
from gpudash.analysis.health.context import ActivityTracker, RuleContext
from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.analysis.health.rule import Symptom, bounded
from gpudash.analysis.health.rules import checks
from gpudash.analysis.labels import index_ranges
from gpudash.analysis.status import by_device, judged
from gpudash.model.device import Device, device_labels
from gpudash.model.snapshot import Evidence, Finding, Snapshot, UptimeClock
from gpudash.model.units import floor_tenths, inflected

_MAX_EVIDENCE = 32
_MIN_SECONDS = 0.9
"""Samples closer together are not all examined: no rule is faster than this."""
_MAX_UPTIME_SECONDS = 1e12
"""Limit on the spans from a broken clock or a hostile document."""


class _ActiveSymptom:
    """A symptom that was seen: since when, when last, and its worst recent level."""

    __slots__ = (
        "began",
        "is_reported",
        "level",
        "level_at",
        "sample",
        "seen_at",
        "since",
        "symptom",
    )

    def __init__(self, symptom: Symptom, now: float, *, began: bool) -> None:
        self.symptom = symptom
        self.began = began
        self.sample = 0
        self.since = self.seen_at = self.level_at = now
        self.level = symptom.level
        self.is_reported = False

    def update(self, symptom: Symptom, now: float) -> None:
        """Update it; a lower level takes effect after the rule's time."""
        self.symptom, self.seen_at = symptom, now
        fell = FINDING_RANKS[symptom.level] < FINDING_RANKS[self.level]
        if not fell or now - self.level_at >= symptom.rule.goes_after_seconds:
            self.level, self.level_at = symptom.level, now


class SymptomTracker:
    """Turns the symptoms of consecutive samples, of one host or many, into findings.

    Symptoms of the first sample are reported at once, without a duration; later ones must last, or
    be absent, for the times of their rule before they appear or disappear.
    """

    def __init__(self) -> None:
        self._sample = 0
        self._active: dict[object, _ActiveSymptom] = {}

    def findings(
        self,
        symptoms: Iterable[Symptom],
        now: float,
        host: Snapshot | None = None,
        begins: Callable[[Symptom], bool] = lambda _symptom: True,
    ) -> tuple[Finding, ...]:
        """Return the findings of a sample, the worst first, acknowledged ones last.

        `host` is None for many hosts; `begins` returns whether a new symptom has just begun, rather
        than just been seen.
        """
        self._sample += 1
        for symptom in symptoms:
            self._take(symptom, now, begins)
        self._forget(host, now)
        reported = [each for each in self._active.values() if each.is_reported]
        devices = () if host is None else host.devices
        return _findings(reported, devices, None if self._sample == 1 else now)

    def _take(self, symptom: Symptom, now: float, begins: Callable[[Symptom], bool]) -> None:
        key = symptom.rule.id, symptom.subject
        known = self._active.pop(key, None)
        if known is None:
            known = _ActiveSymptom(symptom, now, began=begins(symptom))
        else:
            known.update(symptom, now)
        # Reinserted last, to follow the order of the last sample.
        self._active[key] = known
        known.sample = self._sample
        if self._sample == 1 or now - known.since >= symptom.rule.appears_after_seconds:
            known.is_reported = True

    def _forget(self, host: Snapshot | None, now: float) -> None:
        """Drop symptoms that were absent for long enough, or whose device or process is gone."""
        absent = [key for key, each in self._active.items() if each.sample != self._sample]
        if not absent:
            return
        is_there = _presence(host)
        for key in absent:
            each = self._active[key]
            is_away = now - each.seen_at >= each.symptom.rule.goes_after_seconds
            if not each.is_reported or is_away or not is_there(each.symptom):
                del self._active[key]


def _presence(host: Snapshot | None) -> Callable[[Symptom], bool]:
    """Return the test of whether a symptom's devices and processes are present."""
    if host is None:
        return lambda _symptom: True
    devices = {device.key for device in host.devices if device.state == "ok"}
    pids = {process.pid for process in host.processes}
    return lambda symptom: (
        devices.issuperset(device.key for device in symptom.devices)
        and pids.issuperset(symptom.pids)
    )


class Diagnosis:
    """Examines the samples of one host, one after the other."""

    def __init__(self, acknowledged: Callable[[], InForce] = InForce) -> None:
        self._acknowledged = acknowledged
        self._now: float | None = None
        self._clock = UptimeClock()
        self._states: list[tuple[str, str]] = []
        self._found: tuple[Finding, ...] = ()
        self._begin()

    def examine(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with its findings, and its devices' status and idle times.

        The findings are the last ones if these are a moment old.

        A brief one has none: values missing in it were just not read yet.
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
            symptoms = [*chain.from_iterable(check(context) for check in self._checks)]
            # If nothing is wrong, the file is not read.
            known = self._acknowledged() if symptoms else InForce()
            marked = _marked(symptoms, snapshot, known) if known.found else symptoms
            self._found = (*self._tracker.findings(marked, now, snapshot), *known.finding)
        return self._judged(context, replace(snapshot, findings=self._found))

    def _judged(self, context: RuleContext, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the status of each device, and how long it has been idle."""
        found = judged(context, by_device(snapshot, self._found))
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
        self._tracker = SymptomTracker()


def _marked(symptoms: Iterable[Symptom], host: Snapshot, known: InForce) -> Iterator[Symptom]:
    """Yield symptoms, with the acknowledgement of those whose GPUs all have one."""
    names = spellings(host.host.hostname)
    parents: dict[str, int] = {each.uuid: each.index for each in host.devices if each.uuid}
    for symptom in symptoms:
        gpus = {
            parents.get(uuid or "", each.index): uuid
            for each in symptom.devices
            for uuid in (each.parent_uuid or each.uuid,)
        }
        text = known.text(names, gpus)
        yield symptom if text is None else replace(symptom, acknowledged=text)


def marked(snapshot: Snapshot, known: InForce, name: str) -> Snapshot:
    """Return a snapshot examined by another gpudash, with what is acknowledged here.

    `name` is the host's name here.
    """
    if known == InForce():
        return snapshot
    names = (*spellings(name), *spellings(snapshot.host.hostname))
    uuids = {each.index: each.uuid for each in snapshot.devices if not each.is_mig}
    found = [
        each
        if each.acknowledged
        or (text := known.text(names, {i: uuids.get(i) for i in each.indices})) is None
        else replace(each, acknowledged=text)
        for each in snapshot.findings or ()
    ]
    found.sort(key=lambda each: each.acknowledged is not None)
    return replace(snapshot, findings=(*found, *known.finding))


def _findings(
    active: Iterable[_ActiveSymptom], devices: Sequence[Device], now: float | None
) -> tuple[Finding, ...]:
    groups: dict[object, list[_ActiveSymptom]] = defaultdict(list)
    for each in active:
        symptom = each.symptom
        alone = symptom.subject if symptom.sentence else None
        what = symptom.fact, symptom.advice, symptom.acknowledged
        groups[symptom.rule.id, each.level, what, alone].append(each)
    labels = device_labels(devices) if groups else {}
    parents: dict[str, int] = {d.uuid: d.index for d in devices if d.uuid}
    found = [
        (group[0].symptom.rule.rank, _finding(group, labels, parents, now))
        for group in groups.values()
    ]
    return tuple([finding for _, finding in sorted(found, key=_importance)])


def _finding(
    group: list[_ActiveSymptom],
    labels: Mapping[str, str],
    parents: dict[str, int],
    now: float | None,
) -> Finding:
    """Return the finding for symptoms of several devices."""
    first = group[0].symptom
    devices = {device.key: device for each in group for device in each.symptom.devices}
    evidence = tuple(proof for each in group for proof in each.symptom.evidence)
    hosts = dict.fromkeys(host for each in group for host in each.symptom.hosts)
    pids = dict.fromkeys(pid for each in group for pid in each.symptom.pids)
    indices = {
        parents.get(device.parent_uuid or "", device.index) if device.is_mig else device.index
        for device in devices.values()
        if device.key in labels
    }
    held = [seconds for each in group if (seconds := _held(each, now)) is not None]
    return Finding(
        rule=first.rule.id,
        level=group[0].level,
        sentence=first.sentence or _sentence(first.fact, [labels[key] for key in devices]),
        advice=first.advice.replace("INDEX", ",".join(map(str, sorted(indices))) or "INDEX"),
        evidence=_bounded(evidence),
        hosts=tuple(hosts),
        uuids=tuple(device.uuid for device in devices.values() if device.uuid),
        indices=tuple(sorted(indices)),
        pids=tuple(pids),
        held_seconds=max(held, default=None),
        newest_seconds=first.newest_seconds,
        acknowledged=first.acknowledged,
    )


def _bounded(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    if len(evidence) <= _MAX_EVIDENCE:
        return evidence
    of_each = [tuple(proofs) for _, proofs in groupby(evidence, key=lambda proof: proof.of)]
    return bounded(of_each, len(of_each), _MAX_EVIDENCE - 1)


def _held(each: _ActiveSymptom, now: float | None) -> float | None:
    known = each.symptom.held_seconds
    if known is None and now is not None and each.began:
        known = now - each.since
    return None if known is None else floor_tenths(min(known, _MAX_UPTIME_SECONDS))


def _sentence(fact: str, labels: list[str]) -> str:
    whole = [int(label) for label in labels if label.isdecimal()]
    instances = [label for label in labels if not label.isdecimal()]
    names = ",".join(filter(None, [index_ranges(whole) if whole else "", *instances]))
    return f"GPU {names} {inflected(len(labels), fact)}"


def _importance(found: tuple[int, Finding]) -> tuple[bool, int, int, tuple[int, ...]]:
    rank, finding = found
    is_known = finding.acknowledged is not None
    return is_known, -FINDING_RANKS[finding.level], rank, finding.indices
