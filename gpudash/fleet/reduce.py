"""What merged readings mean: status and idle time of each GPU, users, jobs, findings.

A GPU is busy from 5 % utilization on, and for five minutes after; it is held idle if it has had
memory or a job for that long and does not compute. Without memory and job it is free. What
is not reported is never guessed: such a GPU is unknown, and so are all GPUs in the counts of a
host that does not answer. A status that the source itself has found stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.fleet.health import Rules
from gpudash.fleet.health.survey import Survey, job_kind
from gpudash.fleet.names import short
from gpudash.fleet.source import BUSY_PERCENT, HELD_BYTES
from gpudash.fleet.summary import GpuRow, titles
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetSnapshot, FleetUser
from gpudash.model.state import BUSY, FAILED, FREE, HELD, IN_USE, STATES, UNKNOWN
from gpudash.model.text import SafeText

_HELD_SECONDS = 300.0
_MAX_AGE_SECONDS = 300.0
"""Age from which values do not show what a GPU does."""
_MAX_GAP_SECONDS = 300.0
"""Between two snapshots; after a longer one, nothing is known of the time between them."""

_BY_WIRE = {state.wire: state.word for state in STATES if state.wire}
_UNKNOWN, _BUSY, _HELD, _IN_USE, _FREE = (s.word for s in (UNKNOWN, BUSY, HELD, IN_USE, FREE))


Price = Callable[[str | None], float | None]


class _Idle(NamedTuple):
    """Since when a GPU has not computed, and whether anything has held it since then."""

    since: float
    is_held: bool


class _Activity:
    """When GPUs have computed, and since when they have not, from one snapshot to the next."""

    def __init__(self) -> None:
        self._idle: dict[str, _Idle] = {}
        self._busy_at: dict[str, float] = {}
        self._idle_before, self._busy_before = self._idle, self._busy_at

    def begin(self) -> None:
        """Begin with another snapshot: what is not in it is forgotten."""
        self._idle_before, self._busy_before = self._idle, self._busy_at
        self._idle, self._busy_at = {}, {}

    def compute(self, key: str, now: float) -> None:
        """Note that a GPU computes."""
        self._busy_at[key] = now

    def rest(self, key: str, now: float, *, is_held: bool) -> tuple[float, bool]:
        """Return how long a GPU has not computed, and whether that is only a pause."""
        busy_at = self._busy_before.get(key)
        if busy_at is not None and now - busy_at > _HELD_SECONDS:
            busy_at = None
        if busy_at is not None:
            self._busy_at[key] = busy_at
        known = self._idle_before.get(key)
        if known is None or known.is_held != is_held:
            known = _Idle(now, is_held)
        self._idle[key] = known
        return now - known.since, is_held and busy_at is not None


class Reducer:
    """Adds to snapshots, one after the other, what follows from them and from those before."""

    def __init__(self, prices: Mapping[str, float] | None = None) -> None:
        """`prices` are those of an hour of a GPU by a part of its name."""
        self._prices = [(part.casefold(), price) for part, price in (prices or {}).items()]
        # The longest part that fits is the most precise one.
        self._prices.sort(key=lambda each: -len(each[0]))
        self._price_of: dict[str | None, float | None] = {}
        self._rules = Rules()
        self._taken_at = 0.0
        self._activity = _Activity()

    def reduce(self, snapshot: FleetSnapshot) -> FleetSnapshot:
        """Return a snapshot with status, users, jobs and findings."""
        now = snapshot.taken_at.timestamp()
        if not 0 <= now - self._taken_at <= _MAX_GAP_SECONDS:
            self._activity = _Activity()
            self._rules.forget()
        self._taken_at = now
        self._activity.begin()
        hosts = tuple([self._host(host, now) for host in snapshot.hosts])
        survey = Survey(replace(snapshot, hosts=hosts), self.price)
        return replace(
            snapshot,
            hosts=hosts,
            users=self._users(hosts, snapshot.jobs),
            jobs=_jobs(survey),
            findings=self._rules.findings(self._uniquely_named(survey)),
        )

    def _uniquely_named(self, survey: Survey) -> Survey:
        """Return a survey in which no two hosts have the same name: findings go by their names."""
        hosts = survey.snapshot.hosts
        names = titles(hosts)
        if all(host.name == name for host, name in zip(hosts, names, strict=True)):
            return survey
        renamed = [replace(host, name=name) for host, name in zip(hosts, names, strict=True)]
        return Survey(replace(survey.snapshot, hosts=tuple(renamed)), self.price)

    def price(self, name: str | None) -> float | None:
        """Return the price of an hour of a GPU by its name, None if none is configured."""
        if name not in self._price_of:
            text = (name or "").casefold()
            found = (price for part, price in self._prices if part in text)
            self._price_of[name] = next(found, None)
        return self._price_of[name]

    # What a GPU does

    def _host(self, host: FleetHost, now: float) -> FleetHost:
        devices: list[FleetDevice] = []
        parents: dict[str | None, list[str]] = {}
        for device in host.devices:
            word, seconds = self._status(host, device, now)
            if device.parent_uuid is not None:
                parents.setdefault(device.parent_uuid, []).append(word)
            if word != device.status or seconds != device.idle_seconds:
                devices.append(replace(device, status=word, idle_seconds=seconds))
            else:
                devices.append(device)
        if parents:
            devices = [_with_instances(device, parents) for device in devices]
        return replace(host, devices=tuple(devices))

    def _status(self, host: FleetHost, device: FleetDevice, now: float) -> tuple[str, float | None]:
        """Return the word for what a device does, and how long it has not computed."""
        if device.state != "ok":
            return _BY_WIRE.get(device.state, FAILED.word), None
        if (device.age_seconds or 0.0) > _MAX_AGE_SECONDS:
            return _UNKNOWN, None
        percent, seconds = device.gpu_utilization_percent, device.idle_seconds
        key = device.uuid or f"{host.cluster}/{host.name}/{device.index}"
        is_now = host.state == "ok" and percent is not None
        if percent is not None and percent >= BUSY_PERCENT:
            if is_now:
                self._activity.compute(key, now)
            return device.status if device.status != _UNKNOWN else _BUSY, None
        used = device.memory_used_bytes or 0
        is_held = used > HELD_BYTES or device.job is not None or bool(device.users)
        pauses = False
        if is_now:
            idle, pauses = self._activity.rest(key, now, is_held=is_held)
            seconds = idle if seconds is None else seconds
        return _word(device, seconds, is_held=is_held, pauses=pauses), seconds

    # Users and jobs

    def _users(self, hosts: Iterable[FleetHost], jobs: Iterable[FleetJob]) -> tuple[FleetUser, ...]:
        totals: dict[str, _User] = {}
        for host in hosts:
            parent: str | None = None
            counted: set[str] = set()
            divided = {each.parent_uuid for each in host.devices if each.parent_uuid is not None}
            for device in host.devices:
                if device.parent_uuid is None:
                    parent, counted = device.uuid, set()
                    if device.uuid in divided:
                        continue
                elif device.parent_uuid != parent:
                    parent, counted = device.parent_uuid, set()
                for name in device.users:
                    user = totals.get(name)
                    if user is None:
                        user = totals[name] = _User(name)
                    user.add(host, device, self.price, is_first=name not in counted)
                    if device.parent_uuid is not None:
                        counted.add(name)
        for job in jobs:
            if job.user is not None and job.user in totals:
                totals[job.user].jobs.add(job.id)
        users = [user.total() for user in totals.values()]
        return tuple(sorted(users, key=_waste))


def _waste(user: FleetUser) -> tuple[float, int, int, str]:
    """Return what the user who wastes most has least of."""
    return -(user.idle_gpu_hours or 0.0), -user.held_idle, -user.devices, user.name


def _word(device: FleetDevice, idle_seconds: float | None, *, is_held: bool, pauses: bool) -> str:
    """Return the word for what a device does that does not compute in this sample."""
    if device.status not in (_UNKNOWN, _IN_USE):
        return device.status
    if pauses:
        return _BUSY
    percent = device.gpu_utilization_percent
    if is_held:
        is_idle = percent is not None and (idle_seconds or 0.0) >= _HELD_SECONDS
        return _HELD if is_idle else _IN_USE
    if device.status != _UNKNOWN or device.memory_used_bytes is None:
        return device.status
    # The driver never reports a utilization of MIG instances.
    is_free = percent is not None or device.parent_uuid is not None
    return _FREE if is_free else _UNKNOWN


def _with_instances(device: FleetDevice, parents: Mapping[str | None, list[str]]) -> FleetDevice:
    """Return a GPU that does what its MIG instances do, where it is not known better."""
    words = parents.get(device.uuid)
    if words is None or device.status not in (_UNKNOWN, _FREE) or device.state != "ok":
        return device
    if _BUSY in words:
        word = _BUSY
    elif _IN_USE in words or (_HELD in words and not all(each == _HELD for each in words)):
        word = _IN_USE
    else:
        word = words[0] if len(set(words)) == 1 else _UNKNOWN
    return replace(device, status=word)


class _User:
    """The GPUs of one user, added up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hosts = self.devices = self.busy = self.held = 0
        self._host: FleetHost | None = None
        self.idle_seconds = 0.0
        self.memory: int | None = None
        self.cost: float | None = None
        self.jobs: set[str] = set()

    def add(self, host: FleetHost, device: FleetDevice, price: Price, *, is_first: bool) -> None:
        """Add a GPU, or a MIG instance, of which each counts for the first of its GPU."""
        if is_first:
            self.devices += 1
            self.busy += device.status == _BUSY and host.state == "ok"
        if device.status == _HELD and host.state == "ok":
            self.held += is_first
            seconds = device.idle_seconds or 0.0
            self.idle_seconds += seconds
            hour = price(device.name)
            if hour is not None:
                self.cost = (self.cost or 0.0) + hour * seconds / 3600
        if host is not self._host:
            self._host = host
            self.hosts += 1
        if device.job is not None:
            self.jobs.add(device.job)
        if device.memory_used_bytes is not None and len(device.users) == 1:
            self.memory = (self.memory or 0) + device.memory_used_bytes

    def total(self) -> FleetUser:
        """Return the sums."""
        return FleetUser(
            name=SafeText(self.name),
            hosts=self.hosts,
            devices=self.devices,
            busy=self.busy,
            held_idle=self.held,
            idle_gpu_hours=round(self.idle_seconds / 3600, 2),
            idle_cost=None if self.cost is None else round(self.cost, 2),
            memory_used_bytes=self.memory,
            jobs=len(self.jobs),
        )


def _jobs(survey: Survey) -> tuple[FleetJob, ...]:
    """Return the jobs of these hosts with what their GPUs do, also those that only devices name."""
    names = {name for host in survey.snapshot.hosts for name in (host.name, short(host.name))}
    jobs = [
        _job(job, survey.by_job.get(job.id, ()))
        for job in survey.jobs.values()
        if job.id in survey.by_job or not job.hosts or not names.isdisjoint(job.hosts)
    ]
    for name, rows in survey.by_job.items():
        if name not in survey.jobs:
            users = {user for row in rows for user in row.device.users}
            job = FleetJob(
                id=name,
                kind=job_kind(name),
                user=users.pop() if len(users) == 1 else None,
                devices=len(rows),
            )
            jobs.append(_job(job, rows))
    return tuple(sorted(jobs, key=lambda job: (-job.devices, job.id)))


def _job(job: FleetJob, rows: Sequence[GpuRow]) -> FleetJob:
    """Return a job with the mean and the least busy of its GPUs on hosts that answer."""
    if not rows:
        return job
    hosts = job.hosts or tuple(dict.fromkeys(host.name for host, _ in rows))
    percents = [
        percent
        for _, device in rows
        if (percent := device.gpu_utilization_percent) is not None and device.state == "ok"
    ]
    if not percents:
        return replace(job, hosts=hosts)
    return replace(
        job,
        hosts=hosts,
        busy=sum([device.status == _BUSY for _, device in rows]),
        gpu_utilization_percent=round(sum(percents) / len(percents), 1),
        min_gpu_utilization_percent=min(percents),
    )
