"""Events: what changed from one snapshot to the next.

Snapshots may be recorded, of a Prometheus' past or live; the first has no predecessor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from msgspec.structs import replace

from gpudash.analysis.health.rules.reliability import meaning
from gpudash.fleet.identity import home_of, homes
from gpudash.fleet.last_seen import LastGpu, LastHost, LastJob
from gpudash.fleet.sources import DRAINING
from gpudash.fleet.summary import brief, statuses_of
from gpudash.model.device import device_label
from gpudash.model.fleet import (
    Event,
    EventKind,
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetSnapshot,
    HostKey,
    JobKey,
)
from gpudash.model.host_words import HOST_STATES
from gpudash.model.process import Lease
from gpudash.model.state import HOT, State, unreadable_state
from gpudash.model.text import SafeText, clean
from gpudash.model.units import counted

_OVER_SECONDS = 3600.0
"""How long a job may be missing with its hosts or GPUs until it counts as ended."""
RETURNED = "answers again", "is back"
"""Messages for hosts and GPUs that were lost before, not for new ones."""
EXCHANGED = "was exchanged for another GPU"
_HOT = HOT.id
_Held = Mapping[JobKey, tuple[int, SafeText | None]]
"""How many GPUs of a host each job has, and its user."""


class Changes:
    """Finds the events between each snapshot and the next."""

    def __init__(self) -> None:
        self._hosts: dict[HostKey, LastHost] = {}
        self._shown: tuple[FleetHost, ...] = ()
        """The hosts of the newest snapshot."""
        self._held: dict[HostKey, _Held] = {}
        """The jobs on each host, with their GPU count there and their user."""
        self._by_job: dict[JobKey, dict[HostKey, tuple[int, SafeText | None]]] = {}
        """The same, by job."""
        self._named: dict[JobKey, LastJob] = {}
        """The last state of each job, except for those in `_touched`."""
        self._touched: set[JobKey] = set()
        self._jobs: dict[JobKey, LastJob] = {}
        self._leases: dict[tuple[str, int | None], Lease] = {}
        self._asked: set[HostKey] = set()
        """Hosts that are there but have not answered yet."""
        self._fresh: set[str] = set()
        """Hosts that first appear in the newest snapshot."""
        self._lost: list[tuple[SafeText | None, LastGpu]] = []
        """GPUs first lost in the newest snapshot, with no job on them; each with its cluster."""
        self._outliers: frozenset[str] = frozenset()
        """GPUs that are hotter than others but not slowed down."""
        self._left: set[HostKey | str] = set()
        """Hosts first missing in the newest snapshot, also by name alone."""
        self._last: datetime | None = None
        """When the newest snapshot was taken; None before the first."""
        self._oldest_seconds = 0.0
        """Age of its oldest values."""
        self._knows_drained = False
        """Whether a scheduler shows in the newest snapshot which hosts are drained."""
        self._within = 0.0
        """How long before the newest snapshot its changes may have happened, in seconds."""

    def add(self, snapshot: FleetSnapshot, leases: Sequence[Lease] = ()) -> list[Event]:
        """Return the events since the last snapshot; `leases` are those of its one host.

        Hosts that are still being asked, are powered down or have only old values cause no events.
        """
        if not self._hosts and not snapshot.hosts:
            # The next snapshot has no predecessor.
            return []
        self._fresh.clear()
        self._lost.clear()
        self._left.clear()
        self._within = self._within_seconds(snapshot)
        self._knows_drained = any(
            each.kind in DRAINING and each.state == "ok" and each.answering_hosts
            for each in snapshot.sources
        )
        hotter = (each.uuids for each in snapshot.findings if each.rule == "hot-outlier")
        self._outliers = frozenset(chain.from_iterable(hotter))
        # Nearly all of thousands of hosts, when the past is read.
        same = set(map(id, self._shown))
        changed = [host for host in snapshot.hosts if id(host) not in same]
        self._shown = snapshot.hosts
        self._follow(snapshot.hosts)
        found = [event for host in changed for event in self._host(host, snapshot.taken_at)]
        found += self._gone(snapshot)
        found += self._jobs_of(snapshot)
        found += self._leases_of(snapshot, leases)
        is_first, self._last = self._last is None, snapshot.taken_at
        return [] if is_first else [*map(self._dated, found)]

    def _dated(self, event: Event) -> Event:
        """Return an event with the precision of its time; `_last` is the time of its snapshot."""
        return replace(event, within_seconds=self._within) if event.at == self._last else event

    def _within_seconds(self, snapshot: FleetSnapshot) -> float:
        known = max((each.within_seconds or 0.0 for each in snapshot.sources), default=0.0)
        if known:
            return known
        seconds = (snapshot.taken_at - (self._last or snapshot.taken_at)).total_seconds()
        seconds += self._oldest_seconds
        ages = [host.age_seconds for host in snapshot.hosts if host.state == "ok"]
        self._oldest_seconds = max(filter(None, ages), default=0.0)
        return round(max(0.0, seconds), 1)

    # Hosts

    def _host(self, host: FleetHost, at: datetime) -> Iterator[Event]:
        known = self._hosts.get(host.key)
        if host.state in ("connecting", "powered-down", "stale"):
            self._asked.add(host.key)
            return
        is_down = host.state != "ok"
        if known is None:
            known = self._hosts[host.key] = LastHost(host, is_down=is_down)
            self._fresh.add(host.name)
            is_news = self._last is not None and host.key not in self._asked
            self._asked.discard(host.key)
            if not is_down and is_news:
                yield _of_host("host-up", host, at, "is new here")
        known.host = host
        if self._knows_drained:
            was_drained, known.is_drained = known.is_drained, host.drain_reason is not None
            if was_drained is not None and was_drained is not known.is_drained:
                kind: EventKind = "drained" if known.is_drained else "undrained"
                yield _of_host(kind, host, at, host.drain_reason or "may have jobs again")
        if is_down != known.is_down:
            known.is_down = is_down
            why = f": {host.message}" if is_down and host.message else ""
            words = f"{HOST_STATES[host.state].sentence}{why}" if is_down else RETURNED[0]
            kind = "host-down" if is_down else "host-up"
            began = self._began(at, host.age_seconds) if is_down else at
            event = _of_host(kind, host, began, words)
            yield replace(event, job=self._jobs_on(host.key)) if is_down else event
        if is_down:
            self._hold(host.key, None)
        else:
            yield from self._gpus(host, known, at)

    def _follow(self, hosts: Sequence[FleetHost]) -> None:
        """Carry over the state of renamed hosts, recognised by their GPUs."""
        known = self._hosts
        gone = known.keys() - {host.key for host in hosts}
        new = homes(
            (each.uuid, one.key)
            for one in (hosts if gone else ())
            for each in one.devices
            if each.uuid and (one.key not in known or each.key not in known[one.key].gpus)
        )
        for key in gone:
            uuids = [gpu.uuid for gpu in known[key].gpus.values() if gpu.uuid]
            if (home := home_of(uuids, new)) is not None:
                before = known.pop(key)
                host = known.setdefault(home, before)
                host.gpus = host.gpus or before.gpus
                self._hold(key, None)

    def _gone(self, snapshot: FleetSnapshot) -> Iterator[Event]:
        """Yield hosts that have left the snapshot, if all sources have answered."""
        if any(each.state != "ok" or each.warnings for each in snapshot.sources):
            return
        there = {(host.cluster, host.name) for host in snapshot.hosts}
        self._asked &= there
        for key in self._hosts.keys() - there:
            known = self._hosts.pop(key)
            self._left |= {key, key[1]}
            self._hold(key, None)
            if not known.is_down:
                gone = _of_host("host-down", known.host, snapshot.taken_at, "is not there any more")
                yield replace(gone, job=self._jobs_on(key))

    # GPUs

    def _gpus(self, host: FleetHost, known: LastHost, at: datetime) -> Iterator[Event]:
        is_new, gpus, count = not known.gpus, known.gpus, 0
        has_changed = is_new or host.key not in self._held
        added: list[LastGpu] = []
        moved: list[str] = []
        on = _jobs_by_gpu(host)
        for device in host.devices:
            if device.parent_uuid is not None:
                has_changed = True
                continue
            count += 1
            gpu, is_hot, jobs = known.gpu(device), self._is_hot(device), on.get(_gpu(device), ())
            if gpu is not None and gpu.is_like(device, jobs, is_hot=is_hot):
                # Nearly all of thousands.
                continue
            has_changed = True
            if gpu is None:
                gpu = gpus[device.key] = LastGpu(device.index, device.uuid)
                if not is_new and unreadable_state(device) is None:
                    added.append(gpu)
            elif not is_new:
                if device.index != gpu.index:
                    moved.append(f"{device.index} was {gpu.index}")
                    gpu.index = device.index
                yield from self._changes(host, gpu, device, jobs, at)
            state = _problem(device)
            if state is not None and gpu.problem is None and not jobs:
                self._lost.append((host.cluster, gpu))
            gpu.problem = None if state is None else state.id
            if state is None:
                gpu.xid, gpu.is_hot, gpu.jobs = device.xid, is_hot, jobs
        if has_changed or count < len(gpus):
            self._hold(host.key, _held(host))
            known.has_lost = any(gpu.problem is not None for gpu in gpus.values())
        if moved:
            words = f"its GPUs have other indices: {brief(tuple(moved), 4)}"
            yield _of_host("renumbered", host, at, words)
        if count < len(gpus):
            yield from self._gone_gpus(host, known, at, added)
        for gpu in added:
            yield _of_gpu("gpu-returned", host, gpu, at, "is new here")

    def _gone_gpus(
        self, host: FleetHost, known: LastHost, at: datetime, added: list[LastGpu]
    ) -> Iterator[Event]:
        """Yield GPUs that are gone; those replaced by new ones count as exchanged.

        GPUs lost before are matched with new ones first.
        """
        left = known.gpus.keys() - {each.key for each in host.devices}
        for key in sorted(left, key=lambda key: (known.gpus[key].problem is None, key)):
            gpu = known.gpus[key]
            if added:
                added.pop(0)
                del known.gpus[key]
                yield _of_gpu("gpu-returned", host, gpu, at, EXCHANGED)
            elif gpu.problem is None:
                gpu.problem, known.has_lost = "gone", True
                self._lost.append((host.cluster, gpu))
                yield _of_gpu(
                    "gpu-lost", host, gpu, at, "is not there any more", job=_brief(gpu.jobs)
                )

    def _changes(
        self,
        host: FleetHost,
        gpu: LastGpu,
        device: FleetDevice,
        jobs: tuple[SafeText, ...],
        at: datetime,
    ) -> Iterator[Event]:
        """Yield the events of a GPU since it was last seen."""
        job = _brief(jobs or gpu.jobs)
        state = _problem(device)
        if state is not None and gpu.problem is None:
            began = self._began(at, device.age_seconds)
            yield _of_gpu("gpu-lost", host, gpu, began, state.sentence, job=job)
        elif state is None and gpu.problem is not None:
            yield _of_gpu("gpu-returned", host, gpu, at, RETURNED[1])
        if device.xid_seconds is not None and device.xid is not None and device.xid != gpu.xid:
            text = f"XID {device.xid}: {meaning(device.xid).text}"
            began = self._began(at, device.xid_seconds)
            yield _of_gpu("xid", host, gpu, began, text, job=job, xid=device.xid)
        is_hot = self._is_hot(device)
        if is_hot is not gpu.is_hot and state is None:
            words = HOT.sentence if is_hot else "is not throttled any more"
            began = self._began(at, host.slow_seconds.get(gpu.uuid or "") if is_hot else None)
            kind: EventKind = "throttled" if is_hot else "unthrottled"
            yield _of_gpu(kind, host, gpu, began, words, job=job)

    def _is_hot(self, device: FleetDevice) -> bool:
        return device.status == _HOT and device.uuid not in self._outliers

    def _began(self, at: datetime, seconds: float | None) -> datetime:
        """Return when a state that has lasted this long began, not before the last snapshot."""
        if not seconds or self._last is None:
            return at
        return max(self._last, at - timedelta(seconds=seconds))

    # Jobs and leases

    def _jobs_of(self, snapshot: FleetSnapshot) -> Iterator[Event]:
        """Yield jobs that began, and those that ended if all of their hosts can be seen.

        If all hosts or GPUs of a job are lost, its state is unknown until one of them is back, or
        until it has been missing for so long that it counts as ended at the loss.
        """
        running = self._running(snapshot)
        began = sorted(running.keys() - self._jobs.keys(), key=_by_id)
        ended = sorted(self._jobs.keys() - running.keys(), key=_by_id)
        for cluster, gpu in self._lost:
            # Jobs that still run go on without that GPU.
            gpu.jobs = tuple(job for job in gpu.jobs if (cluster, job) not in running)
        lost, unseen = (self._lost_with(), self._unseen(snapshot)) if ended else ({}, set())
        for job in ended:
            known, at = self._jobs[job], snapshot.taken_at
            is_unseen = not unseen.isdisjoint(known.hosts)
            if is_unseen or known.is_lost(lost.get(job, 0)):
                running[job] = known
                yield from self._missed(job, known, at, "host" if is_unseen else "GPUs")
            elif not known.is_over:
                has_left = not self._left.isdisjoint(known.hosts)
                yield _of_job("job-ended", job, known, at, lost_with="host" if has_left else "")
        for job in began:
            names = {each if isinstance(each, str) else each[1] for each in running[job].hosts}
            # Jobs on hosts not seen before may have run for long.
            if names <= self._fresh:
                continue
            yield _of_job("job-began", job, running[job], snapshot.taken_at)
        self._jobs = running

    def _jobs_on(self, key: HostKey) -> SafeText | None:
        """Return the jobs on a host in the last snapshot, None if none is known."""
        on = {key, key[1]}
        jobs = [job for (_, job), each in self._jobs.items() if not on.isdisjoint(each.hosts)]
        return clean(brief(tuple(sorted(jobs)))) if jobs else None

    def _missed(self, job: JobKey, known: LastJob, at: datetime, what: str) -> Iterator[Event]:
        """Yield the end of a job that has been missing for long."""
        if known.missed is None:
            gone = _of_job("job-ended", job, known, at, lost_with=what)
            known.missed = replace(gone, within_seconds=self._within)
        elif not known.is_over and (at - known.missed.at).total_seconds() >= _OVER_SECONDS:
            known.is_over = True
            yield known.missed

    def _lost_with(self) -> Mapping[JobKey, int]:
        """Return how many lost GPUs each job had."""
        return Counter(
            (cluster, job)
            for (cluster, _), each in self._hosts.items()
            if each.has_lost
            for gpu in each.gpus.values()
            if gpu.problem is not None
            for job in gpu.jobs
        )

    def _unseen(self, snapshot: FleetSnapshot) -> set[HostKey | str]:
        """Return the hosts, also by name alone, whose jobs are unknown."""
        found = [key for key, each in self._hosts.items() if each.is_down]
        found += [host.key for host in snapshot.hosts if host.state != "ok"]
        return {name for key in found for name in (key, key[1])}

    def _hold(self, key: HostKey, held: _Held | None) -> None:
        """Store which jobs have devices of a host, None if unknown."""
        before = self._held.pop(key, {})
        if held is not None:
            self._held[key] = held
        for job in before:
            del self._by_job[job][key]
        for job, share in (held or {}).items():
            self._by_job.setdefault(job, {})[key] = share
        self._touched.update(before, held or ())

    def _running(self, snapshot: FleetSnapshot) -> dict[JobKey, LastJob]:
        for job in self._touched:
            on = self._by_job[job]
            if on:
                users = (user for _, user in on.values())
                count = sum(count for count, _ in on.values())
                self._named[job] = LastJob(frozenset(on), count, next(filter(None, users), None))
            else:
                del self._by_job[job]
                self._named.pop(job, None)
        self._touched.clear()
        running = {**self._named}
        for each in snapshot.jobs:
            if each.hosts and each.state in (None, "RUNNING"):
                known, is_scheduled = running.get(each.key), each.state is not None
                # A job known only by labels has the GPUs that name it at present, or is over.
                if not is_scheduled and (known or each.key in self._lost_with()):
                    continue
                hosts = _places(each)
                if not is_scheduled and self._unseen(snapshot) >= hosts:
                    continue
                known = known or LastJob(frozenset(), 0)
                devices, user = each.devices or known.devices, each.user or known.user
                running[each.key] = LastJob(hosts, devices, user, is_scheduled)
        return running

    def _leases_of(self, snapshot: FleetSnapshot, leases: Sequence[Lease]) -> Iterator[Event]:
        there = {(each.uuid, each.pid): each for each in leases}
        hosts = snapshot.hosts
        kinds: tuple[EventKind, EventKind] = "lease-taken", "lease-ended"
        for kind, known, others in zip(
            kinds, (there, self._leases), (self._leases, there), strict=True
        ):
            for key in known.keys() - others.keys() if hosts else ():
                lease = known[key]
                who = f"{lease.username or 'unknown'}, PID {lease.pid or '?'}"
                gpu = LastGpu(lease.index, clean(lease.uuid))
                yield _of_gpu(kind, hosts[0], gpu, snapshot.taken_at, who, user=lease.username)
        self._leases = there


def events(snapshots: Iterable[FleetSnapshot]) -> Iterator[Event]:
    """Yield the events between each snapshot and the next."""
    changes = Changes()
    for snapshot in snapshots:
        yield from changes.add(snapshot)


def _by_id(job: JobKey) -> tuple[str, str]:
    return job[1], job[0] or ""


def _places(job: FleetJob) -> frozenset[HostKey | str]:
    """Return the hosts of a job, by name alone if its cluster is unknown."""
    cluster = job.cluster
    return frozenset(name if cluster is None else (cluster, name) for name in job.hosts)


def _jobs_by_gpu(host: FleetHost) -> Mapping[str, tuple[SafeText, ...]]:
    """Return the jobs of each GPU of a host, including those of its MIG instances."""
    found: dict[str, tuple[SafeText, ...]] = {}
    for each in host.devices:
        if each.job is not None:
            gpu = _gpu(each)
            jobs = found.get(gpu, ())
            found[gpu] = jobs if each.job in jobs else tuple(sorted((*jobs, each.job)))
    return found


def _gpu(device: FleetDevice) -> str:
    return device.parent_uuid or device.uuid or device_label(device.index)


def _brief(jobs: Sequence[SafeText]) -> SafeText | None:
    return clean(brief(tuple(jobs))) if jobs else None


def _held(host: FleetHost) -> _Held:
    jobs = {each.job for each in host.devices if each.job is not None and not _problem(each)}
    held = {job: [each for each in host.devices if each.job == job] for job in jobs}
    return {
        (host.cluster, job): (
            len(statuses_of(some)),
            next((user for each in some for user in each.users), None),
        )
        for job, some in held.items()
    }


def _problem(device: FleetDevice) -> State | None:
    state = unreadable_state(device)
    return state if state is not None and state.is_problem else None


def _of_host(kind: EventKind, host: FleetHost, at: datetime, words: str) -> Event:
    return Event(at=at, kind=kind, host=host.name, cluster=host.cluster, what=clean(words))


def _of_gpu(
    kind: EventKind, host: FleetHost, gpu: LastGpu, at: datetime, words: str, **known: Any
) -> Event:
    return replace(
        _of_host(kind, host, at, words), gpu=device_label(gpu.index), uuid=gpu.uuid, **known
    )


def _of_job(
    kind: EventKind, job: JobKey, known: LastJob, at: datetime, *, lost_with: str = ""
) -> Event:
    names = sorted(each if isinstance(each, str) else each[1] for each in known.hosts)
    on = "" if len(names) == 1 else f" on {brief(tuple(names), 3)}"
    how = f", ended or lost with its {lost_with}" if lost_with else ""
    cluster, number = job
    return Event(
        at=at,
        kind=kind,
        host=None if on else clean(names[0]),
        cluster=None if cluster is None else clean(cluster),
        job=clean(number),
        user=known.user,
        what=clean(f"{counted(known.devices, 'GPU')}{on}{how}"),
    )
