"""Everything gpudash knows about a host at one instant, frozen; no I/O.

Each field is declared once, with its group, unit, help sentence and NVML call; JSON, its schema,
the detail screen and the reference tables follow from that. A field that is None is a value the
device does not have, the driver did not give or the caller may not see; 0 means zero.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime, timezone
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from gpudash.model import SCHEMA
from gpudash.model.device import Device
from gpudash.model.fault import Fault, listing_failed
from gpudash.model.fields import Amount, Group, Index, Integer, Natural, Seconds, metric
from gpudash.model.process import Holder, Lease, Process, ProcessDevice
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

FindingLevel = Literal["info", "warn", "critical"]

_finding = partial(metric, Group.FINDING)


class Evidence(Struct, frozen=True, kw_only=True):
    """One number or word that proves a finding."""

    # fmt: off
    name: Annotated[str, _finding(Unit.NONE, "The field that it was read from, or what it is.")]
    value: Annotated[bool | Integer | float | str, _finding(Unit.NONE, "Its value.")]
    unit: Annotated[str, _finding(Unit.NONE, "Its unit, empty for a bare value.")] = ""
    of: Annotated[str | None, _finding(Unit.NONE,
        "What it belongs to where several are concerned: GPU 3, PID 4242.")] = None
    # fmt: on


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong or wasteful on one or many hosts, and what to do about it."""

    # fmt: off
    rule: Annotated[str, _finding(Unit.NONE, "Which rule found it, such as power-capped.")]
    level: Annotated[FindingLevel, _finding(Unit.NONE, "info, warn or critical.")]
    sentence: Annotated[str, _finding(Unit.NONE, "What is wrong, in one sentence.")]
    advice: Annotated[str, _finding(Unit.NONE, "What to do about it.")] = ""
    evidence: Annotated[tuple[Evidence, ...], _finding(Unit.NONE,
        "What proves it, as it was last seen.")] = ()
    hosts: Annotated[tuple[str, ...], Meta(max_length=1 << 14), _finding(Unit.NONE,
        "Among many hosts those that it concerns, cluster/name where clusters share a name; empty "
        "for all of them, and in the document of one host.")] = ()
    uuids: Annotated[tuple[str, ...], Meta(max_length=1 << 16), _finding(Unit.NONE,
        "The devices that it concerns; empty if it is not about devices.")] = ()
    indices: Annotated[tuple[Index, ...], _finding(Unit.NONE,
        "Indices of their GPUs, also of one lost before its UUID was read; empty among many "
        "hosts.")] = ()
    pids: Annotated[tuple[Index, ...], _finding(Unit.NONE,
        "The processes of this document that it concerns.")] = ()
    held_seconds: Annotated[Seconds | None, _finding(Unit.SECOND,
        "How long it has lasted so far; null if that is not known, as in the first sample.")] = None
    newest_seconds: Annotated[Seconds | None, _finding(Unit.SECOND,
        "How long the newest of what it joins has lasted, null where all is about as old.")] = None
    acknowledged: Annotated[str | None, _finding(Unit.NONE,
        "Why it is no news, who acknowledged it and until when; null for a new one.")] = None
    # fmt: on


P2PStatus = Literal["X", "OK", "CNS", "GNS", "TNS", "DR", "NS", "U"]

Cell = TypeVar("Cell")

Links = tuple[str | None, ...]

_topology = partial(metric, Group.TOPOLOGY)


class Nic(Struct, frozen=True, kw_only=True):
    """A network card for RDMA."""

    # fmt: off
    name: Annotated[SafeText, _topology(Unit.NONE, "Its name in the kernel: mlx5_0.")]
    gpu_links: Annotated[Links, _topology(Unit.NONE, "How it reaches each GPU.")]
    nic_links: Annotated[Links, _topology(Unit.NONE, "How it reaches each card.")]
    # fmt: on


class Topology(Struct, frozen=True, kw_only=True):
    """How the GPUs are connected: matrices and lists in the order of `uuids`."""

    # fmt: off
    uuids: Annotated[tuple[str, ...], _topology(Unit.NONE,
        "The GPUs, in the order of their indices.")]
    indices: Annotated[tuple[Index, ...], _topology(Unit.NONE, "Their NVML indices, for headings.")]
    links: Annotated[tuple[tuple[str | None, ...], ...], _topology(Unit.NONE,
        "Link of each pair: X self, NV# the number of NVLinks, PSB, PIX, PXB, PHB, NODE, SYS.",
        nvml="nvmlDeviceGetTopologyCommonAncestor, nvmlDeviceGetNvLinkRemotePciInfo_v2")]
    p2p_read: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether the row's GPU may read the column's memory.", nvml="nvmlDeviceGetP2PStatus")]
    p2p_write: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether the row's GPU may write the column's memory.", nvml="nvmlDeviceGetP2PStatus")]
    p2p_atomics: Annotated[tuple[tuple[P2PStatus | None, ...], ...], _topology(Unit.NONE,
        "Whether atomic operations reach from row to column.", nvml="nvmlDeviceGetP2PStatus")]
    p2p_nvlink: Annotated[tuple[tuple[P2PStatus | None, ...], ...] | None, _topology(Unit.NONE,
        "Whether NVLinks carry it; read only by `gpudash topo -p2p n`.",
        nvml="nvmlDeviceGetP2PStatus")] = None
    p2p_pcie: Annotated[tuple[tuple[P2PStatus | None, ...], ...] | None, _topology(Unit.NONE,
        "Whether PCIe carries it; read only by `gpudash topo -p2p p`.",
        nvml="nvmlDeviceGetP2PStatus")] = None
    pci_links: Annotated[tuple[Links, ...] | None, _topology(Unit.NONE,
        "Link of each pair over PCIe alone; read only by nvidia-smi's forms of `gpudash topo`.",
        nvml="nvmlDeviceGetTopologyCommonAncestor")] = None
    nics: Annotated[tuple[Nic, ...], Meta(max_length=1 << 10), _topology(Unit.NONE,
        "Network cards for RDMA; read only by nvidia-smi's forms of `gpudash topo`.")] = ()
    gpu_numa_ids: Annotated[tuple[Index | None, ...] | None, _topology(Unit.NONE,
        "NUMA nodes that the memory of each GPU is, beside a Grace CPU; read only by nvidia-smi's "
        "forms of `gpudash topo`.", nvml="nvmlDeviceGetNumaNodeId")] = None
    cpu_affinity: Annotated[tuple[str | None, ...], _topology(Unit.NONE,
        "CPUs next to each GPU, as a list of ranges.", nvml="nvmlDeviceGetCpuAffinity")]
    numa_affinity: Annotated[tuple[str | None, ...], _topology(Unit.NONE,
        "Host NUMA nodes next to each GPU, as a list of ranges.",
        nvml="nvmlDeviceGetMemoryAffinity")]
    # fmt: on

    def among(self, uuids: Set[str]) -> Topology | None:
        """Return how these GPUs are connected, None if none of them is known here."""
        kept = [index for index, uuid in enumerate(self.uuids) if uuid in uuids]
        if len(kept) in (0, len(self.uuids)):
            return self if kept else None

        def square(matrix: Sequence[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
            return tuple(tuple(matrix[i][j] for j in kept) for i in kept)

        return Topology(
            uuids=tuple(self.uuids[i] for i in kept),
            indices=tuple(self.indices[i] for i in kept),
            links=square(self.links),
            p2p_read=square(self.p2p_read),
            p2p_write=square(self.p2p_write),
            p2p_atomics=square(self.p2p_atomics),
            p2p_nvlink=self.p2p_nvlink and square(self.p2p_nvlink),
            p2p_pcie=self.p2p_pcie and square(self.p2p_pcie),
            pci_links=self.pci_links and square(self.pci_links),
            nics=tuple(
                replace(nic, gpu_links=tuple(nic.gpu_links[i] for i in kept)) for nic in self.nics
            ),
            gpu_numa_ids=self.gpu_numa_ids and tuple(self.gpu_numa_ids[i] for i in kept),
            cpu_affinity=tuple(self.cpu_affinity[i] for i in kept),
            numa_affinity=tuple(self.numa_affinity[i] for i in kept),
        )


_host = partial(metric, Group.HOST)

# Properties of a host, alone or among many: fields of `Host` and of `FleetHost`.
# fmt: off
DriverVersion = Annotated[SafeText | None, _host(Unit.NONE,
    "Version of the NVIDIA driver.", nvml="nvmlSystemGetDriverVersion")]
CpuPercent = Annotated[Amount | None, _host(Unit.PERCENT,
    "All CPUs together, 0 to 100: since the last sample, or since boot in the first one.")]
MemoryTotal = Annotated[Natural | None, _host(Unit.BYTE, "Host memory.")]
MemoryUsed = Annotated[Natural | None, _host(Unit.BYTE, "Host memory in use, without caches.")]
# fmt: on


class Host(Struct, frozen=True, kw_only=True):
    """The machine and its driver."""

    # fmt: off
    hostname: Annotated[SafeText, _host(Unit.NONE, "Name of the host.")]
    simulated: Annotated[bool, _host(Unit.NONE, "Whether the host is simulated (--demo).")] = False
    driver_version: DriverVersion = None
    nvml_version: Annotated[SafeText | None, _host(Unit.NONE,
        "Version of NVML.", nvml="nvmlSystemGetNVMLVersion")] = None
    cuda_driver_version: Annotated[str | None, _host(Unit.NONE,
        "Highest CUDA version that the driver supports.",
        nvml="nvmlSystemGetCudaDriverVersion_v2")] = None
    cpu_count: Annotated[Natural | None, _host(Unit.COUNT, "Logical CPUs.")] = None
    cpu_percent: CpuPercent = None
    memory_total_bytes: MemoryTotal = None
    memory_used_bytes: MemoryUsed = None
    memory_available_bytes: Annotated[Natural | None, _host(Unit.BYTE,
        "Host memory available without swapping.")] = None
    swap_total_bytes: Annotated[Natural | None, _host(Unit.BYTE, "Swap space.")] = None
    swap_used_bytes: Annotated[Natural | None, _host(Unit.BYTE, "Swap space in use.")] = None
    load_average: Annotated[tuple[Amount, Amount, Amount] | None, _host(Unit.NONE,
        "Runnable tasks over 1, 5 and 15 minutes.")] = None
    uptime_seconds: Annotated[Seconds | None, _host(Unit.SECOND, "Time since boot.")] = None
    # fmt: on


_document = partial(metric, Group.DOCUMENT)


class LeftOut(Struct, frozen=True, kw_only=True):
    """How much of a snapshot is missing in its document, which is of a limited size."""

    # fmt: off
    command_lines: Annotated[Natural, _document(Unit.COUNT,
        "Command lines of processes of which only the program is left.")] = 0
    holders: Annotated[Natural, _document(Unit.COUNT,
        "Holders of which only the PID is left.")] = 0
    findings: Annotated[Natural, _document(Unit.COUNT, "Missing findings.")] = 0
    processes: Annotated[Natural, _document(Unit.COUNT, "Missing processes.")] = 0
    # fmt: on


_MAX_LISTED = Meta(max_length=1 << 14)
"""More than any host has: a few bytes of a compressed recording could claim millions."""


class ProcessUse(NamedTuple):
    """One process on one device."""

    process: Process
    share: ProcessDevice


class Snapshot(Struct, frozen=True, kw_only=True):
    """One host at one instant: the document that gpudash prints, pipes, records and shows."""

    # fmt: off
    schema: Annotated[Index, _document(Unit.NONE,
        "Version of this document; fields are only added.")] = SCHEMA
    collected_by: Annotated[SafeText | None, _document(Unit.NONE,
        "User whose `gpudash serve` took it for all of this host, null if it was taken for one "
        "reader.")] = None
    taken_at: Annotated[datetime, Meta(tz=True), _document(Unit.NONE,
        "When it was taken, RFC 3339 in UTC.")]
    host: Annotated[Host, _document(Unit.NONE, "The machine and its driver.")]
    devices: Annotated[tuple[Device, ...], _MAX_LISTED, _document(Unit.NONE,
        "GPUs by index, each followed by its MIG instances.")] = ()
    processes: Annotated[tuple[Process, ...], _document(Unit.NONE,
        "Processes on any device, the largest holder first.")] = ()
    holders: Annotated[tuple[Holder, ...], _MAX_LISTED, _document(Unit.NONE,
        "Processes that have devices open although the driver lists them on none, each once; "
        "`holder_pids` of a device names its own.")] = ()
    topology: Annotated[Topology | None, _document(Unit.NONE,
        "Links between the GPUs, null where NVML cannot report them.")] = None
    errors: Annotated[tuple[Fault, ...], _MAX_LISTED, _document(Unit.NONE,
        "What could not be read, apart from single devices.")] = ()
    findings: Annotated[Annotated[tuple[Finding, ...], _MAX_LISTED] | None, _document(Unit.NONE,
        "What is wrong or wasteful, the worst first; null if it was not examined.")] = None
    leases: Annotated[tuple[Lease, ...], _MAX_LISTED, _document(Unit.NONE,
        "GPUs leased with `gpudash run`.")] = ()
    left_out: Annotated[LeftOut | None, _document(Unit.NONE,
        "What is missing because the document would exceed 8 MiB, null for nothing.")] = None
    brief: Annotated[bool, _document(Unit.NONE,
        "Whether not all was read yet, so that null means nothing; never in what is printed.")
        ] = False
    # fmt: on

    def holders_of(self, device: Device) -> tuple[Holder, ...]:
        """Return the holders of a device; for one without a description, only the PID is known."""
        if not device.holder_pids:
            return ()
        described = {holder.pid: holder for holder in self.holders}
        return tuple(described.get(pid) or Holder(pid=pid) for pid in device.holder_pids)

    def uses_of(self, gpu: Device) -> list[ProcessUse]:
        """Return the processes on a GPU and its MIG instances, in the order of the driver."""
        uses = [
            ProcessUse(process, share)
            for process in self.processes
            for share in process.devices
            if share.index == gpu.index
        ]
        return sorted(uses, key=lambda use: use.share.list_position or 0)


EMPTY = Snapshot(
    host=Host(hostname=SafeText("")), taken_at=datetime(1970, 1, 1, tzinfo=timezone.utc)
)
"""The snapshot before the first one: no host, no devices."""


def whole_gpus(snapshot: Snapshot) -> list[Device]:
    """Return the GPUs without the MIG instances."""
    return [device for device in snapshot.devices if not device.is_mig]


def gpus_unknown(snapshot: Snapshot) -> bool:
    """Whether the GPUs are unknown: there was no sample yet, or the driver did not list them."""
    return snapshot is EMPTY or (not snapshot.devices and listing_failed(snapshot.errors))


class UptimeClock:
    """The time of snapshots since boot, even for one without uptime."""

    def __init__(self) -> None:
        self._boot = 0.0

    def instant(self, snapshot: Snapshot) -> float:
        """Return when a snapshot was taken, in seconds since the host started."""
        taken_at, uptime = snapshot.taken_at.timestamp(), snapshot.host.uptime_seconds
        if uptime is None:
            return taken_at - self._boot
        self._boot = taken_at - uptime
        return uptime
