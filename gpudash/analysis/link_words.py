"""The words for what connects two GPUs: which matrices there are, what each cell means, how good.

Matrices of any shape come in from recordings and other hosts; they leave as squares of clean text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from gpudash.model.snapshot import Topology
from gpudash.model.text import clean
from gpudash.model.units import ABSENT

NVLINK = "NV#"
"""The kind of the cells `NV4`, `NV18`, ...: that many NVLinks."""

Reach = Literal["self", "nvlink", "switch", "bridge", "socket", "yes", "no", "unknown"]
"""What a cell comes down to: how far data travels, or whether it may travel at all."""

Cells = Sequence[Sequence[str]]


class Kind(Struct, frozen=True):
    """What the cells of one kind say: `mark` is the kind in one character."""

    mark: str
    reach: Reach
    meaning: str


_SELF = Kind("X", "self", "the GPU itself")
_UNTOLD = Kind(ABSENT, "unknown", "not told by the driver")

_LINKS = {
    "X": _SELF,
    NVLINK: Kind("#", "nvlink", "that many NVLinks, direct or through NVSwitch"),
    "PSB": Kind("b", "switch", "on the same board"),
    "PIX": Kind("p", "switch", "one PCIe switch at most"),
    "PXB": Kind("x", "switch", "several PCIe switches, not through the CPU"),
    "PHB": Kind("h", "bridge", "through the CPU's PCIe host bridge"),
    "NODE": Kind("n", "bridge", "several host bridges of one NUMA node"),
    "SYS": Kind("s", "socket", "from one NUMA node to another, across the CPU sockets' link"),
    ABSENT: _UNTOLD,
}
_P2P = {
    "X": _SELF,
    "OK": Kind("+", "yes", "works"),
    "CNS": Kind("c", "no", "the chipset does not support it"),
    "GNS": Kind("g", "no", "the GPU does not support it"),
    "TNS": Kind("t", "no", "the topology does not support it"),
    "DR": Kind("d", "no", "disabled by a setting of the driver"),
    "NS": Kind("n", "no", "not supported"),
    "U": Kind("u", "unknown", "unknown"),
    ABSENT: _UNTOLD,
}
_ACCESS = {
    "Y": Kind("Y", "yes", "reading and writing work, or the GPU itself"),
    "N": Kind("N", "no", "one of them does not"),
    ABSENT: _UNTOLD,
}
_STRANGE = Kind("?", "unknown", "a kind that this version does not know")


class Matrix(Struct, frozen=True):
    """One property of every pair of GPUs, in the order of the topology."""

    title: str
    cells: tuple[tuple[str, ...], ...]
    kinds: Mapping[str, Kind]

    def kind(self, cell: str) -> Kind:
        """Return what a cell says."""
        return self.kinds.get(_name(cell), _STRANGE)

    def legend(self) -> list[tuple[str, Kind]]:
        """Return the kinds that occur, from the best to the worst."""
        names = {_name(cell) for row in self.cells for cell in row}
        known = [(name, kind) for name, kind in self.kinds.items() if name in names]
        return known + [(name, _STRANGE) for name in sorted(names - self.kinds.keys())]


def link_matrix(topology: Topology) -> Matrix:
    """Return what lies between each pair."""
    return Matrix("Links", _square(topology, topology.links), _LINKS)


def p2p_matrices(topology: Topology) -> tuple[Matrix, Matrix, Matrix]:
    """Return whether each pair may read, write and do atomics on the other's memory."""
    return (
        Matrix("P2P read", _square(topology, topology.p2p_read), _P2P),
        Matrix("P2P write", _square(topology, topology.p2p_write), _P2P),
        Matrix("P2P atomics", _square(topology, topology.p2p_atomics), _P2P),
    )


def access_matrix(topology: Topology) -> Matrix:
    """Return the Y and N that CUDA frameworks print when they start."""
    read = _square(topology, topology.p2p_read)
    write = _square(topology, topology.p2p_write)
    size = range(len(topology.indices))
    cells = tuple(tuple(_access(read, write, row, column) for column in size) for row in size)
    return Matrix("P2P per driver", cells, _ACCESS)


def affinities(told: Sequence[str | None], count: int) -> list[str]:
    """Return a list of ranges for each of `count` GPUs, absent where none was told."""
    return [_text(told, place) for place in range(count)]


def _access(read: Cells, write: Cells, row: int, column: int) -> str:
    if row == column:
        return "Y"
    statuses = read[row][column], write[row][column]
    return ABSENT if ABSENT in statuses else "Y" if statuses == ("OK", "OK") else "N"


def _square(
    topology: Topology, matrix: Sequence[Sequence[str | None]]
) -> tuple[tuple[str, ...], ...]:
    size = range(len(topology.indices))
    rows = [matrix[place] if place < len(matrix) else () for place in size]
    return tuple(tuple(_text(row, place) for place in size) for row in rows)


def _text(values: Sequence[str | None], place: int) -> str:
    value = values[place] if place < len(values) else None
    return ABSENT if value is None else clean(value)


def _name(cell: str) -> str:
    return NVLINK if cell.startswith("NV") and cell[2:].isdigit() else cell
