"""The operating system's half of a simulated host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set

from gpudash.collect.simulated.gpu import boot_time, start_time
from gpudash.collect.simulated.scene import Scene
from gpudash.collect.simulated.signals import wave
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import EXITED, Lease, Process
from gpudash.model.snapshot import Host
from gpudash.model.text import clean

_TICKS_PER_SECOND = 100


class SimulatedReader:
    """A HostReader of what a scene declares, with small variations over time."""

    def __init__(self, scene: Scene, clock: Callable[[], float]) -> None:
        self._scene = scene
        self._clock = clock
        self._programs = {program.pid: program for program in scene.programs}

    def host(self) -> Host:
        """Return the machine; the driver's versions are left None for NVML to fill in."""
        scene, now = self._scene, self._clock()
        used = scene.memory_used + sum(p.resident_memory for p in scene.programs)
        one, five, fifteen = (self._cpus_in_use(now, swing) for swing in (0.08, 0.04, 0.01))
        return Host(
            hostname=clean(scene.hostname),
            simulated=True,
            cpu_count=scene.cpu_count,
            cpu_percent=round(100 * self._cpus_in_use(now, 0.1) / scene.cpu_count, 1),
            memory_total_bytes=scene.memory,
            memory_used_bytes=used,
            memory_available_bytes=scene.memory - used,
            swap_total_bytes=scene.swap,
            swap_used_bytes=scene.swap // 16,
            load_average=(round(one, 2), round(five, 2), round(fifteen, 2)),
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
            Lease(
                uuid=device.uuid,
                index=device.index,
                pid=process.pid,
                start_ticks=process.start_ticks,
                create_time=process.create_time,
                username=process.username,
                name=process.name,
                is_used=device.index in program.gpus + program.holds,
            )
            for device in devices
            for program in self._scene.programs
            if device.uuid is not None and not device.is_mig and device.index in program.leases
            for process in [self._process(program.pid, now)]
        )

    def faults(self) -> tuple[Fault, ...]:
        """Return nothing: all of a simulated host is visible."""
        return ()

    def _process(self, pid: int, now: float) -> Process:
        program = self._programs.get(pid)
        if program is None:
            return Process(pid=pid, devices=(), hidden_reason=EXITED)
        started = start_time(program, now)
        command_line = tuple(map(clean, program.command.split()))
        return Process(
            pid=pid,
            devices=(),
            username=clean(program.username),
            name=clean(command_line[0].rpartition("/")[2]),
            command_line=command_line,
            cpu_percent=round(program.cpu_percent * (1 + 0.06 * wave(now + pid)), 1),
            resident_memory_bytes=program.resident_memory,
            create_time=started,
            start_ticks=round((started - boot_time(now)) * _TICKS_PER_SECOND),
            status="running" if program.cpu_percent > 50 else "sleeping",
            parent_pid=program.parent_pid,
            job=program.job,
        )

    def _cpus_in_use(self, now: float, swing: float) -> float:
        scene = self._scene
        programs = sum(program.cpu_percent for program in scene.programs)
        busy = (scene.cpu_percent * scene.cpu_count + programs) / 100
        return busy * (1 + swing * wave(now))
