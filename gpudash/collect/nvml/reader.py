"""All GPUs of a machine, their processes and their topology, from tick to tick."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import is_

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import SUSPENDED, Bus, Identity, IdlePolicy, PowerStates
from gpudash.collect.nvml.calls import STEADY_SECONDS
from gpudash.collect.nvml.gpu import Gpu, devices_on_bus
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.processes import GpuProcesses
from gpudash.collect.nvml.session import CALL_HANGS, DeviceRegistry, Session, Versions
from gpudash.collect.nvml.topology import TopologyCache
from gpudash.collect.nvml.worker import DriverWorker, Task, timeout_fault
from gpudash.model.device import Device
from gpudash.model.errors import DriverError
from gpudash.model.fault import Fault
from gpudash.model.process import ProcessDevice
from gpudash.model.snapshot import Topology
from gpudash.model.text import clean


class NvmlSample(Struct, frozen=True, kw_only=True):
    """What NVML reported in one tick."""

    devices: tuple[Device, ...] = ()
    processes: dict[int, tuple[ProcessDevice, ...]]
    listed_at: Mapping[int, float] = {}
    """When each process was listed, by the reader's clock; possibly some ticks ago."""
    topology: Topology | None = None
    versions: Versions = Versions()
    faults: tuple[Fault, ...] = ()


def since_boot() -> float:
    """Return seconds since boot, including sleep, like the start times of processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NvmlReader:
    """NVML as a whole: opened at the first tick, and again when the driver or the GPUs change.

    Every call into it is made by the worker, which never waits beyond its timeouts.
    """

    def __init__(
        self,
        library: Library,
        bus: Bus,
        clock: Callable[[], float] = since_boot,
        wall_clock: Callable[[], float] = time.time,
        worker: DriverWorker | None = None,
        idle_policy: IdlePolicy | None = None,
        handed_over: dict[str, Device] | None = None,
        *,
        with_topology: bool = True,
    ) -> None:
        """Without `with_topology`, the topology is only read if a finding may need it."""
        self._bus = bus
        self._library = library
        self._with_topology = with_topology
        self._clock = clock
        self._worker = worker or DriverWorker(None)
        self._idle_policy = idle_policy
        timeouts = self._worker.timeouts
        self._max_age_seconds = timeouts.first_call_seconds if timeouts else 0.0
        self._registry = DeviceRegistry(library, clock, wall_clock, handed_over)
        self._session = Session(library, self._registry, bus, self._worker)
        self._topology = TopologyCache(library, self._worker)
        self._processes_due = 0.0
        self._listed_in = 0
        self._joined: list[GpuProcesses] = []
        self._processes: dict[int, tuple[ProcessDevice, ...]] = {}
        self._listed_at: dict[int, float] = {}

    def read(self, *, brief: bool = False) -> NvmlSample:
        """Read due values; with `brief`, only those of a first picture.

        A sleeping GPU is not woken: while all sleep, NVML is not even opened. Whatever does not
        answer is left out, with a fault. Raises DriverError if NVML cannot be used at all.
        """
        now = self._clock()
        states = self._bus.power_states()
        resting = self._idle_policy is not None and self._idle_policy.lasts(states, now)
        unfinished = self._session.ensure_open(
            states, now, resting=resting, has_pending=self._has_pending
        )
        if unfinished is not None:
            return self._unanswered(unfinished, states)
        if resting:
            return self._resting(states)
        ready = [gpu for gpu in self._registry.gpus if not gpu.is_pending]
        list_processes = self._lists_processes(now, ready)
        tasks = {
            gpu: gpu.start(now, list_processes=list_processes, brief=brief)
            for gpu in self._awake(ready, states)
        }
        self._worker.run([*tasks.values()], first=not all(gpu.is_known for gpu in tasks))
        self._collect(tasks)
        self._session.check_driver()
        sample = self._sample(brief=brief)
        if not brief and self._idle_policy is not None and not self._has_pending:
            # From the next tick on it is in force, and NVML is closed.
            self._idle_policy.begins(states, all(gpu.is_idle for gpu in self._registry.gpus), now)
        return sample

    def close(self) -> None:
        """Release the driver; the next read opens it again.

        Raises DriverError while a call is pending, during which nothing may be closed, and if the
        driver is not released in time.
        """
        if self._has_pending:
            raise DriverError(codes.TIMEOUT, CALL_HANGS)
        self._session.close()
        self._worker.close()

    @property
    def _has_pending(self) -> bool:
        """Whether a call has not returned."""
        out = self._session.task, self._topology
        return any(each is not None and each.is_pending for each in out) or any(
            gpu.is_pending for gpu in self._registry.gpus
        )

    def _lists_processes(self, now: float, ready: Iterable[Gpu]) -> bool:
        """Whether to list them: every two seconds, and at once for a GPU without a listing."""
        if not self._session.is_open or not self._library.wants("processes"):
            return False
        is_new = self._listed_in != self._session.openings
        if not (is_new or now >= self._processes_due or any(gpu.lacks_listing for gpu in ready)):
            return False
        self._listed_in = self._session.openings
        self._processes_due = now + STEADY_SECONDS
        return True

    def _resting(self, states: PowerStates) -> NvmlSample:
        """Return the GPUs unread, so that they can fall or stay asleep."""
        for gpu in self._registry.gpus:
            gpu.show_asleep(
                self._identity(gpu), resting=states.get(gpu.address or "") not in SUSPENDED
            )
        return NvmlSample(devices=self._devices(), processes={}, versions=self._session.versions)

    def _awake(self, gpus: Iterable[Gpu], states: PowerStates) -> Iterable[Gpu]:
        """Yield the GPUs that may be called; the others are asleep."""
        for gpu in gpus:
            if gpu.address is not None and states.get(gpu.address) in SUSPENDED:
                gpu.show_asleep(self._identity(gpu))
            else:
                yield gpu

    def _collect(self, sent: Collection[Gpu]) -> None:
        """Show the results of this tick's tasks, and which GPUs did not answer."""
        for gpu in self._registry.gpus:
            task = gpu.task
            if task is None:
                continue
            if gpu in sent and task.is_done:
                gpu.show(task.result())
                if gpu.device.fault is not None and gpu.device.uuid is None:
                    gpu.show_identity(self._identity(gpu))
            elif not gpu.is_known or task.seconds > self._max_age_seconds:
                gpu.show_unanswered(
                    self._identity(gpu), timeout_fault(task, f"GPU {gpu.reader.index}")
                )

    def _identity(self, gpu: Gpu) -> Identity:
        """Return its name and UUID; the kernel module, which may hang, is only read until known."""
        if gpu.identity.uuid is None and gpu.address is not None:
            gpu.identity = self._bus.identity(gpu.address)
        return gpu.identity

    def _unanswered(self, task: Task[None], states: PowerStates) -> NvmlSample:
        """Return known data while the driver cannot even be opened or closed in time."""
        fault = timeout_fault(task, "the driver")
        if not self._registry.gpus:
            devices = devices_on_bus(self._bus, states, fault)
            return NvmlSample(devices=devices, processes={}, faults=(fault,))
        for gpu in self._registry.gpus:
            gpu.show_unanswered(gpu.identity, fault)
        listed_at = self._with_last_listed()
        return NvmlSample(
            devices=self._devices(), processes={}, listed_at=listed_at, faults=(fault,)
        )

    def _with_last_listed(self) -> Mapping[int, float]:
        """Return when processes were listed, including those of GPUs that do not answer."""
        silent = [gpu for gpu in self._registry.gpus if gpu.device.last_read is not None]
        listed_at = dict(self._listed_at) if silent else self._listed_at
        for gpu in silent:
            for pid, moment in (gpu.last.pids if gpu.last else {}).items():
                listed_at[pid] = min(moment, listed_at.get(pid, moment))
        return listed_at

    def _sample(self, *, brief: bool) -> NvmlSample:
        self._join_processes()
        if not brief and self._needs_topology:
            self._topology.refresh(self._registry.gpus)
        return NvmlSample(
            devices=self._devices(),
            processes=self._processes,
            listed_at=self._with_last_listed(),
            topology=self._topology.topology,
            versions=self._session.versions,
            faults=tuple(self._faults()),
        )

    @property
    def _needs_topology(self) -> bool:
        """Whether it was requested, or is needed for a process on several GPUs or dead links."""
        return (
            self._with_topology
            or any(len({on.index for on in entries}) > 1 for entries in self._processes.values())
            or any(
                gpu.device.nvlink_inactive_links and not gpu.device.nvlink_count
                for gpu in self._registry.gpus
            )
        )

    def _join_processes(self) -> None:
        """Join the listings by process; the result is the same object until one changes."""
        listings = [gpu.listing for gpu in self._registry.gpus]
        if len(listings) == len(self._joined) and all(map(is_, listings, self._joined)):
            return
        self._joined, processes = listings, defaultdict[int, list[ProcessDevice]](list)
        listed_at: dict[int, float] = {}
        for listing in listings:
            for pid, entry in listing.entries:
                processes[pid].append(entry)
                listed_at[pid] = min(listing.listed_at, listed_at.get(pid, listing.listed_at))
        self._processes = {pid: tuple(entries) for pid, entries in processes.items()}
        self._listed_at = listed_at

    def _devices(self) -> tuple[Device, ...]:
        rows = [(gpu.device, *gpu.instances) for gpu in self._registry.gpus]
        rows += [(device,) for device in self._registry.removed()]
        rows.sort(key=lambda row: row[0].index)
        return tuple(device for row in rows for device in row)

    def _faults(self) -> Iterable[Fault]:
        if self._session.is_open and not self._registry.gpus:
            yield Fault(source="nvml", code=codes.NOT_FOUND, message=clean("no GPU was found"))
        yield from self._topology.faults()
        for gpu in self._registry.gpus:
            if gpu.listing.code:
                yield Fault(
                    source="processes",
                    code=gpu.listing.code,
                    uuid=gpu.device.uuid,
                    message=clean(
                        f"GPU {gpu.device.index}: processes unknown: {codes.text(gpu.listing.code)}"
                    ),
                )
