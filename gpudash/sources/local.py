"""This machine, or a simulated one: NVML and the operating system joined into one snapshot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timezone

from msgspec.structs import replace

from gpudash.errors import UsageError
from gpudash.snapshot import Process, ProcessDevice, Snapshot
from gpudash.sources import HostReader, Source
from gpudash.sources.nvml import Library, NvmlReader, PciBus, load


class LocalSource:
    """A host seen through its driver and its operating system."""

    def __init__(
        self, nvml: NvmlReader, host: HostReader, clock: Callable[[], float] = time.time
    ) -> None:
        self._nvml = nvml
        self._host = host
        self._clock = clock

    def sample(self) -> Snapshot:
        """Return the host as it is now; raises DriverError when NVML cannot be used at all."""
        taken_at = datetime.fromtimestamp(self._clock(), timezone.utc)
        nvml = self._nvml.read()
        host = self._host.host()
        processes = self._host.processes(nvml.processes.keys())
        return Snapshot(
            taken_at=taken_at,
            host=replace(
                host,
                driver_version=nvml.versions.driver_version,
                nvml_version=nvml.versions.nvml_version,
                cuda_driver_version=nvml.versions.cuda_driver_version,
            ),
            devices=nvml.devices,
            processes=_joined(processes, nvml.processes),
            topology=nvml.topology,
            errors=nvml.faults + self._host.faults(),
        )

    def close(self) -> None:
        """Let go of the driver."""
        self._nvml.close()


def open_source(demo: str | None = None) -> Source:
    """Return this machine, or the simulated host `demo`.

    Raises UsageError for a simulated host that does not exist, GpudashError when a package hides
    nvidia-ml-py. NVML itself is opened by the first sample.
    """
    if demo is not None:
        return open_simulated(demo, _demo_clock())
    from gpudash.sources.host import LinuxReader

    return LocalSource(NvmlReader(Library(load()), PciBus()), LinuxReader())


def open_simulated(name: str, clock: Callable[[], float] = time.time) -> Source:
    """Return the simulated host `name`, whose time is what `clock` says."""
    from gpudash.sources.simulated import SimulatedHost

    host = SimulatedHost(name, clock)
    nvml = NvmlReader(Library(host.library), host, wall_clock=clock)
    return LocalSource(nvml, host.reader, clock)


def _demo_clock() -> Callable[[], float]:
    """Return the clock of simulated hosts: it stands still where GPUDASH_DEMO_TIME says."""
    instant = os.environ.get("GPUDASH_DEMO_TIME", "")
    try:
        fixed = float(instant) if instant else None
    except ValueError:
        raise UsageError(f"GPUDASH_DEMO_TIME={instant!r} is no Unix time in seconds") from None
    return time.time if fixed is None else lambda: fixed


def _joined(
    processes: dict[int, Process], devices: dict[int, tuple[ProcessDevice, ...]]
) -> tuple[Process, ...]:
    """Give each process its devices; the largest holder of memory comes first."""
    joined = [replace(process, devices=devices[pid]) for pid, process in processes.items()]
    joined.sort(key=lambda process: (-(process.used_gpu_memory_bytes or 0), process.pid))
    return tuple(joined)
