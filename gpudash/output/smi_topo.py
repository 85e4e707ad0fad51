"""The links between GPUs as printed by `nvidia-smi topo`: with tabs, and its legends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudash.analysis.links import gpu_names, link_matrix, p2p_matrix, pci_matrix, texts
from gpudash.model.snapshot import Topology
from gpudash.model.units import ABSENT

_UNDERLINED, _PLAIN = "\x1b[4m", "\x1b[0m"
_LINKS = {
    "X": "Self",
    "SYS": "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes "
    "(e.g., QPI/UPI)",
    "NODE": "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges "
    "within a NUMA node",
    "PHB": "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)",
    "PXB": "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)",
    "PIX": "Connection traversing at most a single PCIe bridge",
}
_NVLINKS = {"NV#": "Connection traversing a bonded set of # NVLinks"}
_STATUSES = {
    "X": "Self",
    "OK": "Status Ok",
    "CNS": "Chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "Topology not supported",
    "NS": "Not supported",
    "U": "Unknown",
}
_UNKNOWN = "N/A"

_PATHS = {
    "PSB": ("by way of an single on-board PCIe switch",) * 2,
    "PIX": ("by way of a single PCIe switch",) * 2,
    "PXB": ("by way of potentially multiple PCIe switches", "by way of multiple PCIe switches"),
    "PHB": ("by the same PCIe host bridge", "by way of a PCIe host bridge"),
    "NODE": ("by way of an on-CPU interconnect between PCIe host bridges",) * 2,
    "SYS": ("by way of an SMP interconnect link between NUMA nodes",) * 2,
}
"""The relations between GPUs at a level, in the order of -n's numbers, in plural and singular."""
LEVELS = tuple(_PATHS)
"""The levels of -n, by number."""


def matrix(topology: Topology, *, pci_only: bool = False) -> str:
    """Return the output of -m, or with `pci_only` of -mp."""
    links = (pci_matrix if pci_only else link_matrix)(topology).cells
    names, nics = gpu_names(topology), topology.nics
    cards = [f"NIC{number}" for number in range(len(nics))]
    near = (topology.cpu_affinity, topology.numa_affinity)
    cpus, numa = ([_known(each) for each in texts(ranges)] for ranges in near)
    rows = [texts((*card.gpu_links, *card.nic_links)) for card in nics]
    columns = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
    lines = ["\t" + _UNDERLINED + "\t".join((*names, *cards, *columns)) + _PLAIN]
    for number, name in enumerate(names):
        cells = map(_cell, (*links[number], *(row[number] for row in rows)))
        node = _node(topology, number)
        lines.append("\t".join((name, *cells, cpus[number], numa[number], "", node)))
    for name, row in zip(cards, rows, strict=True):
        lines.append("\t".join((name, *map(_cell, row), "", "", "", "")))
    lines += _legend(_LINKS if pci_only else _LINKS | _NVLINKS)
    if cards:
        named = zip(cards, nics, strict=True)
        lines += ["", "NIC Legend:", "", *(f"  {name}: {card.name}" for name, card in named), ""]
    return _joined(lines)


def capability(topology: Topology, letter: str) -> str:
    """Return the output of -p2p for one of r, w, n, a and p."""
    names = gpu_names(topology)
    lines = [" \t" + _UNDERLINED + "".join(f"{name}\t" for name in names) + _PLAIN]
    for name, cells in zip(names, p2p_matrix(topology, letter).cells, strict=True):
        lines.append(f" {name}\t" + "".join(f"{cell}\t" for cell in cells))
    return _joined([*lines, *_legend(_STATUSES)])


def near_cpu(topology: Topology, cpu: int) -> str:
    """Return the output of -c: the GPUs close to a CPU."""
    ranges = zip(topology.indices, topology.cpu_affinity, strict=False)
    near = [str(index) for index, each in ranges if _holds(each, cpu)]
    if not near:
        return f"No GPUs were found to have an affinity with CPU {cpu}.\n\n"
    return f"The GPUs that have an affinity with CPU {cpu} are:\n{', '.join(near)}\n\n"


def nearest(topology: Topology, index: int, level: int) -> str:
    """Return the output of -n: the GPUs that one reaches at a level, a number in LEVELS."""
    word, row = LEVELS[level], _row(topology, index)
    found = [str(other) for other, link in zip(topology.indices, row, strict=True) if link == word]
    way = _PATHS[word][0]
    if not found:
        return f"Device {index} is not connected to other devices {way}.\n\n"
    return f"Device {index} is connected {way} to device(s): {', '.join(found)}\n\n"


def path(topology: Topology, one: int, other: int) -> str:
    """Return the output of -p: how one GPU reaches another."""
    link = _row(topology, one)[topology.indices.index(other)]
    way = _PATHS[link][1] if link in _PATHS else "in an unknown way"
    return f"Device {one} is connected to device {other} {way}.\n\n"


def numa_nodes(topology: Topology, index: int, of: str) -> str:
    """Return the output of -C (`CPU`) and -M (`memory`): the NUMA nodes close to a GPU."""
    nodes = texts(topology.numa_affinity)[topology.indices.index(index)]
    return f"NUMA IDs of closest {of}: {_known(nodes)}\n"


def own_numa_node(topology: Topology, index: int) -> str:
    """Return the output of -gnid: the NUMA node of a GPU's memory."""
    return f"{_node(topology, topology.indices.index(index))}\n"


def _row(topology: Topology, index: int) -> Sequence[str]:
    return pci_matrix(topology).cells[topology.indices.index(index)]


def _node(topology: Topology, number: int) -> str:
    nodes = topology.gpu_numa_ids or ()
    node = nodes[number] if number < len(nodes) else None
    return _UNKNOWN if node is None else str(node)


def _cell(link: str) -> str:
    return " X " if link == "X" else _known(link)


def _known(text: str) -> str:
    return _UNKNOWN if text == ABSENT else text


def _legend(meanings: dict[str, str]) -> Iterator[str]:
    yield from ("", "Legend:", "")
    yield from (f"  {name:<4} = {meaning}" for name, meaning in meanings.items())


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _holds(ranges: str | None, cpu: int) -> bool:
    """Whether ranges such as `0-15,32` include this CPU."""
    for part in (ranges or "").split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and int(first) <= cpu <= int(last if last.isdecimal() else first):
            return True
    return False
