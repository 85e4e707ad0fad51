"""How the GPUs are connected: links, peer access and the CPUs next to each.

The link of a pair is found as `nvidia-smi topo -m` finds it: direct NVLinks first, then links
that both have to NVSwitches, then the closest common ancestor on the PCIe tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct

from gpudash.collect.nvml.gpu import Gpu
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.links import MAX_LINKS, active_links
from gpudash.collect.nvml.values import within
from gpudash.collect.nvml.worker import DriverWorker, Task, timeout_fault
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import P2PStatus, Topology
from gpudash.model.text import clean

_ANCESTORS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_P2P = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
# By number: pynvml's name for READ is a tuple, which its own call refuses.
_READ, _WRITE, _ATOMICS = 0, 1, 3
_SWITCH = 2
_NO_DOMAIN = 0xFFFFFFFF
_NVSWITCH_CONNECTED_LINK_COUNT = 147, 0
_link_count = within(0, MAX_LINKS)
_WORD_BITS = 64
_CPU_WORDS, _NODE_WORDS, _NODE_SCOPE = 64, 16, 0

Address = tuple[int, int, int]


class _NvLinks(Struct, frozen=True):
    """A GPU's active NVLinks: how many to each PCI address, and how many to switches."""

    direct: dict[Address, int]
    switched: int


def read_topology(library: Library, gpus: Sequence[tuple[Device, Any]]) -> Topology | None:
    """Return the topology of (device, handle) pairs, None if no device has a UUID."""
    known = [(device, handle) for device, handle in gpus if device.uuid]
    if not known:
        return None
    handles = [handle for _, handle in known]
    return Topology(
        uuids=tuple(device.uuid or "" for device, _ in known),
        indices=tuple(device.index for device, _ in known),
        links=_links(library, handles),
        p2p_read=_p2p(library, handles, _READ),
        p2p_write=_p2p(library, handles, _WRITE),
        p2p_atomics=_p2p(library, handles, _ATOMICS),
        cpu_affinity=tuple(
            _mask(library.call("nvmlDeviceGetCpuAffinity", handle, _CPU_WORDS)[0])
            for handle in handles
        ),
        numa_affinity=tuple(
            _mask(library.call("nvmlDeviceGetMemoryAffinity", handle, _NODE_WORDS, _NODE_SCOPE)[0])
            for handle in handles
        ),
    )


def _links(library: Library, handles: list[Any]) -> tuple[tuple[str | None, ...], ...]:
    addresses = [_address(library.call("nvmlDeviceGetPciInfo", handle)[0]) for handle in handles]
    nvlinks = [_nvlinks(library, handle) for handle in handles]
    cells: list[list[str | None]] = [["X"] * len(handles) for _ in handles]
    for row in range(len(handles)):
        for column in range(row + 1, len(handles)):
            address = addresses[column]
            count = nvlinks[row].direct.get(address, 0) if address else 0
            count = count or min(nvlinks[row].switched, nvlinks[column].switched)
            link = f"NV{count}" if count else _ancestor(library, handles[row], handles[column])
            cells[row][column] = cells[column][row] = link
    return tuple(tuple(row) for row in cells)


def _ancestor(library: Library, one: Any, other: Any) -> str | None:
    level, _ = library.call("nvmlDeviceGetTopologyCommonAncestor", one, other)
    return _ANCESTORS.get(level)


def _nvlinks(library: Library, handle: Any) -> _NvLinks:
    direct: dict[Address, int] = {}
    switched = 0
    for link in active_links(library, handle):
        peer = library.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)[0]
        kind = library.call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)[0]
        if kind == _SWITCH or (peer is not None and peer.domain == _NO_DOMAIN):
            switched += 1
        elif address := _address(peer):
            direct[address] = direct.get(address, 0) + 1
    counted = library.fields(handle, [_NVSWITCH_CONNECTED_LINK_COUNT]).values
    if _NVSWITCH_CONNECTED_LINK_COUNT in counted:
        count = _link_count(counted[_NVSWITCH_CONNECTED_LINK_COUNT].value)
        switched = max(switched, count or 0)
    return _NvLinks(direct, switched)


def _address(pci: Any) -> Address | None:
    return None if pci is None else (pci.domain, pci.bus, pci.device)


def _p2p(
    library: Library, handles: list[Any], capability: int
) -> tuple[tuple[P2PStatus | None, ...], ...]:
    def status(row: int, column: int) -> str | None:
        if row == column:
            return "X"
        answer, _ = library.call(
            "nvmlDeviceGetP2PStatus", handles[row], handles[column], capability
        )
        return _P2P.get(answer)

    size = range(len(handles))
    return tuple(tuple(cast("P2PStatus | None", status(row, c)) for c in size) for row in size)


def _mask(words: Sequence[int] | None) -> str | None:
    """Return the set bits of a mask as ranges, `0-31,64-95`; None if none is set."""
    bits = [
        word * _WORD_BITS + bit
        for word, value in enumerate(words or ())
        if value
        for bit in range(_WORD_BITS)
        if value >> bit & 1
    ]
    runs: list[list[int]] = []
    for bit in bits:
        if runs and bit == runs[-1][1] + 1:
            runs[-1][1] = bit
        else:
            runs.append([bit, bit])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs) or None


_Known = tuple[str | None, int]
"""UUID of a GPU and how often its handle was obtained: after a reset its links may be others."""


class TopologyCache:
    """How the readable GPUs are connected: read again only when there is one that was not covered.

    GPUs that are gone, asleep or silent are left out, for which nothing has to be read.
    """

    def __init__(self, library: Library, worker: DriverWorker) -> None:
        self.topology: Topology | None = None
        self._library = library
        self._worker = worker
        self._task: Task[Topology | None] | None = None
        self._reading: tuple[_Known, ...] = ()
        self._whole: Topology | None = None
        self._whole_of: tuple[_Known, ...] = ()
        self._shown_of: tuple[_Known, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Whether a call has not come back."""
        return self._task is not None and self._task.is_pending

    def refresh(self, gpus: Iterable[Gpu]) -> None:
        """Cover the GPUs that are readable now."""
        if self.is_pending:
            return
        self._take()
        present = [gpu for gpu in gpus if gpu.is_readable]
        known = tuple((gpu.device.uuid, gpu.reader.openings) for gpu in present)
        if known == self._shown_of and self._task is None:
            return
        if set(known) <= set(self._whole_of):
            self._task = None
        else:
            self._read(present, known)
        if self._task is None:
            self._show(known)

    def faults(self) -> Iterator[Fault]:
        """Yield why the topology is not known."""
        if self._task is not None:
            fault = timeout_fault(self._task, "the driver")
            message = clean(f"topology unknown: {fault.message}")
            yield Fault(source="topology", code=fault.code, message=message)

    def _read(self, present: list[Gpu], known: tuple[_Known, ...]) -> None:
        self._reading, self._shown_of, self.topology = known, (), None
        pairs = [(gpu.device, gpu.reader.handle) for gpu in present]
        self._task = Task(lambda: read_topology(self._library, pairs), retry_of=self._task)
        self._worker.run([self._task], first=True)
        self._take()

    def _take(self) -> None:
        if self._task is not None and self._task.is_done:
            self._whole, self._whole_of = self._task.result(), self._reading
            self._task = None

    def _show(self, known: tuple[_Known, ...]) -> None:
        self._shown_of = known
        uuids = {uuid for uuid, _ in known if uuid is not None}
        self.topology = None if self._whole is None else self._whole.among(uuids)
