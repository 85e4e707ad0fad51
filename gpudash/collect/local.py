"""This machine, or a simulated one: NVML and the operating system joined into one snapshot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from math import inf
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.collect.nvml.bus import IdlePolicy, PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader
from gpudash.collect.nvml.worker import (
    STREAM_TIMEOUTS,
    CallTimeouts,
    DriverWorker,
    ignore_answer,
    one_shot_timeouts,
)
from gpudash.collect.source import Holders, HostReader, Source
from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Host, Snapshot

_UNACCOUNTED_BYTES = 256 << 20
"""Less may be what the driver keeps besides its processes; a lone CUDA context takes more."""


def explained(snapshot: Snapshot, reader: HostReader) -> Snapshot:
    """Return the snapshot with who may hold what nobody owns, and with what the host shares."""
    minors = {d.minor_number for d in snapshot.devices if d.minor_number is not None and _lacks(d)}
    listed = {process.pid for process in snapshot.processes}
    holders = reader.holders(minors, listed)
    if not holders and not any(device.unified_memory for device in snapshot.devices):
        return snapshot
    devices = (_with_holders(device, holders) for device in snapshot.devices)
    return replace(snapshot, devices=tuple(_sharing(each, snapshot.host) for each in devices))


def _lacks(device: Device) -> bool:
    """Whether much of its memory has no owner."""
    return not device.is_mig and (device.memory_unaccounted_bytes or 0) >= _UNACCOUNTED_BYTES


def _with_holders(device: Device, holders: Mapping[int, Holders]) -> Device:
    known = None if device.minor_number is None else holders.get(device.minor_number)
    if known is None or not _lacks(device):
        return device
    return replace(device, holders=known.found, holders_complete=known.complete)


def _sharing(device: Device, host: Host) -> Device:
    """Return a GPU without memory of its own with the sizes of the host's."""
    if not device.unified_memory:
        return device
    return replace(
        device,
        memory_total_bytes=host.memory_total_bytes,
        memory_used_bytes=host.memory_used_bytes,
        memory_free_bytes=host.memory_available_bytes,
    )


class _Joined(NamedTuple):
    """A process as the operating system and the driver tell it, and both in one."""

    process: Process
    devices: tuple[ProcessDevice, ...]
    whole: Process
    order: tuple[int, int]


_ORDER = attrgetter("order")


class LocalSource:
    """A host seen through its driver and its operating system."""

    def __init__(
        self, nvml: NvmlReader, host: HostReader, clock: Callable[[], float] = time.time
    ) -> None:
        self._nvml = nvml
        self._host = host
        self._clock = clock
        self._joined: dict[int, _Joined] = {}

    def sample(self) -> Snapshot:
        """Return the host as it is now; raises DriverError when NVML cannot be used at all."""
        taken_at = datetime.fromtimestamp(self._clock(), timezone.utc)
        self._host.begin()
        nvml = self._nvml.read()
        host = self._host.host()
        processes = self._host.processes(nvml.processes.keys(), nvml.listed_at)
        joined = self._join(processes, nvml.processes)
        snapshot = Snapshot(
            taken_at=taken_at,
            host=replace(
                host,
                driver_version=nvml.versions.driver_version,
                nvml_version=nvml.versions.nvml_version,
                cuda_driver_version=nvml.versions.cuda_driver_version,
            ),
            devices=nvml.devices,
            processes=joined,
            topology=nvml.topology,
            errors=nvml.faults + self._host.faults(),
            leases=self._host.leases(nvml.devices, joined, unlisted_uuids(nvml.faults)),
        )
        return explained(snapshot, self._host)

    def _join(
        self, processes: dict[int, Process], devices: dict[int, tuple[ProcessDevice, ...]]
    ) -> tuple[Process, ...]:
        """Give each process its devices; the largest holder of memory comes first.

        One of which neither half is new is the same object as before.
        """
        joined: dict[int, _Joined] = {}
        for pid, process in processes.items():
            known, on = self._joined.get(pid), devices[pid]
            if known is None or known.process is not process or known.devices is not on:
                whole = replace(process, devices=on)
                known = _Joined(process, on, whole, (-(whole.used_gpu_memory_bytes or 0), pid))
            joined[pid] = known
        self._joined = joined
        return tuple([each.whole for each in sorted(joined.values(), key=_ORDER)])

    def close(self) -> None:
        """Let go of the driver."""
        self._nvml.close()


def open_source(
    demo: str | None = None,
    *,
    show_secrets: bool = False,
    pcie_throughput: bool = False,
    single_look: bool = False,
    timeouts: CallTimeouts = STREAM_TIMEOUTS,
) -> Source:
    """Return this machine, or the simulated host `demo`; `timeouts` is that with the driver.

    Secrets on command lines are masked where they are read, unless they are asked for. With
    `pcie_throughput` a call that blocks is made for the PCIe rates that nothing else tells;
    with `single_look` what needs two samples is not asked for.

    Raises UsageError for a simulated host that does not exist, GpudashError when a package hides
    nvidia-ml-py. NVML itself is opened by the first sample.
    """
    if demo is not None:
        return _open_demo(demo)
    from gpudash.collect.host import LinuxReader

    worker = DriverWorker(timeouts)
    # The last thread that a system gives is for the driver; it ends with the process.
    worker.prestart()
    host = LinuxReader(show_secrets=show_secrets)
    # The kernel answers while pynvml is imported, which takes as long.
    host.begin()
    library = Library(load(), pcie_throughput=pcie_throughput, single_sample=single_look)
    kept = {} if single_look else _kept()
    nvml = NvmlReader(library, PciBus(), worker=worker, idle_policy=IdlePolicy(), handed_over=kept)
    return LocalSource(nvml, host)


def _kept() -> dict[str, Device]:
    """Return what an earlier collector left to this one."""
    from gpudash.model import xid_handover

    return xid_handover.decode_handover(os.environ)


def open_once(
    demo: str | None,
    seconds: float,
    alive: Callable[[], None] = ignore_answer,
    *,
    show_secrets: bool = False,
    pcie_throughput: bool = False,
) -> Source:
    """Return the same for a single look: each call has `seconds`, `alive` is called at answers."""
    return open_source(
        demo,
        show_secrets=show_secrets,
        pcie_throughput=pcie_throughput,
        single_look=True,
        timeouts=one_shot_timeouts(seconds, alive),
    )


def open_simulated(name: str, clock: Callable[[], float] = time.time) -> Source:
    """Return the simulated host `name`, whose time is what `clock` says."""
    from gpudash.collect.simulated import SimulatedHost

    host = SimulatedHost(name, clock)
    nvml = NvmlReader(Library(host.library), host, clock, clock)
    return LocalSource(nvml, host.reader, clock)


def _open_demo(name: str) -> Source:
    """Return a simulated host for people, whose clock the environment may set.

    GPUDASH_DEMO_TIME, Unix seconds, is where it stands still. With GPUDASH_DEMO_STEP it goes on
    by that many seconds after each sample, up to GPUDASH_DEMO_UNTIL if that is given: so a host
    has the same past whenever it is watched.
    """
    start = _demo_number("GPUDASH_DEMO_TIME")
    if start is None:
        return open_simulated(name)
    step, until = _demo_number("GPUDASH_DEMO_STEP"), _demo_number("GPUDASH_DEMO_UNTIL")
    clock = SteppedClock(start, step or 0.0, inf if until is None else until)
    return SteppedSource(open_simulated(name, clock), clock)


class SteppedClock:
    """A clock that goes on only when told to, and never beyond its end."""

    def __init__(self, start: float, step: float, until: float) -> None:
        self._now, self._step, self._until = start, step, until

    def __call__(self) -> float:
        """Return the time."""
        return self._now

    def advance(self) -> None:
        """Go on by one step."""
        self._now = max(self._now, min(self._now + self._step, self._until))


class SteppedSource:
    """A source whose time passes by its being sampled."""

    def __init__(self, source: Source, clock: SteppedClock) -> None:
        self._source = source
        self._clock = clock

    def sample(self) -> Snapshot:
        """Return the host at this step."""
        snapshot = self._source.sample()
        self._clock.advance()
        return snapshot

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def _demo_number(name: str) -> float | None:
    text = os.environ.get(name, "")
    try:
        return float(text) if text else None
    except ValueError:
        meaning = "no Unix time in seconds" if name != "GPUDASH_DEMO_STEP" else "no seconds"
        raise UsageError(f"{name}={text!r} is {meaning}") from None
