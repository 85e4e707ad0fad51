"""A simulated host on which tasks come and go, and what a report of it has to say.

The truth is computed from the schedule alone: exactly, between the instants at which it changes.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.analysis.health.engine import Diagnosis
from gpudash.model.device import Device
from gpudash.model.process import Job, Process, ProcessDevice
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.text import SafeText, clean
from tests.factories import GIB, gpu_uuid, make_device, make_host, make_process, make_snapshot

START = datetime(2026, 11, 2, tzinfo=timezone.utc)
HOUR = 3600.0
PAUSE_SECONDS, NEW_SECONDS = 300.0, 30.0
"""For how long a process that has worked may rest, and a new one start, before it is idle."""
_IDLE_WATTS, _BUSY_WATTS = 70.0, 6.0
INSTANCES = ("MIG-a", "MIG-b", "MIG-c")
"""Of the last GPU; the utilization of the last one is not known."""
_TURNS = 4
"""How many tasks follow each other on an instance."""

Span = tuple[float, float]
Key = str | tuple[str, str | None]
"""A user, a user with a job, or a device."""


class Task(NamedTuple):
    """A process of a user on devices, and when it works there."""

    pid: int
    user: str
    job: str | None
    devices: tuple[str, ...]
    start: float
    end: float
    works: tuple[Span, ...]
    memory: int
    sm: int

    def is_working(self, at: float) -> bool:
        return any(start <= at < end for start, end in self.works)

    def is_idle(self, at: float, gap: Span) -> bool:
        """Whether it has been seen to rest for longer than a pause."""
        if self.is_working(at):
            return False
        seen = [(a, b) for a, b in self.works if b <= at and not gap[0] <= a <= b <= gap[1]]
        # What is there when watching begins is not new.
        new_seconds = NEW_SECONDS if self.start else 0.0
        since, pause = (seen[-1][1], PAUSE_SECONDS) if seen else (self.start, new_seconds)
        return at - (gap[1] if gap[0] <= since < gap[1] else since) >= pause


class Truth:
    """The columns of a row."""

    def __init__(self) -> None:
        self.values: dict[str, float] = defaultdict(float)
        self.periods: dict[str, int] = defaultdict(int)
        """How many times of a device without a break a column of seconds adds up."""
        self._ends: dict[tuple[str, str], float] = {}

    def add(self, device: str, span: Span, share: float, does: str, joules: float) -> None:
        start, end = span
        self.values["share_seconds"] += (end - start) * share
        for column in ("held_seconds", *([] if does == "works" else [f"{does}_seconds"])):
            self.values[column] += end - start
            self.periods[column] += self._ends.get((column, device)) != start
            self._ends[column, device] = end
        self.values["energy_mj"] += joules * 1000


class UsedHost:
    """The tasks of a host with GPUs, of which the last is divided, over some hours."""

    def __init__(self, gpus: int, tasks: int, hours: float, gap: Span, seed: int = 1) -> None:
        self.seconds, self.gap = hours * HOUR, gap
        self.gpus = [gpu_uuid(index) for index in range(gpus)]
        self.tasks = self._planned(random.Random(seed), tasks)
        self.hot = (gpu_uuid(0), (0.2 * self.seconds, 0.6 * self.seconds))
        """A device about which something is found, and when."""

    def _planned(self, draw: random.Random, count: int) -> list[Task]:
        whole = self.gpus[:-1]
        first = Task(
            1000, "ann", "8", tuple(whole[:8]), 0.1 * self.seconds, 0.7 * self.seconds,
            ((0.15 * self.seconds, 0.4 * self.seconds),), 20 * GIB, 40,
        )  # fmt: skip
        tasks = [first]
        for number in range(1, count):
            user = f"user{draw.randrange(max(3, count // 5))}"
            start = draw.random() * 0.8 * self.seconds
            end = min(start + draw.uniform(0.1, 0.5) * self.seconds, self.seconds)
            on, turn = draw.choice(whole), number // 8
            if number % 8 == 0 and turn <= _TURNS * len(INSTANCES):
                # The driver reports nothing of who works on an instance: one after the other.
                on = INSTANCES[turn % len(INSTANCES)]
                start = (turn - 1) // len(INSTANCES) / _TURNS * self.seconds
                end = start + draw.uniform(0.5, 0.9) / _TURNS * self.seconds
            cuts = sorted(draw.uniform(start, end) for _ in range(2 * draw.randrange(4)))
            # What is done between two samples is not seen.
            spans = zip(cuts[::2], cuts[1::2], strict=True)
            works = tuple(span for span in spans if span[1] - span[0] > 60)
            job = draw.choice([None, str(number), user])
            memory, sm = draw.randrange(2, 10) * GIB, draw.randrange(5, 25)
            tasks.append(Task(1000 + number, user, job, (on,), start, end, works, memory, sm))
        return tasks

    def gpu_of(self, device: str) -> str:
        return self.gpus[-1] if device in INSTANCES else device

    # The samples

    def samples(self, interval: float) -> Iterator[Snapshot]:
        """Every sample but those in the gap, as a collector gives them: one is at either end."""
        diagnosis = Diagnosis()
        energy = dict.fromkeys(self.gpus, 1e9)
        at, before = 0.0, 0.0
        while at <= self.seconds:
            for gpu in self.gpus:
                energy[gpu] += 1000 * self._joules(gpu, before, at)
            before = at
            if not self.gap[0] < at < self.gap[1]:
                taken = diagnosis.examine(self._sample(at, energy))
                yield replace(taken, findings=self._findings(at))
            at += interval

    def _findings(self, at: float) -> tuple[Finding, ...]:
        device, (start, end) = self.hot
        if not start <= at < end:
            return ()
        index = self.gpus.index(device)
        about = {"indices": (index,), "uuids": (device,)}
        return (Finding(rule="simulated", level="warn", sentence="", **about),)

    def _sample(self, at: float, energy: dict[str, float]) -> Snapshot:
        there = [task for task in self.tasks if task.start <= at < task.end]
        memory: dict[str, int] = defaultdict(int)
        load: dict[str, int] = defaultdict(int)
        for task in there:
            for device in task.devices:
                for key in {device, self.gpu_of(device)}:
                    memory[key] += task.memory
                    load[key] += task.sm * task.is_working(at)
        devices = [
            _gpu(index, gpu, memory[gpu], min(load[gpu], 100), int(energy[gpu]))
            for index, gpu in enumerate(self.gpus[:-1])
        ]
        devices += _divided(
            len(self.gpus) - 1, self.gpus[-1], memory, load, int(energy[self.gpus[-1]])
        )
        return make_snapshot(
            taken_at=START + timedelta(seconds=at),
            host=make_host(hostname=clean("box"), uptime_seconds=1e6 + at),
            devices=tuple(devices),
            processes=tuple(self._process(task, task.is_working(at)) for task in there),
            topology=None,
        )

    @cache  # noqa: B019 - a simulated host lives as long as its test
    def _process(self, task: Task, works: bool) -> Process:
        return make_process(
            pid=task.pid,
            username=SafeText(task.user),
            job=None if task.job is None else Job(kind="slurm", id=SafeText(task.job)),
            start_ticks=task.pid,
            cpu_percent=1.0,
            status="sleeping",
            devices=tuple(
                ProcessDevice(
                    index=self.gpus.index(self.gpu_of(device)),
                    uuid=device,
                    used_gpu_memory_bytes=task.memory,
                    sm_utilization_percent=None if device in INSTANCES else task.sm * works,
                )
                for device in task.devices
            ),
        )

    # The truth

    def _watts(self, gpu: str, at: float) -> float:
        on = [t for t in self._on[gpu] if t.start <= at < t.end and t.is_working(at)]
        return _IDLE_WATTS + _BUSY_WATTS * sum(
            task.sm for task in on for each in task.devices if self.gpu_of(each) == gpu
        )

    def _joules(self, gpu: str, start: float, end: float) -> float:
        """Energy between two instants that are close: the draw changes seldom."""
        cuts = [start, *(each for each in self._changes[gpu] if start < each < end), end]
        return sum((b - a) * self._watts(gpu, (a + b) / 2) for a, b in pairwise(cuts))

    @cached_property
    def _on(self) -> dict[str, list[Task]]:
        return {
            gpu: [task for task in self.tasks if gpu in map(self.gpu_of, task.devices)]
            for gpu in self.gpus
        }

    @cached_property
    def _changes(self) -> dict[str, list[float]]:
        """When something changes on each GPU, also that a pause has lasted too long."""
        found: dict[str, list[float]] = {}
        for gpu, tasks in self._on.items():
            after = self.gap[1]
            times = {0.0, self.seconds, *self.gap, after + NEW_SECONDS, after + PAUSE_SECONDS}
            for task in tasks:
                times |= {task.start, task.end, task.start + NEW_SECONDS}
                times |= {each for span in task.works for each in span}
                times |= {end + PAUSE_SECONDS for _, end in task.works}
            found[gpu] = sorted(each for each in times if 0 <= each <= self.seconds)
        return found

    @cached_property
    def truth(self) -> dict[str, dict[Key, dict[str, float]]]:
        """The columns of each row, by what the rows are."""
        return {
            kind: {key: {**row.values} for key, row in of.items()} for kind, of in self.rows.items()
        }

    @cached_property
    def rows(self) -> dict[str, dict[Key, Truth]]:
        rows: dict[str, dict[Key, Truth]] = {
            each: defaultdict(Truth) for each in ("user", "job", "gpu", "host")
        }
        for gpu in self.gpus:
            for start, end in pairwise(self._changes[gpu]):
                if not self.gap[0] <= start < self.gap[1]:
                    self._add(rows, gpu, start, end)
        for of_kind in rows.values():
            for key, row in of_kind.items():
                row.values["peak_memory_bytes"] = self._peak(key)
        return rows

    def _add(self, rows: dict[str, dict[Key, Truth]], gpu: str, start: float, end: float) -> None:
        at, seconds = (start + end) / 2, end - start
        joules = seconds * self._watts(gpu, at)
        rows["gpu"][gpu].values["energy_mj"] += 1000 * joules
        rows["host"]["box"].values["energy_mj"] += 1000 * joules
        for key in (gpu, *(INSTANCES if gpu == self.gpus[-1] else ())):
            rows["gpu"][key].values["seen_seconds"] += seconds
        rows["host"]["box"].values["seen_seconds"] += seconds
        held = [
            (each, task)
            for task in self._on[gpu]
            if task.start <= at < task.end
            for each in task.devices
            if self.gpu_of(each) == gpu
        ]
        if not held:
            return
        does = {each: self._does([t for d, t in held if d == each], each, at) for each, _ in held}
        for kind, key in (("gpu", gpu), ("host", "box")):
            rows[kind][key].add(gpu, (start, end), 1, _worst(list(does.values())), 0)
        for device in does if gpu == self.gpus[-1] else ():
            rows["gpu"][device].add(device, (start, end), 1 / len(does), does[device], 0)
        total = sum(task.sm * task.is_working(at) for _, task in held)
        is_known = gpu != self.gpus[-1] and total
        for kind in ("user", "job"):
            groups: dict[Key, list[tuple[str, Task]]] = defaultdict(list)
            for each, task in held:
                groups[_owner(task, kind)].append((each, task))
            for key, found in groups.items():
                share = sum(self._share(kind, key, each, held) for each in {d for d, _ in found})
                part = sum(t.sm * t.is_working(at) for _, t in found) / total if is_known else share
                worst = _worst([does[each] for each, _ in found])
                rows[kind][key].add(gpu, (start, end), share, worst, joules * part)

    def _share(self, kind: str, key: Key, device: str, held: list[tuple[str, Task]]) -> float:
        there = [task for each, task in held if each == device]
        user = key if kind == "user" else key[0]
        share = 1 / len({each for each, _ in held}) / len({task.user for task in there})
        if kind == "user":
            return share
        return share / len({task.job for task in there if task.user == user})

    def _does(self, tasks: Sequence[Task], device: str, at: float) -> str:
        if device == INSTANCES[-1]:
            return "unknown"
        return "idle" if all(task.is_idle(at, self.gap) for task in tasks) else "works"

    def _peak(self, key: Key) -> float:
        """The most memory at once."""

        def amount(task: Task) -> int:
            if key == "box":
                return task.memory * len(task.devices)
            if isinstance(key, tuple):
                return task.memory * len(task.devices) * (_owner(task, "job") == key)
            if task.user == key:
                return task.memory * len(task.devices)
            return task.memory * sum(key in (each, self.gpu_of(each)) for each in task.devices)

        starts = [t.start for t in self.tasks if not self.gap[0] <= t.start < self.gap[1]]
        times = [*starts, self.gap[0] - 1, self.gap[1]]
        return max(sum(amount(t) for t in self.tasks if t.start <= at < t.end) for at in times)


def _worst(does: list[str]) -> str:
    return next(each for each in ("idle", "unknown", "works") if each in does)


def _owner(task: Task, kind: str) -> Key:
    return task.user if kind == "user" else (task.user, task.job and f"slurm:{task.job}")


def _gpu(index: int, uuid: str, memory: int, load: int, energy: int) -> Device:
    return make_device(
        index=index,
        label=SafeText(str(index)),
        uuid=uuid,
        memory_used_bytes=memory,
        gpu_utilization_percent=load,
        total_energy_mj=energy,
    )


def _divided(
    index: int, uuid: str, memory: dict[str, int], load: dict[str, int], energy: int
) -> list[Device]:
    gpu = _gpu(index, uuid, memory[uuid], 0, energy)
    return [
        replace(gpu, mig_mode=True, gpu_utilization_percent=None),
        *(
            make_device(
                index=number,
                label=SafeText(f"{index}:{number}"),
                uuid=SafeText(each),
                parent_uuid=SafeText(uuid),
                memory_total_bytes=26 * GIB,
                memory_used_bytes=memory[each],
                gpu_utilization_percent=None,
                sm_active_percent=None if each == INSTANCES[-1] else float(min(load[each], 100)),
                total_energy_mj=None,
            )
            for number, each in enumerate(INSTANCES)
        ),
    ]
