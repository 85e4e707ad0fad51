"""The operating system's half of a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from math import pi, sin

from gpudash.collect.simulated.gpu import boot_time, start_time
from gpudash.collect.simulated.scene import Program, Scene
from gpudash.collect.simulated.signals import key, mix, wobble
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import EXITED, Lease, Process
from gpudash.model.snapshot import Host
from gpudash.model.text import clean

_LOAD_PERIOD = 280.0
_TICKS_PER_SECOND = 100


class SimulatedReader:
    """A HostReader of what a scene declares, with small variations over time."""

    def __init__(self, scene: Scene, clock: Callable[[], float], seed: int) -> None:
        self._scene = scene
        self._clock = clock
        self._seed = mix(seed, key(scene.name))
        self._programs = {program.pid: program for program in scene.programs}

    def host(self, *, with_load: bool = True) -> Host:
        """Return the machine; the driver's versions are left None for NVML to fill in."""
        scene, now = self._scene, self._clock()
        used = scene.memory_used + sum(p.resident_memory for p in scene.programs)
        return Host(
            hostname=clean(scene.hostname),
            simulated=True,
            cpu_count=scene.cpu_count,
            cpu_percent=round(min(100.0, self._cpu_percent(now)), 1),
            memory_total_bytes=scene.memory,
            memory_used_bytes=used,
            memory_available_bytes=scene.memory - used,
            swap_total_bytes=scene.swap,
            swap_used_bytes=scene.swap // 16,
            load_average=self._load_average(now),
            uptime_seconds=now - boot_time(now),
        )

    def processes(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        """Return one entry for every PID; one that the scene does not have is gone."""
        now = self._clock()
        return {pid: self._process(pid, now) for pid in pids}

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        """Return the holders that the scene declares; its cards are numbered like their nodes."""
        cards = self._scene.cards
        return {minor: Holders(cards[minor].holders, complete=True) for minor in minors}

    def begin(self) -> None:
        """Do nothing: all is at hand."""

    def leases(
        self, devices: Sequence[Device], processes: Sequence[Process], unlisted: Set[str]
    ) -> tuple[Lease, ...]:
        """Return the leases that the scene's programs hold."""
        now = self._clock()
        return tuple(
            _lease(device, program, self._process(program.pid, now))
            for device in devices
            for program in self._scene.programs
            if device.uuid is not None and not device.is_mig and device.index in program.leases
        )

    def faults(self) -> tuple[Fault, ...]:
        """Return nothing: all of a simulated host is visible."""
        return ()

    def _process(self, pid: int, now: float) -> Process:
        program = self._programs.get(pid)
        if program is None:
            return Process(pid=pid, devices=(), hidden_reason=EXITED)
        started = start_time(program, now)
        return Process(
            pid=pid,
            devices=(),
            username=clean(program.username),
            name=clean(program.command_line[0].rpartition("/")[2]),
            command_line=tuple(map(clean, program.command_line)),
            cpu_percent=round(self._share(program, now), 1),
            resident_memory_bytes=program.resident_memory,
            create_time=started,
            start_ticks=round((started - boot_time(now)) * _TICKS_PER_SECOND),
            status=program.status,
            parent_pid=program.parent_pid,
            job=program.job,
        )

    def _share(self, program: Program, now: float) -> float:
        """Return a program's CPU time in percent of one core; it changes every second."""
        return program.cpu_percent * (1 + 0.06 * wobble(self._seed, program.pid, int(now // 1)))

    def _cpu_percent(self, now: float) -> float:
        programs = sum(self._share(program, now) for program in self._scene.programs)
        others = self._scene.cpu_percent * (1 + 0.2 * wobble(self._seed, int(now // 1)))
        return others + programs / self._scene.cpu_count

    def _load_average(self, now: float) -> tuple[float, float, float]:
        """Return runnable tasks: the CPUs in use, swinging the less the longer the average."""
        scene = self._scene
        busy = sum(p.cpu_percent for p in scene.programs) / 100
        base = busy + scene.cpu_percent / 100 * scene.cpu_count
        swing = sin(2 * pi * now / _LOAD_PERIOD)
        one, five, fifteen = (round(base * (1 + part * swing), 2) for part in (0.08, 0.04, 0.01))
        return one, five, fifteen


def _lease(device: Device, program: Program, process: Process) -> Lease:
    assert device.uuid is not None
    return Lease(
        uuid=device.uuid,
        index=device.index,
        pid=process.pid,
        start_ticks=process.start_ticks,
        create_time=process.create_time,
        username=process.username,
        name=process.name,
        is_used=any(share.gpu == device.index for share in program.shares),
    )
