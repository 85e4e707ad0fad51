"""A simulated fleet: racks, jobs and users, and one of each fault.

Its boards, and how work shows on them, are those of the simulated hosts. Everything is a function
of seed, host, GPU and time, so an earlier instant or a chart is computed like the present.
"""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from math import ceil, inf
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.collect.simulated.boards import A100_PCIE, H100_SXM, L40S
from gpudash.collect.simulated.calls import average
from gpudash.collect.simulated.gpu import SimulatedGpu
from gpudash.collect.simulated.scene import GIB, Card, Scene
from gpudash.collect.simulated.scenes import NOTEBOOK, RESNET, rank, worker
from gpudash.collect.simulated.signals import PERIOD, Rhythm, wave
from gpudash.fleet.demo_faults import BLOCK, HOUR, MESSAGES, RACK, HostFault, faults, kept_busy
from gpudash.fleet.events import events
from gpudash.fleet.source import Reading, Source, chart_of
from gpudash.model.device import device_label
from gpudash.model.errors import UsageError
from gpudash.model.fleet import (
    ChartRequest,
    Event,
    FleetChart,
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetLine,
    FleetProcess,
    FleetRequest,
    FleetSnapshot,
    FleetSource,
)
from gpudash.model.report import Minute
from gpudash.model.text import SafeText, dashed
from gpudash.model.units import grouped, mean_known

_NAME = re.compile(r"fleet(?:-(\d{1,5})x(\d{1,2}))?")
_HOSTS, _GPUS = 1000, 8
_SLOT = 24 * HOUR
"""How long the jobs of a block of hosts run."""
_TICK = 5.0
_STEP = 60.0
"""Time between the instants of a past."""
_MEAN_OF = 32
"""Hosts that a chart of the whole fleet averages."""
_BOARDS = (H100_SXM, A100_PCIE, L40S)
PRICES = {"H100": 2.5, "A100": 1.5, "L40S": 0.9}
"""Per GPU hour, unless the settings have others."""
_USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy")


class _Task(NamedTuple):
    """What a GPU does: the `kind` of its work, and which share of its load."""

    job: FleetJob | None
    kind: str
    level: float
    since: float


def opened(options: Namespace, _settings: object) -> Iterator[DemoSource]:
    """Yield the fleet that --demo names; raises UsageError for another name."""
    match = _NAME.fullmatch(options.demo)
    if match is None:
        raise UsageError(
            f"--demo {options.demo!r}: expected fleet or fleet-HOSTSxGPUS, such as fleet-64x8"
        )
    yield DemoSource(int(match[1] or _HOSTS), int(match[2] or _GPUS))


class DemoSource(Source):
    """A `Source` of simulated hosts; `faults` are what goes wrong, none in a calm fleet."""

    def __init__(
        self,
        hosts: int = 1000,
        gpus: int = 8,
        *,
        seed: int = 1,
        is_calm: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._count, self._gpus, self._seed, self._clock = hosts, gpus, seed, clock
        self._start = clock() // 60 * 60
        self._is_calm = is_calm
        self.faults: tuple[HostFault, ...] = () if is_calm else faults(hosts, gpus)
        self._by_host = grouped((host, fault) for fault in self.faults for host in fault.hosts)
        self._planned = lru_cache(4 * hosts + 64)(self._plan)
        self._task = lru_cache(4 * hosts + 64)(self._task_of)
        digits = max(2, len(str(hosts)))
        self._names = [SafeText(f"gpu{host + 1:0{digits}d}") for host in range(hosts)]
        self._racks = [SafeText(f"r{host // RACK + 1:02d}") for host in range(hosts)]
        self._uuids = [self._uuid(f"GPU-{h}-{g}") for h in range(hosts) for g in range(gpus)]
        self._request, self._has_news = FleetRequest(), False
        self._happened: tuple[Event, ...] = ()

    def ask(self, request: FleetRequest) -> None:
        """Show another instant, and the past of metrics; the answer is available at once."""
        since, until = request.events_since, request.events_until
        known = self._request.events_since, self._request.events_until
        if since is not None and (since, until) != known:
            now = datetime.fromtimestamp(self._clock(), timezone.utc)
            self._happened = tuple(events(self.past(since, min(until or now, now))))
        self._request, self._has_news = request, True

    def due_in(self) -> float:
        """Return 0 while an answer is unread, so that it does not wait for the next sample."""
        return 0.0 if self._has_news else inf

    def advance(self) -> None:
        """Do nothing but end the wait: everything is computed when read."""
        self._has_news = False

    def read(self) -> Reading:
        """Return all hosts at present, or at the instant that was asked for."""
        at = self._request.at
        now = self._clock() if at is None else at.timestamp()
        hosts = tuple([self._host(host, now) for host in range(self._count)])
        report = FleetSource(
            kind="demo",
            name=SafeText(f"simulated, {self._count} x {self._gpus}"),
            age_seconds=0.0,
            answering_hosts=sum(host.state == "ok" for host in hosts),
            expected_hosts=self._count,
        )
        return Reading(
            report=report,
            hosts=hosts,
            jobs=self._jobs(now),
            at=at,
            charts=tuple(self._chart(request, now) for request in self._request.charts),
            events=self._happened,
            lasted={
                ("kept-alive", self._uuids[host * self._gpus + gpu]): seconds
                for (host, gpu), seconds in kept_busy(self.faults, now - self._start)
            },
        )

    def past(self, since: datetime, until: datetime) -> Iterator[FleetSnapshot]:
        """Yield a snapshot of each minute in which something changed, and of the end."""
        start, end = since.timestamp(), until.timestamp()
        name, count = SafeText(f"simulated, {self._count} x {self._gpus}"), self._count
        source = FleetSource(kind="demo", name=name, answering_hosts=count, within_seconds=_STEP)
        hosts = [self._host(host, start, is_brief=True) for host in range(self._count)]
        for at, changed in [(start, set[int]()), *self._changes(start, end)]:
            for host in changed:
                hosts[host] = self._host(host, at, is_brief=True)
            taken_at = datetime.fromtimestamp(at, timezone.utc)
            yield FleetSnapshot(taken_at=taken_at, sources=(source,), hosts=tuple(hosts))

    def minutes(self, since: datetime, until: datetime) -> Iterator[Minute]:
        """Yield the use of each host from one of its changes to the next."""
        from gpudash.fleet.report import steady_minute

        times = [[since.timestamp()] for _ in range(self._count)]
        for at, changed in self._changes(since.timestamp(), until.timestamp()):
            for host in changed if at < until.timestamp() else range(self._count):
                times[host].append(at)
        for host, some in enumerate(times):
            for begin, at in pairwise(some):
                seen = self._host(host, (begin + at) / 2)
                if seen.state == "ok":
                    yield steady_minute(seen, at - begin, datetime.fromtimestamp(at, timezone.utc))

    def _changes(self, start: float, end: float) -> list[tuple[float, set[int]]]:
        """Return when jobs and faults begin and end between two instants, and on which hosts."""
        found: dict[float, set[int]] = {end: set()}
        changes: list[tuple[float, Iterable[int]]] = [
            (self._start + at, fault.hosts)
            for fault in self.faults
            for at in (fault.at, fault.until)
        ]
        for first in range(0, self._count, BLOCK):
            hosts, phase = range(first, min(first + BLOCK, self._count)), _phase(first)
            slots = range(int((start + phase) // _SLOT) + 1, int((end + phase) // _SLOT) + 1)
            changes += [(slot * _SLOT - phase, hosts) for slot in slots]
        for at, changed in changes:
            if start < at <= end:
                found.setdefault(min(end, ceil(at / _STEP) * _STEP), set()).update(changed)
        return sorted(found.items())

    def _faults_at(self, host: int, now: float) -> list[HostFault]:
        now -= self._start
        return [fault for fault in self._by_host.get(host, ()) if fault.at <= now < fault.until]

    # Who works on what

    def _jobs(self, now: float) -> tuple[FleetJob, ...]:
        """Return the jobs with their GPUs and MIG instances, counted as Slurm does."""
        running: dict[str, tuple[_Task, list[SafeText]]] = {}
        for host, name in enumerate(self._names):
            tasks = self._tasks(host, now)
            if _is_divided(host, self._faults_at(host, now)):
                tasks = [tasks[0], *tasks]
            for task in tasks:
                if task.job is not None:
                    running.setdefault(task.job.id, (task, []))[1].append(name)
        return tuple(
            replace(
                task.job,
                hosts=tuple(dict.fromkeys(names)),
                devices=len(names),
                elapsed_seconds=max(0.0, now - task.since),
            )
            for task, names in running.values()
            if task.job is not None
        )

    def _uuid(self, text: str) -> SafeText:
        digest = blake2b(f"{self._seed}/{text}".encode(), digest_size=16).hexdigest()
        return SafeText(f"{text[:3]}-{dashed(digest)}")

    def _tasks(self, host: int, now: float) -> Sequence[_Task]:
        phase = _phase(host)
        slot = int((now + phase) // _SLOT)
        live = len(self._faults_at(host, now))
        return self._planned(host, slot, slot * _SLOT - phase, live)

    def _plan(self, host: int, slot: int, since: float, _live: int) -> Sequence[_Task]:
        """Return the task of each GPU of a host in a slot; `_live` changes when a fault begins."""
        tasks = self._usual(host, slot, since)
        for fault in self._by_host.get(host, ())[:_live]:
            if fault.load:
                key = f"{fault.kind}/{fault.hosts[0]}"
                task = self._task(key, fault.load, 1.0, self._start + fault.at, fault.user)
                for gpu in fault.gpus:
                    tasks[gpu] = task
        return tasks

    def _task_of(self, key: str, kind: str, level: float, since: float, user: str = "") -> _Task:
        """Return a task of the job with this key, or the idle task of a free GPU."""
        if kind == "free":
            return _Task(None, kind, level, since)
        dice = Random(f"{self._seed}/{key}")
        names = {"infer": "serve", "dev": "notebook"}
        job = FleetJob(
            id=SafeText(str(100_000 + dice.randrange(800_000))),
            name=SafeText(f"{names.get(kind, 'train')}-{dice.randrange(1 << 16):04x}"),
            user=SafeText(user or dice.choice(_USERS)),
            partition=SafeText("debug" if kind == "dev" else "gpu"),
            state=SafeText("RUNNING"),
            limit_seconds=48 * HOUR,
        )
        return _Task(job, kind, level, since)

    def _usual(self, host: int, slot: int, since: float) -> list[_Task]:
        block = host // BLOCK
        dice = Random(f"{self._seed}/{block}/{slot}")
        mode, level = dice.random(), 0.86 + dice.random() / 10
        if mode < 0.4 and (block + 1) * BLOCK <= self._count:
            return [self._task(f"b{block}/{slot}", "train", level, since)] * self._gpus
        own = Random(f"{self._seed}/{host}/{slot}/h")
        if mode < 0.75 or self._is_calm:
            is_free, is_served = own.random() < 0.04, own.random() < 0.33
            kind = "free" if is_free else "infer" if is_served else "train"
            task = self._task(f"h{host}/{slot}", kind, 0.6 + own.random() / 3, since)
            return [task] * self._gpus
        tasks: list[_Task] = []
        while len(tasks) < self._gpus:
            width = own.choice((1, 2))
            kind = "free" if own.random() < 0.15 else own.choice(("train", "infer", "dev"))
            key = f"g{host}/{slot}/{len(tasks)}"
            level = 0.0 if kind == "free" else 0.5 + own.random() / 2
            tasks += [self._task(key, kind, level, since)] * width
        return tasks[: self._gpus]

    # Numbers

    def _host(self, host: int, now: float, *, is_brief: bool = False) -> FleetHost:
        """Return a host at an instant; a brief one lacks ages and values that no event needs."""
        present = self._faults_at(host, now)
        kinds = {fault.kind: fault for fault in present}
        silent = kinds.get("down") or kinds.get("frozen")
        seen = (now if silent is None else self._start + silent.at) // _TICK * _TICK
        return FleetHost(
            name=self._names[host],
            group=self._racks[host],
            state="ok" if silent is None else "down" if silent.kind == "down" else "stale",
            message=None if silent is None else MESSAGES[silent.kind],
            age_seconds=None if is_brief else now - seen,
            expected_devices=self._gpus,
            driver_version=SafeText("535.247.01" if "skew" in kinds else "550.163.01"),
            cpu_percent=round(30 + 20 * wave(seen + 37 * host), 1),
            memory_used_bytes=(220 + host % 90) * GIB,
            memory_total_bytes=1024 * GIB,
            drain_reason=MESSAGES["draining"] if "draining" in kinds else None,
            slow_seconds={
                self._uuids[host * self._gpus + gpu]: now - self._start - each.at
                for each in present
                for gpu in each.gpus
                if each.kind in ("hot", "straggler")
            },
            devices=tuple(self._devices(host, seen, present, is_brief=is_brief)),
            processes=self._foreign(host, kinds.get("foreign")),
        )

    def _foreign(self, host: int, fault: HostFault | None) -> tuple[FleetProcess, ...] | None:
        """Return the processes beside the job of a GPU, None if processes are unknown."""
        if fault is None:
            return None
        uuids = tuple([self._uuids[host * self._gpus + gpu] for gpu in fault.gpus])
        return (FleetProcess(pid=41_377, username=SafeText(fault.user), uuids=uuids),)

    def _devices(
        self, host: int, now: float, present: Sequence[HostFault], *, is_brief: bool
    ) -> list[FleetDevice]:
        """Return the GPUs of a host; brief ones have holders and faults, but no other values."""
        board, began = (0, 0, 0, 1, 0, 2)[host // RACK % 6], now - self._start
        devices = []
        for gpu, task in enumerate(self._tasks(host, now)):
            since = {fault.kind: began - fault.at for fault in present if gpu in fault.gpus}
            read, job = _NOT_READ, task.job
            if not is_brief and "lost" not in since:
                flaw = "hot" if "hot" in since else "straggler" if "straggler" in since else ""
                second = int(now + 130 * host + 70 * gpu) % PERIOD
                read = _read(board, task.kind, round(10 * task.level), flaw, second)
            is_idle = read.gpu_utilization_percent == 0
            device = replace(
                read,
                index=gpu,
                label=device_label(gpu),
                uuid=self._uuids[host * self._gpus + gpu],
                name=SafeText(_BOARDS[board].name),
                state="lost" if "lost" in since else "ok",
                age_seconds=None if is_brief else since.get("lost"),
                idle_seconds=max(0.0, now - task.since) if is_idle else None,
                xid=74 if "xid" in since else None,
                xid_seconds=since.get("xid"),
                users=() if job is None or job.user is None else (job.user,),
                job=None if job is None else job.id,
            )
            devices.append(device)
        if _is_divided(host, present):
            devices[:1] = self._divided(devices[0])
        return devices

    def _divided(self, gpu: FleetDevice) -> list[FleetDevice]:
        """Return a GPU divided into two MIG instances, which report no utilization."""
        whole = replace(gpu, gpu_utilization_percent=None, idle_seconds=None)
        half = replace(
            whole,
            name=SafeText(f"{gpu.name} MIG 3g.40gb"),
            parent_uuid=gpu.uuid,
            memory_used_bytes=(gpu.memory_used_bytes or 0) // 2,
            memory_total_bytes=(gpu.memory_total_bytes or 0) // 2,
            temperature_celsius=None,
            power_usage_mw=None,
            enforced_power_limit_mw=None,
        )
        uuids = [self._uuid(f"MIG-{gpu.uuid}-{number}") for number in (1, 2)]
        halves = [
            replace(half, index=number, label=device_label(number, gpu.index), uuid=uuid)
            for number, uuid in enumerate(uuids, 1)
        ]
        return [whole, *halves]

    # The past

    def _chart(self, request: ChartRequest, end: float) -> FleetChart:
        """Return the past of a metric, computed like the present."""
        end = end if request.end is None else request.end.timestamp()
        step = request.span_seconds / (request.points - 1)
        times = [end - step * (request.points - 1 - i) for i in range(request.points)]
        names = set(request.hosts)
        chosen = range(0, self._count, 1 if names else -(-self._count // _MEAN_OF))
        hosts = [host for host in chosen if not names or self._names[host] in names]
        past = [[self._values(host, moment, request.metric) for moment in times] for host in hosts]
        if names:
            lines = [
                line
                for host, values in zip(hosts, past, strict=True)
                for line in self._lines(host, values, by_device=request.by_device)
            ]
        else:
            means = (mean_known(chain(*each)) for each in zip(*past, strict=True))
            lines = [FleetLine(values=tuple(means))]
        return chart_of(request, end, step, lines)

    def _lines(
        self, host: int, past: Sequence[Sequence[float | None]], *, by_device: bool
    ) -> list[FleetLine]:
        """Return the line of a host or those of its GPUs, whose values are cached for a moment."""
        name, first = self._names[host], host * self._gpus
        if not by_device:
            return [FleetLine(host=name, values=tuple(map(mean_known, past)))]
        return [
            FleetLine(host=name, uuid=self._uuids[first + gpu], index=gpu, values=values)
            for gpu, values in enumerate(zip(*past, strict=True))
        ]

    def _values(self, host: int, moment: float, metric: str) -> list[float | None]:
        known = self._host(host, moment)
        devices = [each for each in known.devices if each.parent_uuid is None]
        if known.state != "ok":
            return [None] * len(devices)
        values = [getattr(each, metric, None) for each in devices]
        return [value if isinstance(value, (int, float)) else None for value in values]


def _phase(host: int) -> float:
    """Return by how many seconds the jobs of a host begin before those of the first."""
    return (host // BLOCK * 7919 % 97) / 97 * _SLOT


@cache
def _gpu(board: int, kind: str, tenths: int, flaw: str) -> SimulatedGpu:
    """Return a GPU on which work of a kind runs at `tenths` of its full load."""
    model, programs = _BOARDS[board], []
    limit = 0.7 * model.power_limit if flaw == "straggler" else None
    card = Card(board=model, bus=0, inlet=50.0 if flaw == "hot" else 26.0, power_limit=limit)
    for each in _WORK.get(kind, ()):
        level, swing, _ = each.load
        # Without the dip, in which a job would do less on some of its GPUs than on others.
        load = Rhythm(level * tenths // 10, swing * tenths // 10)
        memory = min(each.memory, model.memory * 85 // 100)
        programs.append(replace(each, gpus=(0,), load=load, memory=memory))
    scene = Scene(name=kind, hostname=kind, cards=(card,), programs=tuple(programs))
    return SimulatedGpu(scene, 0, time.time)


@cache
def _read(board: int, kind: str, tenths: int, flaw: str, second: int) -> FleetDevice:
    """Return the values of that GPU in a second of `PERIOD`: thousands of GPUs share few."""
    gpu = _gpu(board, kind, tenths, flaw)
    moment = gpu.at(second)
    shares = [average(gpu, second, second + 1, metric) or 0.0 for metric in (2, 5, 10)]
    sm, tensor, dram = [round(each, 1) for each in shares]
    return FleetDevice(
        index=0,
        gpu_utilization_percent=float(moment.busy),
        sm_active_percent=sm,
        tensor_active_percent=tensor,
        dram_active_percent=dram,
        memory_used_bytes=gpu.memory_used(),
        memory_total_bytes=gpu.board.memory,
        temperature_celsius=moment.temperature,
        power_usage_mw=moment.average_power,
        enforced_power_limit_mw=round(1000 * gpu.power_limit),
        sm_clock_mhz=moment.sm_clock,
    )


def _is_divided(host: int, present: Sequence[HostFault]) -> bool:
    """Whether the first GPU of a host is divided into two MIG instances."""
    return host % 50 == 17 and not present


_NOT_READ = FleetDevice(index=0)
_WORK = {
    "train": (rank(0),),
    "infer": (worker(0),),
    "dev": (RESNET,),
    "held": (NOTEBOOK,),
    "kept-alive": (
        replace(RESNET, load=Rhythm(100), intensity=0.16, tensor=0.0004, bandwidth=0.006),
    ),
}
"""The programs of each kind of work; the other kinds have none."""
