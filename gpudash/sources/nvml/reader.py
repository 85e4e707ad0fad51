"""All GPUs of a machine, their processes and their topology, from tick to tick."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from gpudash.snapshot import Device, Fault, ProcessDevice, Topology
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.bus import Bus
from gpudash.sources.nvml.device import DeviceReader
from gpudash.sources.nvml.instances import InstanceReader
from gpudash.sources.nvml.library import Library
from gpudash.sources.nvml.processes import Listing, ProcessReader
from gpudash.sources.nvml.readings import STEADY_SECONDS
from gpudash.sources.nvml.topology import read_topology
from gpudash.text import SafeText, clean

_RESCAN_SECONDS = 9.9
_SUSPENDED = frozenset({"suspended", "suspending"})
_NO_LISTING = Listing((), codes.SUCCESS, None)


class Versions(Struct, frozen=True, kw_only=True):
    """The driver's versions, None where it does not tell."""

    driver_version: SafeText | None = None
    nvml_version: SafeText | None = None
    cuda_driver_version: str | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """What NVML told in one tick."""

    devices: tuple[Device, ...] = ()
    processes: dict[int, tuple[ProcessDevice, ...]]
    topology: Topology | None = None
    versions: Versions = Versions()
    faults: tuple[Fault, ...] = ()


class _Gpu:
    """One GPU with all that is read of it on its own pace."""

    def __init__(self, library: Library, index: int, wall_clock: Callable[[], float]) -> None:
        self.reader = DeviceReader(library, index)
        self.instance_reader = InstanceReader(library)
        self.processes = ProcessReader(library, self.reader, wall_clock)
        self.device = Device(index=index)
        self.instances: tuple[Device, ...] = ()
        self.listing = _NO_LISTING


class NvmlReader:
    """NVML read as a whole: opened at the first tick, opened anew when the driver was reloaded."""

    def __init__(
        self,
        library: Library,
        bus: Bus,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._library = library
        self._bus = bus
        self._clock = clock
        self._wall_clock = wall_clock
        self._gpus: list[_Gpu] = []
        self._is_open = False
        self._versions = Versions()
        self._topology: Topology | None = None
        self._topology_of: tuple[str | None, ...] | None = None
        self._due = {"count": 0.0, "processes": 0.0}

    def read(self) -> Reading:
        """Read what is due.

        Raises DriverError when NVML cannot be used at all. A GPU that sleeps is not woken: while
        all do, NVML is not even opened.
        """
        now = self._clock()
        states = self._bus.power_states()
        if states and all(state in _SUSPENDED for state in states.values()):
            return self._all_asleep(list(states))
        self._ensure_open(now)
        asleep = self._asleep(states)
        list_processes = self._is_due("processes", now, STEADY_SECONDS)
        for gpu in self._gpus:
            address = asleep.get(gpu.reader.index)
            if address is not None:
                gpu.device = gpu.reader.asleep(address, *self._bus.identity(address))
                gpu.instances, gpu.listing = (), _NO_LISTING
                continue
            gpu.device = gpu.reader.read(now)
            gpu.instances = gpu.instance_reader.read(gpu.reader.handle, gpu.device, now)
            self._read_processes(gpu, list_processes)
        self._reopen_if_dead()
        return self._reading()

    def close(self) -> None:
        """Let go of the driver; the next read opens it again."""
        if self._is_open:
            for gpu in self._gpus:
                gpu.reader.close()
                gpu.instance_reader.close()
            self._library.close()
        self._is_open = False
        self._gpus = []

    def _ensure_open(self, now: float) -> None:
        if not self._is_open:
            self._library.open()
            self._is_open = True
            self._versions = _versions(self._library)
            self._due = dict.fromkeys(self._due, 0.0)
            for gpu in self._gpus:
                gpu.reader.reopen()
        if self._is_due("count", now, _RESCAN_SECONDS):
            count, code = self._library.ask("nvmlDeviceGetCount")
            if not code and count != len(self._gpus):
                self._gpus = self._new_gpus(count)

    def _new_gpus(self, count: int) -> list[_Gpu]:
        return [_Gpu(self._library, index, self._wall_clock) for index in range(count)]

    def _is_due(self, lane: str, now: float, seconds: float) -> bool:
        if now < self._due[lane]:
            return False
        self._due[lane] = now + seconds
        return True

    def _asleep(self, states: dict[str, str]) -> dict[int, str]:
        """Return {index: address} of the suspended GPUs; NVML numbers GPUs in PCI order.

        Where NVML and sysfs do not count the same GPUs, as in a container, the order says
        nothing, and only addresses that were read before can be matched.
        """
        by_order = dict(enumerate(states)) if len(states) == len(self._gpus) else {}
        known = {_kernel_address(gpu.device.pci_bus_id): gpu.reader.index for gpu in self._gpus}
        by_order.update((index, a) for a, index in known.items() if a in states)
        return {index: a for index, a in by_order.items() if states[a] in _SUSPENDED}

    def _all_asleep(self, addresses: list[str]) -> Reading:
        if len(self._gpus) != len(addresses):
            self._gpus = self._new_gpus(len(addresses))
        for gpu, address in zip(self._gpus, addresses, strict=True):
            gpu.device = gpu.reader.asleep(address, *self._bus.identity(address))
            gpu.instances, gpu.listing = (), _NO_LISTING
        return self._reading()

    def _read_processes(self, gpu: _Gpu, due: bool) -> None:
        if gpu.reader.handle is None:
            gpu.listing = _NO_LISTING
        elif due:
            gpu.listing = gpu.processes.read(gpu.device, gpu.instances)
        gpu.device = replace(gpu.device, memory_unaccounted_bytes=gpu.listing.unaccounted_bytes)

    def _reopen_if_dead(self) -> None:
        """Close NVML when every GPU says it is not initialised: the driver was reloaded."""
        faults = [gpu.device.fault for gpu in self._gpus]
        if faults and all(fault and fault.code == codes.UNINITIALIZED for fault in faults):
            self._is_open = False

    def _reading(self) -> Reading:
        processes: dict[int, tuple[ProcessDevice, ...]] = {}
        for gpu in self._gpus:
            for pid, entry in gpu.listing.entries:
                processes[pid] = (*processes.get(pid, ()), entry)
        self._refresh_topology()
        return Reading(
            devices=tuple(d for gpu in self._gpus for d in (gpu.device, *gpu.instances)),
            processes=processes,
            topology=self._topology,
            versions=self._versions,
            faults=tuple(self._faults()),
        )

    def _refresh_topology(self) -> None:
        """Read the topology when the set of readable GPUs has changed."""
        present = [gpu for gpu in self._gpus if gpu.reader.handle is not None]
        uuids = tuple(gpu.device.uuid for gpu in present)
        if uuids != self._topology_of:
            self._topology_of = uuids
            pairs = [(gpu.device, gpu.reader.handle) for gpu in present]
            self._topology = read_topology(self._library, pairs)

    def _faults(self) -> Iterable[Fault]:
        if self._is_open and not self._gpus:
            yield Fault(source="nvml", code=codes.NOT_FOUND, message="no GPU was found")
        for gpu in self._gpus:
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


def _kernel_address(bus_id: str | None) -> str | None:
    """Return NVML's `00000000:1A:00.0` as the kernel's `0000:1a:00.0`."""
    return bus_id[-12:].lower() if bus_id else None
