"""Connections between GPUs: links, peer access and the CPUs close to each.

The link of a pair is determined like in `nvidia-smi topo -m`: direct NVLinks first, then links that
both have to NVSwitches, then the closest common ancestor on the PCIe tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from msgspec import Struct

from gpudash.collect.nvml.gpu import Gpu
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.links import link_number
from gpudash.collect.nvml.worker import DriverWorker, Task, timeout_fault
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Nic, P2PStatus, Topology
from gpudash.model.text import clean
from gpudash.model.units import ranges
from gpudash.system import nics as system_nics
from gpudash.system.pci import kernel_address

_ANCESTORS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
# By number: pynvml's name for READ is a tuple, which its own call rejects.
_READ, _WRITE, _NVLINK, _ATOMICS, _PCIE = range(5)
_SWITCH = 2
_NO_DOMAIN = 0xFFFFFFFF
_NVSWITCH_CONNECTED_LINK_COUNT = 147, 0
_WORD_BITS = 64
_CPU_WORDS, _NODE_WORDS, _NODE_SCOPE = 64, 16, 0

_CAPABILITIES = {"p2p_read": _READ, "p2p_write": _WRITE, "p2p_atomics": _ATOMICS}
_MORE_CAPABILITIES = {"p2p_nvlink": _NVLINK, "p2p_pcie": _PCIE}
"""Read on request: a call for each pair."""
_SMI_FORMS = "pci_links"
"""Requests everything that only nvidia-smi shows: that field, the cards, the NUMA nodes."""

Address = tuple[int, int, int]


class _Port(Struct, frozen=True):
    """One GPU as a node of the topology, and how to reach it."""

    device: Device
    handle: Any
    links: tuple[int, ...]
    """The numbers of its NVLinks that are up."""
    address: Address | None


class _Ends(Struct, frozen=True):
    """How many of a GPU's NVLinks lead to each PCI address and to switches, and its CPUs."""

    direct: dict[Address, int]
    switched: int
    cpus: str | None
    nodes: str | None
    gpu_node: int | None


class _Row(Struct, frozen=True):
    """A GPU's pairs: the link to each from itself on, and its access to the memory of all."""

    links: Sequence[str | None]
    pci_links: Sequence[str | None] | None
    p2p: Mapping[str, Sequence[str | None]]


def _read_ends(library: Library, port: _Port, gpus: Collection[Address | None]) -> _Ends:
    cpus = library.call("nvmlDeviceGetCpuAffinity", port.handle, _CPU_WORDS)[0]
    nodes = library.call("nvmlDeviceGetMemoryAffinity", port.handle, _NODE_WORDS, _NODE_SCOPE)[0]
    gpu_node = None
    if _has_smi_forms(library):
        gpu_node = library.call("nvmlDeviceGetNumaNodeId", port.handle)[0]
    return _Ends(*_link_ends(library, port, gpus), _mask(cpus), _mask(nodes), gpu_node)


def _has_smi_forms(library: Library) -> bool:
    return library.wanted is not None and library.wants(_SMI_FORMS)


def _link_ends(
    library: Library, port: _Port, gpus: Collection[Address | None]
) -> tuple[dict[Address, int], int]:
    """Return how many NVLinks lead to each GPU, and how many to switches."""
    counted = library.fields(port.handle, [_NVSWITCH_CONNECTED_LINK_COUNT]).values
    answer = counted.get(_NVSWITCH_CONNECTED_LINK_COUNT)
    switched = (answer and link_number(answer.value)) or 0
    direct: dict[Address, int] = {}
    if switched >= len(port.links):
        return direct, switched
    to_switch = 0
    for link in port.links:
        peer = library.call("nvmlDeviceGetNvLinkRemotePciInfo", port.handle, link)[0]
        address = _address(peer)
        if address is not None and address in gpus:
            direct[address] = direct.get(address, 0) + 1
        elif peer is not None and peer.domain == _NO_DOMAIN:
            to_switch += 1
        else:
            kind = library.call("nvmlDeviceGetNvLinkRemoteDeviceType", port.handle, link)[0]
            to_switch += kind == _SWITCH
    return direct, max(switched, to_switch)


def _read_row(library: Library, ports: Sequence[_Port], ends: Sequence[_Ends], row: int) -> _Row:
    here = ports[row]
    links: list[str | None] = ["X"]
    for port, end in zip(ports[row + 1 :], ends[row + 1 :], strict=True):
        count = ends[row].direct.get(port.address, 0) if port.address else 0
        count = count or min(ends[row].switched, end.switched)
        links.append(f"NV{count}" if count else _ancestor(library, here.handle, port.handle))
    wanted = _CAPABILITIES
    if library.wanted is not None and library.wants(*_MORE_CAPABILITIES):
        wanted = {**_CAPABILITIES, **_MORE_CAPABILITIES}
    p2p = {
        name: [
            "X" if port is here else _p2p(library, here.handle, port.handle, capability)
            for port in ports
        ]
        for name, capability in wanted.items()
    }
    pci_links: list[str | None] | None = None
    if _has_smi_forms(library):
        others = ports[row + 1 :]
        pci_links = ["X", *(_ancestor(library, here.handle, port.handle) for port in others)]
    return _Row(links, pci_links, p2p)


def _ancestor(library: Library, one: Any, other: Any) -> str | None:
    level, _ = library.call("nvmlDeviceGetTopologyCommonAncestor", one, other)
    return _ANCESTORS.get(level)


def _p2p(library: Library, one: Any, other: Any, capability: int) -> str | None:
    answer, _ = library.call("nvmlDeviceGetP2PStatus", one, other, capability)
    return _P2P.get(answer)


def _address(pci: Any) -> Address | None:
    return None if pci is None else (pci.domain, pci.bus, pci.device)


def _parsed(bus_id: str | None) -> Address | None:
    """Return the address in `00000000:1A:00.0`, None for any other text."""
    try:
        domain, bus, device = (bus_id or "").partition(".")[0].split(":")
        return int(domain, 16), int(bus, 16), int(device, 16)
    except ValueError:
        return None


def _topology(
    ports: Sequence[_Port], ends: Sequence[_Ends], rows: Sequence[_Row], nics: tuple[Nic, ...]
) -> Topology:
    size = range(len(ports))

    def square(triangle: Sequence[Sequence[str | None]]) -> tuple[tuple[str | None, ...], ...]:
        return tuple(tuple(triangle[min(a, b)][abs(a - b)] for b in size) for a in size)

    pci_links = [row.pci_links for row in rows if row.pci_links is not None]
    p2p = {
        name: tuple(tuple(cast("list[P2PStatus | None]", row.p2p[name])) for row in rows)
        for name in (rows[0].p2p if rows else _CAPABILITIES)
    }
    return Topology(
        uuids=tuple(port.device.uuid or "" for port in ports),
        indices=tuple(port.device.index for port in ports),
        links=square([row.links for row in rows]),
        pci_links=square(pci_links) if pci_links else None,
        nics=nics,
        gpu_numa_ids=tuple(each.gpu_node for each in ends) if pci_links else None,
        cpu_affinity=tuple(each.cpus for each in ends),
        numa_affinity=tuple(each.nodes for each in ends),
        **p2p,
    )


def _nics(ports: Sequence[_Port]) -> tuple[Nic, ...]:
    found = system_nics.nics([kernel_address(port.device.pci_bus_id) for port in ports])
    count = len(ports)
    return tuple(
        Nic(name=clean(name), gpu_links=links[:count], nic_links=links[count:])
        for name, links in found
    )


def _mask(words: Sequence[int] | None) -> str | None:
    """Return the set bits of a mask as ranges, `0-31,64-95`; None if none is set."""
    bits = [
        word * _WORD_BITS + bit
        for word, value in enumerate(words or ())
        if value
        for bit in range(_WORD_BITS)
        if value >> bit & 1
    ]
    return ",".join(ranges(bits)) or None


_Known = tuple[str | None, int]
"""UUID of a GPU and how often its handle was obtained: a reset may change its links."""


class TopologyCache:
    """Connections between the readable GPUs: read again only when one was not covered.

    First the ends of each GPU's links are read, then the pairs of each, each GPU in a separate
    task. GPUs that are gone, asleep or silent are left out, so they need no reads.
    """

    def __init__(self, library: Library, worker: DriverWorker) -> None:
        self.topology: Topology | None = None
        self._library = library
        self._worker = worker
        self._tasks: list[Task[Any]] = []
        self._ports: list[_Port] = []
        self._ends: list[_Ends] = []
        self._reading: tuple[_Known, ...] = ()
        self._whole: Topology | None = None
        self._whole_of: tuple[_Known, ...] = ()
        self._shown_of: tuple[_Known, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Whether a call has not returned."""
        return any(task.is_pending for task in self._tasks)

    def refresh(self, gpus: Iterable[Gpu]) -> None:
        """Cover the GPUs that are readable now."""
        if self.is_pending:
            return
        self._take()
        present = [gpu for gpu in gpus if gpu.is_readable]
        known = tuple((gpu.device.uuid, gpu.reader.openings) for gpu in present)
        if known == self._shown_of and not self._tasks:
            return
        if set(known) <= set(self._whole_of):
            self._tasks = []
        else:
            self._read(present, known)
        if not self._tasks:
            self._show(known)

    def faults(self) -> Iterator[Fault]:
        """Yield why the topology is unknown."""
        task = next((task for task in self._tasks if not task.is_done), None)
        if task is not None:
            fault = timeout_fault(task, "the driver")
            message = clean(f"topology unknown: {fault.message}")
            yield Fault(source="topology", code=fault.code, message=message)

    def _read(self, present: list[Gpu], known: tuple[_Known, ...]) -> None:
        self._reading, self._shown_of, self.topology = known, (), None
        self._ports, self._ends = [_port(gpu) for gpu in present if gpu.device.uuid], []
        if not self._ports:
            self._finish(None)
            return
        gpus = frozenset(port.address for port in self._ports)
        self._run([partial(_read_ends, self._library, port, gpus) for port in self._ports])
        self._take()

    def _run(self, calls: Iterable[Callable[[], Any]]) -> None:
        before = next((task for task in self._tasks if task.lacks_thread), None)
        self._tasks = [Task(call, retry_of=before) for call in calls]
        self._worker.run(self._tasks, first=True)

    def _take(self) -> None:
        """Continue once all tasks have returned: to the pairs, and then to the whole."""
        if not self._tasks or not all(task.is_done for task in self._tasks):
            return
        results = [task.result() for task in self._tasks]
        if self._ends:
            cards = self._library.is_of_this_machine and _has_smi_forms(self._library)
            found = _nics(self._ports) if cards else ()
            self._finish(_topology(self._ports, self._ends, results, found))
        else:
            self._ends = results
            rows = range(len(self._ports))
            self._run([partial(_read_row, self._library, self._ports, results, n) for n in rows])
            self._take()

    def _finish(self, topology: Topology | None) -> None:
        self._whole, self._whole_of, self._tasks = topology, self._reading, []

    def _show(self, known: tuple[_Known, ...]) -> None:
        self._shown_of = known
        uuids = {uuid for uuid, _ in known if uuid is not None}
        self.topology = None if self._whole is None else self._whole.among(uuids)


def _port(gpu: Gpu) -> _Port:
    device, reader = gpu.device, gpu.reader
    return _Port(device, reader.handle, reader.active_links, _parsed(device.pci_bus_id))
