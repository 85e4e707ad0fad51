"""All GPUs of a machine, their processes and their topology, from tick to tick."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import is_

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import Bus, Identity
from gpudash.collect.nvml.calls import STEADY_SECONDS
from gpudash.collect.nvml.gpu import Gpu, devices_on_bus
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.power_saving import SUSPENDED, Rest
from gpudash.collect.nvml.processes import Listing
from gpudash.collect.nvml.registry import Roster
from gpudash.collect.nvml.session import Session, States, Versions
from gpudash.collect.nvml.topology import Connections
from gpudash.collect.nvml.worker import DriverWorker, timeout_fault
from gpudash.model.device import Device
from gpudash.model.errors import DriverError
from gpudash.model.fault import Fault
from gpudash.model.process import ProcessDevice
from gpudash.model.snapshot import Topology
from gpudash.model.text import clean


class Reading(Struct, frozen=True, kw_only=True):
    """What NVML told in one tick."""

    devices: tuple[Device, ...] = ()
    processes: dict[int, tuple[ProcessDevice, ...]]
    listed_at: Mapping[int, float] = {}
    """When each process was listed, by the clock of the reader; it may be some ticks ago."""
    topology: Topology | None = None
    versions: Versions = Versions()
    faults: tuple[Fault, ...] = ()


def since_boot() -> float:
    """Return the seconds by which the kernel stamps the start of processes, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NvmlReader:
    """NVML read as a whole: opened at the first tick, and anew when driver or GPUs change.

    Every call into it is made by the worker, which waits for none longer than agreed.
    """

    def __init__(
        self,
        library: Library,
        bus: Bus,
        clock: Callable[[], float] = since_boot,
        wall_clock: Callable[[], float] = time.time,
        worker: DriverWorker | None = None,
        rest: Rest | None = None,
        kept: dict[str, Device] | None = None,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._worker = worker or DriverWorker(None)
        self._rest = rest
        timeouts = self._worker.timeouts
        self._kept_seconds = timeouts.first_call_seconds if timeouts else 0.0
        self._roster = Roster(library, clock, wall_clock, kept)
        self._session = Session(library, self._roster, bus, self._worker)
        self._connections = Connections(library, self._worker)
        self._processes_due = 0.0
        self._listed_in = 0
        self._joined: list[Listing] = []
        self._processes: dict[int, tuple[ProcessDevice, ...]] = {}
        self._listed_at: dict[int, float] = {}

    def read(self) -> Reading:
        """Read what is due.

        Raises DriverError when NVML cannot be used at all. A GPU that sleeps is not woken: while
        all do, NVML is not even opened. What does not answer is left out, and says so.
        """
        now = self._clock()
        states = self._bus.power_states()
        resting = self._rest is not None and self._rest.lasts(states, now)
        if not self._session.attend(states, now, resting=resting, is_held=self._is_held):
            return self._silence(states)
        if resting:
            return self._resting(states)
        ready = [gpu for gpu in self._roster.gpus if not gpu.is_pending]
        list_processes = self._lists_processes(now, ready)
        tasks = {gpu: gpu.send(now, list_processes) for gpu in self._awake(ready, states)}
        self._worker.run([*tasks.values()], first=not all(gpu.is_known for gpu in tasks))
        self._settle(tasks)
        self._session.note_the_dead()
        reading = self._reading()
        if self._rest is not None and not self._is_held:
            # From the next tick on it lasts, and NVML is closed.
            self._rest.begins(states, all(gpu.is_idle for gpu in self._roster.gpus), now)
        return reading

    def close(self) -> None:
        """Let go of the driver; the next read opens it again.

        Raises DriverError while a call is under way, below which nothing may be closed, and when
        the driver does not let go in time.
        """
        if self._is_held:
            raise DriverError(codes.TIMEOUT, "a call hangs in the driver, which keeps the GPUs")
        self._session.close()
        self._worker.close()

    @property
    def _is_held(self) -> bool:
        """Whether a call has not come back."""
        out = self._session.task, self._connections
        return any(each is not None and each.is_pending for each in out) or any(
            gpu.is_pending for gpu in self._roster.gpus
        )

    def _lists_processes(self, now: float, ready: Iterable[Gpu]) -> bool:
        """Whether it is time to list them: at their pace, and at once of a GPU that was silent."""
        if not self._session.is_open:
            return False
        is_new = self._listed_in != self._session.openings
        if not (is_new or now >= self._processes_due or any(gpu.was_silent for gpu in ready)):
            return False
        self._listed_in = self._session.openings
        self._processes_due = now + STEADY_SECONDS
        return True

    def _resting(self, states: States) -> Reading:
        """Return the GPUs unread, so that they fall asleep or stay so."""
        for gpu in self._roster.gpus:
            gpu.sleep(self._identity(gpu), resting=states.get(gpu.address or "") not in SUSPENDED)
        return Reading(devices=self._devices(), processes={}, versions=self._session.versions)

    def _awake(self, gpus: Iterable[Gpu], states: States) -> Iterable[Gpu]:
        """Yield the GPUs that may be asked; the others are asleep."""
        for gpu in gpus:
            if gpu.address is not None and states.get(gpu.address) in SUSPENDED:
                gpu.sleep(self._identity(gpu))
            else:
                yield gpu

    def _settle(self, sent: Collection[Gpu]) -> None:
        """Show what the tasks of this tick brought, and which GPUs cannot be known."""
        for gpu in self._roster.gpus:
            task = gpu.task
            if task is None:
                continue
            if gpu in sent and task.is_done:
                gpu.take(task.result())
                if gpu.device.fault is not None and gpu.device.uuid is None:
                    gpu.name(self._identity(gpu))
            elif not gpu.is_known or task.seconds > self._kept_seconds:
                gpu.take_silence(
                    self._identity(gpu), timeout_fault(task, f"GPU {gpu.reader.index}")
                )

    def _identity(self, gpu: Gpu) -> Identity:
        """Return who it is; the kernel module, which may hang, is asked until it is known."""
        if gpu.identity.uuid is None and gpu.address is not None:
            gpu.identity = self._bus.identity(gpu.address)
        return gpu.identity

    def _silence(self, states: States) -> Reading:
        """Return what is known while the driver does not even let itself be opened, or closed."""
        assert self._session.task is not None
        fault = timeout_fault(self._session.task, "the driver")
        if not self._roster.gpus:
            devices = devices_on_bus(self._bus, states, fault)
            return Reading(devices=devices, processes={}, faults=(fault,))
        for gpu in self._roster.gpus:
            gpu.take_silence(gpu.identity, fault)
        return Reading(devices=self._devices(), processes={}, faults=(fault,))

    def _reading(self) -> Reading:
        self._connections.refresh(self._roster.gpus)
        self._join_processes()
        return Reading(
            devices=self._devices(),
            processes=self._processes,
            listed_at=self._listed_at,
            topology=self._connections.topology,
            versions=self._session.versions,
            faults=tuple(self._faults()),
        )

    def _join_processes(self) -> None:
        """Gather what each process does on its devices; the same objects until they are listed."""
        listings = [gpu.listing for gpu in self._roster.gpus]
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
        rows = [(gpu.device, *gpu.instances) for gpu in self._roster.gpus]
        rows += [(device,) for device in self._roster.removed()]
        rows.sort(key=lambda row: row[0].index)
        return tuple(device for row in rows for device in row)

    def _faults(self) -> Iterable[Fault]:
        if self._session.is_open and not self._roster.gpus:
            yield Fault(source="nvml", code=codes.NOT_FOUND, message=clean("no GPU was found"))
        yield from self._connections.faults()
        for gpu in self._roster.gpus:
            if gpu.listing.code:
                yield Fault(
                    source="processes",
                    code=gpu.listing.code,
                    uuid=gpu.device.uuid,
                    message=clean(
                        f"GPU {gpu.device.index}: processes unknown: {codes.text(gpu.listing.code)}"
                    ),
                )
