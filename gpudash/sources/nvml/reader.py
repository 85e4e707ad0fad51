"""All GPUs of a machine, their processes and their topology, from tick to tick."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from operator import is_

from msgspec import Struct

from gpudash.errors import DriverError
from gpudash.snapshot import Device, Fault, ProcessDevice, Topology
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.bus import UNKNOWN, Bus
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.paces import STEADY_SECONDS
from gpudash.sources.nvml.processes import Listing
from gpudash.sources.nvml.rest import SUSPENDED, Rest
from gpudash.sources.nvml.roster import Gpu, Roster
from gpudash.sources.nvml.silence import seen_by_kernel, silence
from gpudash.sources.nvml.tasks import Patience, Task, run
from gpudash.sources.nvml.topology import read_topology
from gpudash.sources.nvml.versions import Versions, read_versions
from gpudash.text import clean


class Reading(Struct, frozen=True, kw_only=True):
    """What NVML told in one tick."""

    devices: tuple[Device, ...] = ()
    processes: dict[int, tuple[ProcessDevice, ...]]
    listed_at: float | None = None
    """When the processes were listed, by the clock of the reader; it may be a tick ago."""
    topology: Topology | None = None
    versions: Versions = Versions()
    faults: tuple[Fault, ...] = ()


def since_boot() -> float:
    """Return the seconds by which the kernel stamps the start of processes, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NvmlReader:
    """NVML read as a whole: opened at the first tick, and anew when driver or GPUs change."""

    def __init__(
        self,
        library: Library,
        bus: Bus,
        clock: Callable[[], float] = since_boot,
        wall_clock: Callable[[], float] = time.time,
        patience: Patience | None = None,
        rest: Rest | None = None,
    ) -> None:
        self._library = library
        self._bus = bus
        self._clock = clock
        self._patience = patience
        self._rest = rest
        self._kept_seconds = patience.first if patience else 0.0
        self._roster = Roster(library, wall_clock)
        self._on_bus: tuple[str, ...] = ()
        self._load: int | None = None
        self._is_open = False
        self._versions = Versions()
        self._topology: Topology | None = None
        self._topology_of: tuple[str | None, ...] | None = None
        self._processes_due = 0.0
        self._listed_at: float | None = None
        self._joined: list[Listing] = []
        self._processes: dict[int, tuple[ProcessDevice, ...]] = {}
        self._following: Task[None] | None = None
        self._connecting: Task[Topology | None] | None = None

    def read(self) -> Reading:
        """Read what is due.

        Raises DriverError when NVML cannot be used at all. A GPU that sleeps is not woken: while
        all do, NVML is not even opened. What does not answer is left out, and says so.
        """
        now = self._clock()
        states = self._bus.power_states()
        if self._rest is not None and self._rest.lasts(states, now):
            return self._resting(states)
        if not self._attend(states):
            return self._silence(states)
        ready = [gpu for gpu in self._roster.gpus if not gpu.is_out]
        list_processes = self._is_open and (
            now >= self._processes_due or any(gpu.was_silent for gpu in ready)
        )
        if list_processes:
            self._processes_due = now + STEADY_SECONDS
            self._listed_at = self._clock()
        tasks = {gpu: gpu.send(now, list_processes) for gpu in self._awake(ready, states)}
        is_first = not all(gpu.is_known for gpu in self._roster.gpus)
        run([*tasks.values()], self._patience, first=is_first)
        self._settle(tasks)
        self._reopen_if_dead()
        reading = self._reading()
        if self._rest is not None and not self._is_held:
            is_idle = all(gpu.is_idle for gpu in self._roster.gpus)
            if self._rest.begins(states, is_idle, now):
                self._close()
        return reading

    def close(self) -> None:
        """Let go of the driver; the next read opens it again.

        Raises DriverError while a call is under way, below which nothing may be closed.
        """
        if self._is_held:
            raise DriverError(codes.TIMEOUT, "a call hangs in the driver, which keeps the GPUs")
        self._close()

    def _close(self) -> None:
        if self._is_open:
            self._roster.close()
            self._library.close()
        self._is_open = False

    @property
    def _is_held(self) -> bool:
        """Whether a call has not come back."""
        out = (self._following, self._connecting)
        return any(each is not None and each.is_out for each in out) or any(
            gpu.is_out for gpu in self._roster.gpus
        )

    def _attend(self, states: dict[str, str]) -> bool:
        """Open NVML if that is due; False while the driver does not answer to it."""
        if self._following is None:
            if self._is_open and (self._is_held or not states or tuple(states) == self._on_bus):
                return True
            self._following = Task(lambda: self._follow(states))
            run([self._following], self._patience, first=True)
        if self._following.is_out:
            return False
        following, self._following = self._following, None
        following.outcome()
        return True

    def _resting(self, states: dict[str, str]) -> Reading:
        """Return the GPUs unread, so that they fall asleep or stay so."""
        for gpu in self._roster.gpus:
            identity = UNKNOWN if gpu.address is None else self._bus.identity(gpu.address)
            gpu.sleep(identity, resting=states.get(gpu.address or "") not in SUSPENDED)
        return Reading(devices=self._devices(), processes={}, versions=self._versions)

    def _awake(self, gpus: Iterable[Gpu], states: dict[str, str]) -> Iterable[Gpu]:
        """Yield the GPUs that may be asked; the others are asleep."""
        for gpu in gpus:
            if gpu.address is not None and states.get(gpu.address) in SUSPENDED:
                gpu.sleep(self._bus.identity(gpu.address))
            else:
                yield gpu

    def _settle(self, sent: Collection[Gpu]) -> None:
        """Show what the tasks of this tick brought, and for which GPUs the driver is silent."""
        for gpu in self._roster.gpus:
            if gpu.task is None:
                continue
            if gpu in sent and not gpu.is_out:
                gpu.take(gpu.task.outcome())
            elif not gpu.is_known or gpu.task.seconds > self._kept_seconds:
                identity = self._bus.identity(gpu.address) if gpu.address else UNKNOWN
                gpu.take_silence(identity, silence(gpu.task))

    def _silence(self, states: dict[str, str]) -> Reading:
        """Return what is known while the driver does not even let itself be opened."""
        assert self._following is not None
        message = silence(self._following)
        fault = Fault(source="nvml", code=codes.TIMEOUT, message=message)
        if not self._roster.gpus:
            devices = seen_by_kernel(self._bus, states, fault)
            return Reading(devices=devices, processes={}, faults=(fault,))
        for gpu in self._roster.gpus:
            gpu.take_silence(UNKNOWN, message)
        return Reading(devices=self._devices(), processes={}, faults=(fault,))

    def _follow(self, states: dict[str, str]) -> None:
        """Open NVML, once more if the GPUs on the bus are others: it counts them when opened.

        While none is to be seen there, as in some containers, they are those of before.
        """
        on_bus = tuple(states)
        changed = bool(on_bus) and on_bus != self._on_bus
        if changed:
            self._close()
        if self._is_open:
            return
        self._on_bus = on_bus
        if on_bus and all(state in SUSPENDED for state in states.values()):
            if changed:
                self._roster.arrange(on_bus)
            return
        self._library.open()
        self._is_open = True
        self._versions = read_versions(self._library)
        self._processes_due = 0.0
        try:
            self._roster.count(on_bus)
        except DriverError:
            self._close()
            raise
        load = self._bus.driver_load()
        if None not in (load, self._load) and load != self._load:
            self._roster.begin_anew()
        self._load = load

    def _reopen_if_dead(self) -> None:
        """Close NVML when every GPU says it is not initialised: the driver was reloaded."""
        faults = [gpu.device.fault for gpu in self._roster.gpus]
        if faults and all(fault and fault.code == codes.UNINITIALIZED for fault in faults):
            self._is_open = False

    def _reading(self) -> Reading:
        self._refresh_topology()
        return Reading(
            devices=self._devices(),
            processes=self._processes_by_pid(),
            listed_at=self._listed_at,
            topology=self._topology,
            versions=self._versions,
            faults=tuple(self._faults()),
        )

    def _processes_by_pid(self) -> dict[int, tuple[ProcessDevice, ...]]:
        """Return what each process does on its devices, the same object until they are listed."""
        listings = [gpu.listing for gpu in self._roster.gpus]
        if len(listings) != len(self._joined) or not all(map(is_, listings, self._joined)):
            self._joined, processes = listings, defaultdict[int, list[ProcessDevice]](list)
            for listing in listings:
                for pid, entry in listing.entries:
                    processes[pid].append(entry)
            self._processes = {pid: tuple(entries) for pid, entries in processes.items()}
        return self._processes

    def _devices(self) -> tuple[Device, ...]:
        rows = [(gpu.device, *gpu.instances) for gpu in self._roster.gpus]
        rows += [(device,) for device in self._roster.removed()]
        rows.sort(key=lambda row: row[0].index)
        return tuple(device for row in rows for device in row)

    def _refresh_topology(self) -> None:
        """Read the topology when the set of readable GPUs has changed."""
        connecting = self._connecting
        if connecting is not None and connecting.is_out:
            return
        present = [gpu for gpu in self._roster.gpus if gpu.is_readable]
        uuids = tuple(gpu.device.uuid for gpu in present)
        if uuids != self._topology_of:
            self._topology_of, self._topology = uuids, None
            pairs = [(gpu.device, gpu.reader.handle) for gpu in present]
            self._connecting = Task(lambda: read_topology(self._library, pairs))
            run([self._connecting], self._patience, first=True)
        if self._connecting is not None and not self._connecting.is_out:
            self._topology, self._connecting = self._connecting.outcome(), None

    def _faults(self) -> Iterable[Fault]:
        if self._is_open and not self._roster.gpus:
            yield Fault(source="nvml", code=codes.NOT_FOUND, message=clean("no GPU was found"))
        if self._connecting is not None:
            message = clean(f"topology unknown: {silence(self._connecting)}")
            yield Fault(source="topology", code=codes.TIMEOUT, message=message)
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
