"""Made-up hosts that speak NVML's functions, so that the reader of real ones reads them too.

`gpudash --demo=NAME` shows one. Values move as on a working machine and are a pure function of
host and clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial
from types import SimpleNamespace
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import UNKNOWN, Identity
from gpudash.collect.simulated.calls import (
    GPU_CALLS,
    INSTANCE_CALLS,
    NVMLError,
    compute,
    metrics_request,
    wait,
)
from gpudash.collect.simulated.gpu import Instance, SimulatedGpu, boot_time, start_time
from gpudash.collect.simulated.scene import Scene
from gpudash.collect.simulated.scenes import SCENES, load
from gpudash.collect.simulated.signals import wave
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import EXITED, Lease, Process
from gpudash.model.snapshot import Host
from gpudash.model.text import clean

NAMES = tuple(SCENES)
"""Every simulated host, the default first."""

_TICKS_PER_SECOND = 100


class SimulatedHost:
    """A host by name: its NVML, its PCI devices' power states and its operating system."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        """Raise UsageError, which lists the valid hosts, for an unknown name."""
        self._scene = load(name)
        self.library = SimulatedLibrary(self._scene, clock)
        self.reader = SimulatedReader(self._scene, clock)

    def identity(self, address: str) -> Identity:
        """Return name and UUID of the GPU at a PCI address, as known without waking it."""
        found = [gpu for gpu in self.library.gpus if gpu.card.pci_address == address]
        return Identity(found[0].board.name, found[0].uuid) if found else UNKNOWN

    def driver_load(self) -> None:
        """Return None: a simulated driver is loaded once."""

    def power_states(self) -> dict[str, str]:
        """Return the runtime power status of each GPU by PCI address; asking wakes nothing."""
        return {
            card.pci_address: "suspended" if card.state == "suspended" else "active"
            for card in self._scene.cards
        }


class SimulatedLibrary:
    """NVML of one scene: pynvml's functions and constants by attribute.

    `woken` collects the PCI addresses of sleeping GPUs that were touched. A handle is the GPU or
    instance itself, recreated by each initialization. A call in no table is answered with
    NOT_SUPPORTED, as by a driver that does not know it.
    """

    NVML_INIT_FLAG_NO_GPUS = 1
    NVML_GPM_METRICS_GET_VERSION = 1
    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLError
    c_nvmlGpmMetricsGet_t = staticmethod(metrics_request)  # noqa: N815

    def __init__(self, scene: Scene, clock: Callable[[], float]) -> None:
        self.woken: set[str] = set()
        self._scene = scene
        self._clock = clock
        self.gpus = self._new_gpus()
        self._users = 0
        nvml = f"{scene.cuda_version // 1000}.{scene.driver_version}"
        self._host_calls: dict[str, Callable[..., Any]] = {
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": self._by_index,
            "nvmlDeviceGetMigDeviceHandleByIndex": self._instance,
            "nvmlSystemGetDriverVersion": lambda: scene.driver_version,
            "nvmlSystemGetNVMLVersion": lambda: nvml,
            "nvmlSystemGetCudaDriverVersion_v2": lambda: scene.cuda_version,
            "nvmlEventSetCreate": SimpleNamespace,
            "nvmlEventSetFree": lambda events: 0,
            "nvmlEventSetWait_v2": wait,
            "nvmlGpmSampleAlloc": SimpleNamespace,
            "nvmlGpmSampleFree": lambda sample: 0,
            "nvmlGpmMetricsGet": compute,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        call = partial(self._answer, name)
        vars(self)[name] = call
        return call

    def nvmlInitWithFlags(self, flags: int = 0) -> None:  # noqa: N802
        """Initialise; earlier handles become invalid."""
        if not self._users:
            self.gpus = self._new_gpus()
        self._users += 1

    nvmlInit = nvmlInitWithFlags  # noqa: N815

    def _shutdown(self) -> int:
        self._users -= 1
        return 0

    def _new_gpus(self) -> tuple[SimulatedGpu, ...]:
        scene = self._scene
        return tuple(SimulatedGpu(scene, index, self._clock) for index in range(len(scene.cards)))

    def _answer(self, name: str, *arguments: Any) -> Any:
        """Answer one call; a table's None is NOT_SUPPORTED."""
        if not self._users:
            raise NVMLError(codes.UNINITIALIZED)
        for each in arguments:
            if isinstance(each, (SimulatedGpu, Instance)):
                self._touch(each.gpu)
        calls = self._host_calls
        if name not in calls:
            calls = INSTANCE_CALLS if isinstance(arguments[0], Instance) else GPU_CALLS
        call = calls.get(name)
        value = call and call(*arguments)
        if value is None:
            raise NVMLError(codes.NOT_SUPPORTED)
        return value

    def _touch(self, gpu: SimulatedGpu) -> None:
        """Note that a sleeping GPU was woken.

        Raises NVMLError for one that fell off the bus, or of an earlier initialization.
        """
        if gpu is not self.gpus[gpu.index]:
            raise NVMLError(codes.INVALID_ARGUMENT)
        if gpu.card.state == "lost":
            raise NVMLError(codes.GPU_IS_LOST)
        if gpu.card.state == "suspended":
            self.woken.add(gpu.card.pci_address)

    def _by_index(self, index: int) -> SimulatedGpu:
        if not 0 <= index < len(self.gpus):
            raise NVMLError(codes.INVALID_ARGUMENT)
        self._touch(self.gpus[index])
        return self.gpus[index]

    def _instance(self, gpu: SimulatedGpu, slot: int) -> Instance | None:
        """Return the MIG instance in a slot, None on a GPU that cannot be divided."""
        if not gpu.board.has_hbm:
            return None
        for instance in gpu.instances:
            if instance.slice.slot == slot:
                return instance
        raise NVMLError(codes.NOT_FOUND)


class SimulatedReader:
    """A HostReader of a scene's declarations, with small variations over time."""

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
        """Return one entry for every PID; one that is not in the scene is gone."""
        now = self._clock()
        return {pid: self._process(pid, now) for pid in pids}

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        """Return the holders declared in the scene; its cards are numbered like their nodes."""
        cards = self._scene.cards
        return {minor: Holders(cards[minor].holders, complete=True) for minor in minors}

    def begin(self) -> None:
        """Do nothing: all data are at hand."""

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
        """Return nothing: a simulated host is entirely visible."""
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
