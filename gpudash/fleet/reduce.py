"""The meaning of merged readings: status and idle time of each GPU, users, jobs, findings.

The status of a GPU is decided by `analysis.activity`, from memory, users, job and utilization.
Missing values are never guessed: such a GPU is unknown, and so are all devices of a silent host
in counts. A status that the host itself reports stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from gpudash.analysis.activity import RestClock, activity, is_rest, notable
from gpudash.analysis.health.acknowledged import Acknowledgement, InForce, spellings
from gpudash.analysis.health.engine import SymptomTracker
from gpudash.analysis.health.rule import Symptom
from gpudash.analysis.health.rules.reliability import meaning
from gpudash.fleet.health import checks
from gpudash.fleet.health.survey import FLEET, Survey, job_kind
from gpudash.fleet.jobs import known_key, owner_of, paces_of
from gpudash.fleet.lasting import Lasted, Lasting
from gpudash.fleet.names import short
from gpudash.fleet.summary import AVAILABLE, GpuRow, count_gpus, titles, worst_by_host
from gpudash.fleet.users import Price, users_of
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetSnapshot, JobKey
from gpudash.model.snapshot import Finding
from gpudash.model.state import (
    BUSY,
    DIVIDED,
    DRAINED,
    FREE,
    HELD,
    HOT,
    IN_USE,
    SLOW,
    STATES,
    UNKNOWN,
    UNUSABLE,
    unreadable_state,
)
from gpudash.model.text import SafeText
from gpudash.model.units import grouped

_ACTIVITIES = frozenset(state.id for state in (BUSY, HELD, IN_USE, FREE, UNKNOWN))
_AVAILABLE = frozenset(state.id for state in AVAILABLE)
_BROKEN = frozenset(state.id for state in STATES if state.is_broken)
_HEARD_OF = frozenset(("ok", "connecting"))
_MAX_AGE_SECONDS = 300.0
"""Age beyond which values do not show what a GPU does."""
_MAX_GAP_SECONDS = 300.0
"""Between two snapshots: after a longer gap, the time between them is unknown."""


class Reducer:
    """Adds to each snapshot what follows from it and from earlier ones."""

    def __init__(
        self,
        price: Price = lambda _name: None,
        acknowledged: Callable[[], InForce] = InForce,
    ) -> None:
        self.price = price
        self._acknowledged = acknowledged
        self._checks, self._checks_of_known = checks(), checks()
        self._tracker = SymptomTracker()
        self._taken_at = 0.0
        self._rests = RestClock()
        self.lasting: Lasting = {}
        """The last findings about GPUs whose hosts do not report since when."""
        self._answering: frozenset[str] = frozenset()
        """Hosts that were fully known before, so that findings there are new."""

    def reduce(
        self, snapshot: FleetSnapshot, lasted: Lasted | None = None, *, is_settled: bool = True
    ) -> FleetSnapshot:
        """Return a snapshot with status, users, jobs and findings.

        Until it is settled, it shows what has arrived, and no finding as new. `lasted` is what
        sources know of the last `lasting`.
        """
        now = snapshot.taken_at.timestamp()
        if not 0 <= now - self._taken_at <= _MAX_GAP_SECONDS:
            self._rests = RestClock()
            self._tracker = SymptomTracker()
            self._answering = frozenset()
        self._taken_at = now
        self._rests.begin()
        hosts = tuple([self._host(host, now) for host in snapshot.hosts])
        survey = Survey(replace(snapshot, hosts=hosts), self.price, lasted=lasted)
        known = self._acknowledged()
        named = _uniquely_named(survey.snapshot)
        before = self._answering
        answering = (host.name for host in named.hosts if host.state == "ok")
        self._answering = frozenset(answering if is_settled else ())
        findings = self._tracker.findings(
            self._symptoms(survey, named, known, lasted),
            now,
            begins=lambda symptom: bool(before) and before.issuperset(symptom.hosts),
        )
        names = [host.name for host in named.hosts]
        hosts = _judged(_dated(hosts, lasted or {}), names, findings)
        return replace(
            snapshot,
            hosts=hosts,
            users=users_of(((host, host.devices) for host in hosts), snapshot.jobs, self.price),
            jobs=_jobs(survey.jobs, hosts),
            findings=(*findings, *known.finding),
        )

    def _symptoms(
        self, survey: Survey, snapshot: FleetSnapshot, known: InForce, lasted: Lasted | None
    ) -> Iterator[Symptom]:
        """Yield findings, and separately those that are acknowledged.

        The snapshot is that of the survey; its hosts have unique names.
        """
        places = _places(snapshot, known)

        def is_known(host: FleetHost, index: int | None, uuid: str | None) -> bool:
            found = places.get(host.name, {})
            some = [found[each] for each in {None, index, uuid} if each in found]
            lost = _lost_seconds(host, index, uuid) if some else None
            since = None if lost is None else snapshot.taken_at.timestamp() - lost
            return not all(each.is_over(since) for each in some)

        if places or snapshot is not survey.snapshot:
            survey = Survey(snapshot, self.price, lambda *place: not is_known(*place), lasted)
        yield from chain.from_iterable(check(survey) for check in self._checks)
        self.lasting = survey.lasting
        if not places:
            return
        survey = Survey(snapshot, self.price, is_known, lasted)
        for symptom in chain.from_iterable(check(survey) for check in self._checks_of_known):
            if symptom.hosts and places.keys() >= {*symptom.hosts}:
                indices = (each.index for each in symptom.devices)
                uuids = (each.parent_uuid or each.uuid for each in symptom.devices)
                gpus: set[int | str | None] = {None, *indices, *uuids}
                found = [each for host in symptom.hosts for each in places[host].items()]
                texts = [each.text for gpu, each in found if gpu in gpus]
                subject = "acknowledged", symptom.subject
                text = "; ".join(dict.fromkeys(texts or [found[0][1].text]))
                yield replace(symptom, subject=subject, acknowledged=text)
        self.lasting = {**self.lasting, **survey.lasting}

    # What a GPU does

    def _host(self, host: FleetHost, now: float) -> FleetHost:
        divided = {device.parent_uuid for device in host.devices}
        devices: list[FleetDevice] = []
        for device in _with_users(host):
            status, seconds = self._status(host, device, now)
            # Activity of its instances is not its own.
            is_divided = device.uuid is not None and device.uuid in divided
            if is_divided and host.state == "ok" and status in _ACTIVITIES:
                status = DIVIDED.id
            if host.drain_reason is not None and status in _AVAILABLE:
                status = DRAINED.id
            is_known = status == device.status and seconds == device.idle_seconds
            devices.append(
                device if is_known else replace(device, status=status, idle_seconds=seconds)
            )
        return replace(host, devices=tuple(devices))

    def _status(self, host: FleetHost, device: FleetDevice, now: float) -> tuple[str, float | None]:
        """Return the status of a device, and for how long it has not computed.

        A host that runs gpudash reports both itself. A missing sample proves nothing, nor do
        the last values of a host that does not answer.
        """
        if host.state != "ok":
            return UNKNOWN.id, None
        unreadable = unreadable_state(device)
        if unreadable is not None:
            return unreadable.id, None
        if (device.age_seconds or 0.0) > _MAX_AGE_SECONDS:
            return UNKNOWN.id, None
        if device.status != UNKNOWN.id:
            return device.status, device.idle_seconds
        is_held = device.job is not None or bool(device.users)
        is_held = is_held or notable(device.memory_used_bytes, device.memory_total_bytes)
        seconds = device.idle_seconds
        if seconds is None:
            key = device.uuid or f"{host.cluster}/{host.name}/{device.index}"
            seconds = self._rests.idle_seconds(key, device, now, is_held=is_held)
        if device.xid is not None and meaning(device.xid).level == "critical":
            return UNUSABLE.id, seconds
        return activity(device, is_held=is_held, is_idle=is_rest(seconds)).id, seconds


def _with_users(host: FleetHost) -> Sequence[FleetDevice]:
    """Return a host's devices; owners of processes there, by any source, are users."""
    users = grouped(
        (uuid, process.username)
        for process in host.processes or ()
        if process.username is not None
        for uuid in process.uuids
    )
    if not users:
        return host.devices
    return [
        each
        if (more := users.get(each.uuid or "")) is None or {*more} <= {*each.users}
        else replace(each, users=tuple(dict.fromkeys((*each.users, *more))))
        for each in host.devices
    ]


def _dated(hosts: tuple[FleetHost, ...], lasted: Lasted) -> tuple[FleetHost, ...]:
    """Return hosts with how long GPUs have been slow or hot, even if they do not report it."""
    known: dict[str, float] = {}
    for (rule, uuid), seconds in lasted.items():
        if FLEET.rules[rule].status in (SLOW, HOT):
            known[uuid] = max(seconds, known.get(uuid, seconds))
    if not known:
        return hosts
    found = (
        (host, {e.uuid: known[e.uuid] for e in host.devices if e.uuid in known}) for host in hosts
    )
    return tuple(
        [
            replace(host, slow_seconds={**ages, **host.slow_seconds}) if ages else host
            for host, ages in found
        ]
    )


def _judged(
    hosts: Iterable[FleetHost], names: Iterable[str], findings: Sequence[Finding]
) -> tuple[FleetHost, ...]:
    """Return hosts with their worst finding, and with the status that findings give to GPUs.

    `names` are the hosts' names in findings.
    """
    worst = worst_by_host([each for each in findings if each.acknowledged is None])
    states: dict[str, dict[str, str]] = {}
    # The worst comes last, so that its status is the host's.
    for each in reversed(findings):
        if (state := FLEET.rules[each.rule].status) is not None:
            for name in each.hosts:
                states.setdefault(name, {}).update(dict.fromkeys(each.uuids, state.id))

    def judged(host: FleetHost, name: str) -> FleetHost:
        known = states.get(name)
        if known:
            devices = [replace(e, status=known.get(e.uuid or "", e.status)) for e in host.devices]
            host = replace(host, devices=tuple(devices))
        return replace(host, worst_finding=worst[name].rule) if name in worst else host

    return tuple([judged(*each) for each in zip(hosts, names, strict=True)])


def _uniquely_named(snapshot: FleetSnapshot) -> FleetSnapshot:
    """Return a snapshot with unique host names: findings refer to them."""
    names = titles(snapshot.hosts)
    if names == [host.name for host in snapshot.hosts]:
        return snapshot
    hosts = zip(snapshot.hosts, names, strict=True)
    return replace(snapshot, hosts=tuple(replace(host, name=name) for host, name in hosts))


def _places(
    snapshot: FleetSnapshot, known: InForce
) -> dict[str, dict[int | str | None, Acknowledgement]]:
    """Return the acknowledgements of each host that has any, by its name.

    Those of GPUs are by UUID or index, that of the host by None.
    """
    if not known.found:
        return {}
    by_name = grouped((each.host, each) for each in known.found.values())
    places: dict[str, dict[int | str | None, Acknowledgement]] = {}
    for host in snapshot.hosts:
        former = () if host.former_name is None else spellings(host.former_name, host.cluster)
        names = (*spellings(host.name, host.cluster), *former)
        found = [each for name in names for each in by_name.get(name, ())]
        if found and (about := dict(_about(host, found))):
            places[host.name] = about
    return places


def _about(
    host: FleetHost, known: Iterable[Acknowledgement]
) -> Iterator[tuple[int | str | None, Acknowledgement]]:
    """Yield the acknowledgements of a host, each with the UUID or index of its GPU.

    A UUID that is not listed is that of the GPU with its index, if this has none, or of any missing
    GPU; otherwise another GPU has taken its place.
    """
    gpus = [each for each in host.devices if each.parent_uuid is None]
    listed = {each.uuid for each in gpus}
    named = {each.index for each in gpus if each.uuid is not None}
    unnamed = {each.index for each in gpus} - named
    missing = sorted({*range(host.expected_devices or 0)} - named - unnamed)
    for each in known:
        if each.uuid is None or each.uuid in listed:
            yield each.gpu if each.uuid is None else each.uuid, each
        elif each.gpu in unnamed:
            yield each.gpu, each
        elif missing:
            yield missing.pop(missing.index(each.gpu) if each.gpu in missing else 0), each


def _lost_seconds(host: FleetHost, index: int | None, uuid: str | None) -> float | None:
    """Return for how long a host, or a GPU of an answering one, is lost; None if unknown."""
    if host.state != "ok":
        return host.age_seconds
    gpus = (each for each in host.devices if each.parent_uuid is None)
    found = (each for each in gpus if (each.index == index if uuid is None else each.uuid == uuid))
    lost = next((each for each in found if unreadable_state(each) is not None), None)
    return None if lost is None else lost.age_seconds


def _jobs(known: Mapping[JobKey, FleetJob], hosts: Iterable[FleetHost]) -> tuple[FleetJob, ...]:
    """Return the jobs of these hosts with their GPUs' activity, even if only devices name them."""
    names: set[str] = set()
    by_job: dict[JobKey, list[GpuRow]] = {}
    for host in hosts:
        names |= {host.name, short(host.name)}
        for each in host.devices:
            if each.job is not None:
                key = known_key(host, each.job, known)
                by_job.setdefault(key, []).append(GpuRow(host, each))
    jobs = [
        _job(job, by_job.get(job.key, ()))
        for job in known.values()
        if job.key in by_job or not job.hosts or not names.isdisjoint(job.hosts)
    ]
    for key, rows in by_job.items():
        if key not in known:
            host, device = rows[0]
            job = FleetJob(
                id=device.job or SafeText(key[1]),
                kind=job_kind(key[1]),
                cluster=host.cluster,
                user=owner_of(key[1], rows),
                devices=_units(rows),
            )
            jobs.append(_job(job, rows))
    return tuple(sorted(jobs, key=lambda job: (-job.devices, job.id, job.cluster or "")))


def _job(job: FleetJob, rows: Sequence[GpuRow]) -> FleetJob:
    """Return a job with the mean and the lowest utilization of its GPUs on answering hosts.

    Schedulers count the MIG instances that they give; those of one GPU become one here.
    """
    if not rows:
        return job
    does = count_gpus(rows)
    gpus, devices = does.total(), job.devices
    if gpus != len(rows):
        devices = max(0, devices - (_units(rows) - gpus))
    broken = [row for row in rows if _is_broken(*row)]
    job = replace(
        job,
        devices=devices,
        hosts=job.hosts or tuple(dict.fromkeys([host.name for host, _ in rows])),
        # Nearly all jobs have none.
        broken=count_gpus(broken).total() if broken else 0,
    )
    percents = [
        percent
        for host, device in rows
        if (percent := device.gpu_utilization_percent) is not None
        and host.state == device.state == "ok"
    ]
    if not percents:
        return job
    paces = paces_of(rows)
    return replace(
        job,
        busy=does[BUSY.id],
        slow=sum([len(pace.slow) for pace in paces]) if paces else None,
        gpu_utilization_percent=round(sum(percents) / len(percents), 1),
        min_gpu_utilization_percent=min(percents),
    )


def _is_broken(host: FleetHost, device: FleetDevice) -> bool:
    """Whether a GPU is unusable for its job, or its host is silent."""
    return device.status in _BROKEN or host.state not in _HEARD_OF


def _units(rows: Sequence[GpuRow]) -> int:
    """Return the number of GPUs and MIG instances, without divided GPUs."""
    return sum([device.status != DIVIDED.id for _, device in rows])
