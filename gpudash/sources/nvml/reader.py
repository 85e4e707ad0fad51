"""All GPUs of a machine, their processes and their topology, from tick to tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpudash.errors import DriverError
from gpudash.snapshot import Device, Fault, ProcessDevice, Topology
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.bus import Bus
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.paces import STEADY_SECONDS
from gpudash.sources.nvml.roster import NO_LISTING, Gpu, Roster, kernel_address
from gpudash.sources.nvml.topology import read_topology
from gpudash.text import SafeText, clean

_SUSPENDED = frozenset({"suspended", "suspending"})


class Versions(Struct, frozen=True, kw_only=True):
    """The driver's versions, None where it does not tell."""

    driver_version: SafeText | None = None
    nvml_version: SafeText | None = None
    cuda_driver_version: str | None = None


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
    ) -> None:
        self._library = library
        self._bus = bus
        self._clock = clock
        self._roster = Roster(library, wall_clock)
        self._on_bus: tuple[str, ...] = ()
        self._is_open = False
        self._versions = Versions()
        self._topology: Topology | None = None
        self._topology_of: tuple[str | None, ...] | None = None
        self._processes_due = 0.0
        self._listed_at: float | None = None

    def read(self) -> Reading:
        """Read what is due.

        Raises DriverError when NVML cannot be used at all. A GPU that sleeps is not woken: while
        all do, NVML is not even opened.
        """
        now = self._clock()
        states = self._bus.power_states()
        self._follow(states)
        list_processes = self._is_open and now >= self._processes_due
        if list_processes:
            self._processes_due = now + STEADY_SECONDS
            self._listed_at = self._clock()
        for gpu in self._roster.gpus:
            if gpu.address is not None and states.get(gpu.address) in _SUSPENDED:
                gpu.device = gpu.reader.asleep(gpu.address, *self._bus.identity(gpu.address))
                gpu.instances, gpu.listing = (), NO_LISTING
                continue
            gpu.device = gpu.reader.read(now)
            gpu.address = kernel_address(gpu.device.pci_bus_id) or gpu.address
            gpu.instances = gpu.instance_reader.read(gpu.reader.handle, gpu.device, now)
            self._read_processes(gpu, list_processes)
        self._reopen_if_dead()
        return self._reading()

    def close(self) -> None:
        """Let go of the driver; the next read opens it again."""
        if self._is_open:
            self._roster.close()
            self._library.close()
        self._is_open = False

    def _follow(self, states: dict[str, str]) -> None:
        """Open NVML, once more if the GPUs on the bus are others: it counts them when opened.

        While none is to be seen there, as in some containers, they are those of before.
        """
        on_bus = tuple(states)
        changed = bool(on_bus) and on_bus != self._on_bus
        if changed:
            self.close()
        if self._is_open:
            return
        self._on_bus = on_bus
        if on_bus and all(state in _SUSPENDED for state in states.values()):
            if changed:
                self._roster.arrange(on_bus)
            return
        self._library.open()
        self._is_open = True
        self._versions = _versions(self._library)
        self._processes_due = 0.0
        try:
            self._roster.count(on_bus)
        except DriverError:
            self.close()
            raise

    def _read_processes(self, gpu: Gpu, due: bool) -> None:
        if gpu.reader.handle is None:
            gpu.listing = NO_LISTING
        elif due:
            gpu.listing = gpu.processes.read(gpu.device, gpu.instances)
        gpu.device = replace(gpu.device, memory_unaccounted_bytes=gpu.listing.unaccounted_bytes)

    def _reopen_if_dead(self) -> None:
        """Close NVML when every GPU says it is not initialised: the driver was reloaded."""
        faults = [gpu.device.fault for gpu in self._roster.gpus]
        if faults and all(fault and fault.code == codes.UNINITIALIZED for fault in faults):
            self._is_open = False

    def _reading(self) -> Reading:
        processes: dict[int, tuple[ProcessDevice, ...]] = {}
        for gpu in self._roster.gpus:
            for pid, entry in gpu.listing.entries:
                processes[pid] = (*processes.get(pid, ()), entry)
        self._refresh_topology()
        return Reading(
            devices=self._devices(),
            processes=processes,
            listed_at=self._listed_at,
            topology=self._topology,
            versions=self._versions,
            faults=tuple(self._faults()),
        )

    def _devices(self) -> tuple[Device, ...]:
        rows = [(gpu.device, *gpu.instances) for gpu in self._roster.gpus]
        rows += [(device,) for device in self._roster.removed()]
        rows.sort(key=lambda row: row[0].index)
        return tuple(device for row in rows for device in row)

    def _refresh_topology(self) -> None:
        """Read the topology when the set of readable GPUs has changed."""
        present = [gpu for gpu in self._roster.gpus if gpu.reader.handle is not None]
        uuids = tuple(gpu.device.uuid for gpu in present)
        if uuids != self._topology_of:
            self._topology_of = uuids
            pairs = [(gpu.device, gpu.reader.handle) for gpu in present]
            self._topology = read_topology(self._library, pairs)

    def _faults(self) -> Iterable[Fault]:
        if self._is_open and not self._roster.gpus:
            yield Fault(source="nvml", code=codes.NOT_FOUND, message="no GPU was found")
        for gpu in self._roster.gpus:
            if gpu.listing.code:
                yield Fault(
                    source="processes",
                    code=gpu.listing.code,
                    uuid=gpu.device.uuid,
                    message=f"GPU {gpu.device.index}: processes unknown: "
                    f"{codes.text(gpu.listing.code)}",
                )


def _versions(library: Library) -> Versions:
    driver, _ = library.ask("nvmlSystemGetDriverVersion")
    nvml, _ = library.ask("nvmlSystemGetNVMLVersion")
    cuda, _ = library.ask("nvmlSystemGetCudaDriverVersion_v2")
    return Versions(
        driver_version=clean(driver) if driver else None,
        nvml_version=clean(nvml) if nvml else None,
        cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
    )
