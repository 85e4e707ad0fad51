"""This machine, or a simulated one: NVML and the operating system joined into one snapshot."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from datetime import datetime, timezone
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from gpudash.collect.nvml.bus import IdlePolicy, PciBus
from gpudash.collect.nvml.library import Library, load
from gpudash.collect.nvml.reader import NvmlReader, NvmlSample
from gpudash.collect.nvml.worker import (
    STREAM_TIMEOUTS,
    CallTimeouts,
    DriverWorker,
    ignore_answer,
    one_shot_timeouts,
)
from gpudash.collect.source import Holders, HostReader, HostSource
from gpudash.model.device import Device, labelled
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import EXITED, Holder, LastRead, Process, ProcessDevice
from gpudash.model.snapshot import Host, Snapshot

_MIN_UNACCOUNTED_BYTES = 256 << 20
"""Less than this may be the driver's own; a lone CUDA context takes more."""


def open_source(
    demo: str | None = None,
    *,
    show_secrets: bool = False,
    pcie_throughput: bool = False,
    rests_on_mains: bool = False,
) -> LocalSource:
    """Return this machine, or the simulated host `demo`, to be sampled repeatedly.

    Secrets on command lines are masked where they are read, unless `show_secrets`. With
    `pcie_throughput`, a blocking call is made for PCIe rates without a counter. An idle GPU of a
    laptop is allowed to sleep on battery, and with `rests_on_mains` always.

    Raises UsageError for an unknown simulated host, GpudashError if another package hides
    nvidia-ml-py. NVML itself is opened by the first sample.
    """
    if demo is not None:
        return open_simulated(demo)
    from gpudash.model import xid_handover

    return _open_machine(
        STREAM_TIMEOUTS,
        xid_handover.decode_handover(os.environ),
        show_secrets=show_secrets,
        pcie_throughput=pcie_throughput,
        rests_on_mains=rests_on_mains,
    )


def open_once(
    demo: str | None,
    seconds: float,
    on_answer: Callable[[], None] = ignore_answer,
    *,
    show_secrets: bool = False,
    pcie_throughput: bool = False,
    whole: bool = True,
    wanted: Set[str] | None = None,
) -> HostSource:
    """Return the same for a single sample, without values that need two.

    Each call to the driver has `seconds`; `on_answer` is called after each. Without `whole`, the
    topology, which no table shows and which takes most of the calls on many GPUs, is None unless a
    finding needs it. `wanted` are the fields of devices, and `processes`, to read; None for those
    of a table.
    """
    if demo is not None:
        return open_simulated(demo, wanted=wanted)
    return _open_machine(
        one_shot_timeouts(seconds, on_answer),
        show_secrets=show_secrets,
        pcie_throughput=pcie_throughput,
        single_sample=True,
        whole=whole,
        wanted=wanted,
    )


def open_simulated(
    name: str, clock: Callable[[], float] = time.time, *, wanted: Set[str] | None = None
) -> LocalSource:
    """Return the simulated host `name`, with `clock` as its time.

    Raises UsageError for an unknown name.
    """
    from gpudash.collect.simulated import SimulatedHost

    host = SimulatedHost(name, clock)
    nvml = NvmlReader(Library(host.library, wanted=wanted), host, clock, clock)
    return LocalSource(nvml, host.reader, clock)


def _open_machine(
    timeouts: CallTimeouts,
    handed_over: dict[str, Device] | None = None,
    *,
    show_secrets: bool,
    pcie_throughput: bool,
    rests_on_mains: bool = False,
    single_sample: bool = False,
    whole: bool = True,
    wanted: Set[str] | None = None,
) -> LocalSource:
    from gpudash.collect.host import LinuxReader

    worker = DriverWorker(timeouts)
    # The last available thread is for the driver; it ends with the process.
    worker.prestart()
    host = LinuxReader(show_secrets=show_secrets)
    # The kernel answers while pynvml is imported, which takes as long.
    host.begin()
    library = Library(
        load(), pcie_throughput=pcie_throughput, single_sample=single_sample, wanted=wanted
    )
    nvml = NvmlReader(
        library,
        PciBus(),
        worker=worker,
        idle_policy=IdlePolicy(on_mains=rests_on_mains),
        handed_over=handed_over,
        with_topology=whole,
    )
    return LocalSource(nvml, host)


_KEPT_SECONDS = 1.0
_MAX_BRIEF = 64
"""How many processes of a brief sample are read in detail: a screen of them."""


class _HostHalf(Struct, frozen=True):
    """The operating system's data at an instant, in seconds of the monotonic clock."""

    host: Host
    processes: dict[int, Process]
    read_at: float


class _Joined(Struct, frozen=True):
    """A process as known to the operating system and to the driver, and both joined."""

    process: Process
    devices: tuple[ProcessDevice, ...]
    whole: Process
    order: tuple[int, int]


_ORDER = attrgetter("order")


class LocalSource:
    """A host by its driver and its operating system."""

    def __init__(
        self, nvml: NvmlReader, host: HostReader, clock: Callable[[], float] = time.time
    ) -> None:
        self._nvml = nvml
        self._host = host
        self._clock = clock
        self._joined: dict[int, _Joined] = {}
        self._half: _HostHalf | None = None

    def sample(self, *, brief: bool = False) -> Snapshot:
        """Return the present state of the host; with `brief`, only what a first picture shows.

        Raises DriverError if NVML cannot be used at all.
        """
        taken_at = datetime.fromtimestamp(self._clock(), timezone.utc)
        self._host.begin()
        nvml = self._nvml.read(brief=brief)
        half = self._host_half(nvml, brief=brief)
        host = replace(
            half.host,
            driver_version=nvml.versions.driver_version,
            nvml_version=nvml.versions.nvml_version,
            cuda_driver_version=nvml.versions.cuda_driver_version,
        )
        unread = {pid: Process(pid=pid, devices=()) for pid in nvml.processes} if brief else {}
        known = {**unread, **half.processes}
        processes = self._join(
            {pid: known[pid] for pid in known if pid in nvml.processes}, nvml.processes
        )
        devices = name_last_processes(nvml.devices, half.processes)
        leases = self._host.leases(nvml.devices, processes, unlisted_uuids(nvml.faults))
        # The search for unlisted holders of memory takes time.
        reader = None if brief else self._host
        devices, holders = explain_memory(
            devices, nvml.processes.keys(), host, reader, abandoned=abandoned(processes)
        )
        return Snapshot(
            taken_at=taken_at,
            host=host,
            devices=labelled(devices),
            processes=processes,
            holders=holders,
            topology=nvml.topology,
            errors=nvml.faults + self._host.faults(),
            leases=leases,
            brief=brief,
        )

    def _host_half(self, nvml: NvmlSample, *, brief: bool) -> _HostHalf:
        """Return the operating system's data; with `brief`, only of the largest processes.

        CPU shares are those of a brief sample a moment ago: over milliseconds they would be noise.
        """
        before, now = self._half, time.monotonic()
        if before is not None and now - before.read_at >= _KEPT_SECONDS:
            before = None
        pids: Collection[int] = {*nvml.processes, *_last_pids(nvml.devices)}
        if brief:
            used = {
                pid: sum(each.used_gpu_memory_bytes or 0 for each in on)
                for pid, on in nvml.processes.items()
            }
            pids = sorted(used, key=used.__getitem__, reverse=True)[:_MAX_BRIEF]
        host = before.host if before else self._host.host()
        processes = self._host.processes(pids, nvml.listed_at)
        for pid, process in (before.processes if before else {}).items():
            if pid in processes and processes[pid].start_ticks == process.start_ticks:
                processes[pid] = process
        half = _HostHalf(host, processes, now)
        self._half = half if brief else None
        return half

    def close(self) -> None:
        """Release the driver."""
        self._nvml.close()

    def _join(
        self, processes: dict[int, Process], devices: dict[int, tuple[ProcessDevice, ...]]
    ) -> tuple[Process, ...]:
        """Give each process its devices; the largest holder of memory comes first.

        A process is the same object as before if neither half has changed.
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


def _last_pids(devices: Iterable[Device]) -> Iterable[int]:
    """Yield the last listed processes of GPUs that do not answer."""
    for device in devices:
        if device.last_read is not None:
            yield from (each.pid for each in device.last_read.processes)


def name_last_processes(
    devices: tuple[Device, ...], running: Mapping[int, Process]
) -> tuple[Device, ...]:
    """Return the devices with the last processes of silent ones named, without those that ended.

    A running process may be in a call that hangs, and thus be the culprit.
    """
    if not any(device.last_read for device in devices):
        return devices
    return tuple(
        replace(each, last_read=_named(each.last_read, running)) if each.last_read else each
        for each in devices
    )


def _named(last: LastRead, running: Mapping[int, Process]) -> LastRead:
    named = (
        replace(
            each,
            start_ticks=running[each.pid].start_ticks,
            username=running[each.pid].username,
            name=running[each.pid].name,
        )
        for each in last.processes
        if each.pid in running and running[each.pid].hidden_reason != EXITED
    )
    return replace(last, processes=tuple(named))


def abandoned(processes: Iterable[Process]) -> Set[int]:
    """Return the indices of GPUs on which an exited process holds memory."""
    return {
        share.index
        for process in processes
        if process.hidden_reason == EXITED
        for share in process.devices
        if share.used_gpu_memory_bytes != 0
    }


def explain_memory(
    devices: tuple[Device, ...],
    listed: Collection[int],
    host: Host,
    reader: HostReader | None,
    *,
    abandoned: Set[int] = frozenset(),
) -> tuple[tuple[Device, ...], tuple[Holder, ...]]:
    """Return the devices, and who may hold memory that no `listed` process owns, each once.

    `abandoned` are the indices of GPUs of which a listed process has exited. A device without its
    own memory gets the host's sizes. Without a reader, there is no search.
    """
    minors = {
        device.minor_number
        for device in devices
        if device.minor_number is not None and _is_unexplained(device, abandoned)
    }
    known = {} if reader is None else reader.holders(minors, listed)
    if not known and not any(device.unified_memory for device in devices):
        return devices, ()
    holders = {each.pid: each for one in known.values() for each in one.found}
    explained = tuple(
        _with_host_memory(
            _with_holders(each, known) if _is_unexplained(each, abandoned) else each, host
        )
        for each in devices
    )
    return explained, tuple(holders.values())


def _is_unexplained(device: Device, abandoned: Set[int]) -> bool:
    if device.is_mig:
        return False
    unaccounted = device.memory_unaccounted_bytes or 0
    return device.index in abandoned or unaccounted >= _MIN_UNACCOUNTED_BYTES


def _with_holders(device: Device, holders: Mapping[int, Holders]) -> Device:
    known = None if device.minor_number is None else holders.get(device.minor_number)
    if known is None:
        return device
    return replace(
        device,
        holder_pids=tuple(holder.pid for holder in known.found),
        holder_count=len(known.found) + known.left_out,
        holders_complete=known.complete,
    )


def _with_host_memory(device: Device, host: Host) -> Device:
    if not device.unified_memory:
        return device
    return replace(
        device,
        memory_total_bytes=host.memory_total_bytes,
        memory_used_bytes=host.memory_used_bytes,
        memory_free_bytes=host.memory_available_bytes,
    )
