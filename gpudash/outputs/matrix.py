"""How the GPUs are connected, as `nvidia-smi topo -m` lays it out, and who may reach whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpudash.cells import pad, width
from gpudash.outputs.ansi import Paint, Style, painter
from gpudash.snapshot import Snapshot, Topology
from gpudash.text import clean
from gpudash.units import ABSENT

_GAP = "  "
_NVLINK = "NV#"

_LINKS = {
    "X": "the GPU itself",
    _NVLINK: "that many NVLinks, direct or through NVSwitch",
    "PSB": "on the same board",
    "PIX": "one PCIe switch at most",
    "PXB": "several PCIe switches, not through the CPU",
    "PHB": "through the CPU's PCIe host bridge",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "from one NUMA node to another, across the CPU sockets' link",
    ABSENT: "not told by the driver",
}
_P2P = {
    "X": "the GPU itself",
    "OK": "works",
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "DR": "disabled by a setting of the driver",
    "NS": "not supported",
    "U": "unknown",
    ABSENT: "not told by the driver",
}
_DMA = {
    "Y": "reading and writing work, or the GPU itself",
    "N": "one of them does not",
    ABSENT: "not told by the driver",
}
_STYLES: dict[str, Style] = {
    "X": "dim",
    _NVLINK: "green",
    "PSB": "green",
    "PIX": "green",
    "PXB": "green",
    "SYS": "yellow",
    "OK": "green",
    "Y": "green",
    "N": "yellow",
    "U": "dim",
    ABSENT: "dim",
    **dict.fromkeys(("CNS", "GNS", "TNS", "DR", "NS"), "yellow"),
}

Cells = Sequence[Sequence[str]]


def render(snapshot: Snapshot, *, p2p: bool = False, color: bool = False) -> str:
    """Return the link matrix with its legend; with `p2p` the peer access of each pair too."""
    topology = snapshot.topology
    if topology is None or not topology.indices:
        return "No topology: the driver does not tell how the GPUs are connected\n"
    paint = painter(color)
    sections = [_links(topology, paint)]
    if p2p:
        sections += _peer_access(topology, paint)
    return "\n".join("".join(f"{line.rstrip(' ')}\n" for line in lines) for lines in sections)


def _links(topology: Topology, paint: Paint) -> list[str]:
    cells = _texts(topology.links)
    names = [f"GPU{index}" for index in topology.indices]
    beside = [_column("CPU Affinity", topology.cpu_affinity)]
    beside += [_column("NUMA Affinity", topology.numa_affinity)]
    grid = _grid("", names, names, cells, paint)
    lines = [_GAP.join(parts) for parts in zip(grid, *beside, strict=True)]
    lines[0] = grid[0] + _GAP + paint(_GAP.join(column[0] for column in beside), "dim")
    return [*lines, "", *_legend(cells, _LINKS, paint)]


def _peer_access(topology: Topology, paint: Paint) -> list[list[str]]:
    names = [f"GPU{index}" for index in topology.indices]
    matrices = {
        "P2P read": _texts(topology.p2p_read),
        "P2P write": _texts(topology.p2p_write),
        "P2P atomics": _texts(topology.p2p_atomics),
    }
    sections = [
        [paint(title, "bold"), *_grid("", names, names, cells, paint)]
        for title, cells in matrices.items()
    ]
    occurring = [row for cells in matrices.values() for row in cells]
    sections[-1] += ["", *_legend(occurring, _P2P, paint)]
    return [*sections, _dma(topology, paint)]


def _dma(topology: Topology, paint: Paint) -> list[str]:
    """Return the matrix that CUDA frameworks print when they start."""
    span = range(len(topology.indices))
    words = {True: "Y", False: "N", None: ABSENT}
    cells = [[words[topology.peer_access(row, column)] for column in span] for row in span]
    numbers = [str(index) for index in topology.indices]
    grid = _grid("DMA:", numbers, [f"{number}:" for number in numbers], cells, paint)
    return [paint("P2P per driver", "bold"), *grid, "", *_legend(cells, _DMA, paint)]


def _grid(
    corner: str, headers: Sequence[str], names: Sequence[str], cells: Cells, paint: Paint
) -> list[str]:
    """Return a heading and one line for each row, every column as wide as the widest cell."""
    first = max(map(width, (corner, *names)))
    cell = max(map(width, (*headers, *(text for row in cells for text in row))))
    gap = " " if cell <= 2 else _GAP
    heading = gap.join([pad(corner, first), *(pad(header, cell) for header in headers)])
    lines = [paint(heading, "dim")]
    for name, row in zip(names, cells, strict=True):
        painted = [paint(pad(text, cell), _STYLES.get(_kind(text), "plain")) for text in row]
        lines.append(gap.join([paint(pad(name, first), "dim"), *painted]))
    return lines


def _legend(cells: Cells, meanings: Mapping[str, str], paint: Paint) -> list[str]:
    """Return what the kinds that occur mean, in the order of `meanings`."""
    kinds = {_kind(text) for row in cells for text in row}
    known = [kind for kind in meanings if kind in kinds]
    cell = max(map(width, known), default=0)
    return [f"{pad(kind, cell)}{_GAP}{paint(meanings[kind], 'dim')}" for kind in known]


def _column(header: str, values: Sequence[str | None]) -> list[str]:
    texts = [header, *(ABSENT if value is None else clean(value) for value in values)]
    return [pad(text, max(map(width, texts))) for text in texts]


def _texts(matrix: Sequence[Sequence[str | None]]) -> list[list[str]]:
    return [[ABSENT if text is None else clean(text) for text in row] for row in matrix]


def _kind(text: str) -> str:
    return _NVLINK if text.startswith("NV") and text[2:].isdigit() else text
