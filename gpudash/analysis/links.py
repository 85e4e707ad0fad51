"""Connections of GPUs: matrices of links and P2P access, and a matrix laid out in lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from gpudash.model.snapshot import Topology
from gpudash.model.text import StyledLine, clean, pad, width
from gpudash.model.units import ABSENT

NVLINK = "NV#"
"""The kind of the cells `NV4`, `NV18`, ...: the number of NVLinks."""

Reach = Literal["self", "nvlink", "switch", "bridge", "socket", "yes", "no", "unknown"]
"""How far data travel between two GPUs, or whether they may travel at all."""

Cells = Sequence[Sequence[str]]


class CellKind(Struct, frozen=True):
    """The meaning of a cell; `mark` is the kind in one character."""

    mark: str
    reach: Reach
    meaning: str


_SELF = CellKind("X", "self", "the GPU itself")
_NOT_REPORTED = CellKind(ABSENT, "unknown", "not reported by the driver")

_LINKS = {
    "X": _SELF,
    NVLINK: CellKind("#", "nvlink", "that many NVLinks, direct or through NVSwitch"),
    "PSB": CellKind("b", "switch", "on the same board"),
    "PIX": CellKind("p", "switch", "one PCIe switch at most"),
    "PXB": CellKind("x", "switch", "several PCIe switches, not through the CPU"),
    "PHB": CellKind("h", "bridge", "through the CPU's PCIe host bridge"),
    "NODE": CellKind("n", "bridge", "several host bridges of one NUMA node"),
    "SYS": CellKind("s", "socket", "from one NUMA node to another, across the CPU sockets' link"),
    ABSENT: _NOT_REPORTED,
}
_P2P = {
    "X": _SELF,
    "OK": CellKind("+", "yes", "works"),
    "CNS": CellKind("c", "no", "the chipset does not support it"),
    "GNS": CellKind("g", "no", "the GPU does not support it"),
    "TNS": CellKind("t", "no", "the topology does not support it"),
    "DR": CellKind("d", "no", "disabled by a setting of the driver"),
    "NS": CellKind("n", "no", "not supported"),
    "U": CellKind("u", "unknown", "unknown"),
    ABSENT: _NOT_REPORTED,
}
_ACCESS = {
    "Y": CellKind("Y", "yes", "reading and writing work, or the GPU itself"),
    "N": CellKind("N", "no", "one of them does not"),
    ABSENT: _NOT_REPORTED,
}
_UNKNOWN_KIND = CellKind("?", "unknown", "unknown to this version")


class Matrix(Struct, frozen=True):
    """One property of every pair of GPUs, in the order of the topology."""

    title: str
    cells: tuple[tuple[str, ...], ...]
    kinds: Mapping[str, CellKind]

    def kind(self, cell: str) -> CellKind:
        """Return the kind of a cell."""
        return self.kinds.get(_name(cell), _UNKNOWN_KIND)

    def legend(self) -> list[tuple[str, CellKind]]:
        """Return the kinds that occur, from the best to the worst."""
        names = {_name(cell) for row in self.cells for cell in row}
        known = [(name, kind) for name, kind in self.kinds.items() if name in names]
        return known + [(name, _UNKNOWN_KIND) for name in sorted(names - self.kinds.keys())]


def gpu_names(topology: Topology) -> list[str]:
    """Return what nvidia-smi calls the GPUs in a matrix: `GPU0`."""
    return [f"GPU{index}" for index in topology.indices]


def link_matrix(topology: Topology) -> Matrix:
    """Return the link between each pair."""
    return Matrix("Links", _square(topology, topology.links), _LINKS)


def pci_matrix(topology: Topology) -> Matrix:
    """Return the link between each pair over PCIe alone."""
    return Matrix("PCIe", _square(topology, topology.pci_links), _LINKS)


def p2p_matrices(topology: Topology) -> tuple[Matrix, Matrix, Matrix]:
    """Return whether each pair may read, write and do atomics on the other's memory."""
    read, write, atomics = (p2p_matrix(topology, letter) for letter in "rwa")
    return read, write, atomics


_P2P_MATRICES = {
    "r": ("P2P read", "p2p_read"),
    "w": ("P2P write", "p2p_write"),
    "a": ("P2P atomics", "p2p_atomics"),
    "n": ("P2P over NVLink", "p2p_nvlink"),
    "p": ("P2P over PCIe", "p2p_pcie"),
}


def p2p_matrix(topology: Topology, letter: str) -> Matrix:
    """Return the matrix that nvidia-smi calls `r`, `w`, `a`, `n` or `p`."""
    title, field = _P2P_MATRICES[letter]
    return Matrix(title, _square(topology, getattr(topology, field)), _P2P)


def access_matrix(topology: Topology) -> Matrix:
    """Return the Y and N that CUDA frameworks print when they start."""
    read = _square(topology, topology.p2p_read)
    write = _square(topology, topology.p2p_write)
    size = range(len(topology.indices))
    cells = tuple(tuple(_access(read, write, row, column) for column in size) for row in size)
    return Matrix("P2P per driver", cells, _ACCESS)


def texts(cells: Iterable[str | None]) -> list[str]:
    """Return a topology's texts for each GPU, cleaned, `-` for unknown ones."""
    return [ABSENT if cell is None else clean(cell) for cell in cells]


def _access(read: Cells, write: Cells, row: int, column: int) -> str:
    if row == column:
        return "Y"
    statuses = read[row][column], write[row][column]
    return ABSENT if ABSENT in statuses else "Y" if statuses == ("OK", "OK") else "N"


def _square(
    topology: Topology, matrix: Sequence[Sequence[str | None]] | None
) -> tuple[tuple[str, ...], ...]:
    none = [None] * len(topology.indices)
    return tuple(tuple(texts(row)) for row in ([none for _ in none] if matrix is None else matrix))


def _name(cell: str) -> str:
    return NVLINK if cell.startswith("NV") and cell[2:].isdigit() else cell


class MatrixTable:
    """A matrix laid out in lines: labels above its columns, names before its rows.

    The roles of its texts are `heading`, `name`, `dim` and `plain`; cells have their reach.
    """

    def __init__(
        self,
        matrix: Matrix,
        labels: Sequence[str],
        names: Sequence[str],
        *,
        corner: str,
        gaps: tuple[int, int],
        in_words: bool = True,
    ) -> None:
        """Lay out with `gaps` cells after the names and between two columns.

        `in_words` writes cells in full rather than as the mark of their kind.
        """
        self.in_words = in_words
        self._matrix, self._corner = matrix, corner
        self._labels, self._names = labels, names
        self._digits = max(map(width, labels))
        words = max(width(text) for row in matrix.cells for text in row)
        self._cell = max(self._digits, words) if in_words else 1
        self._first = max(map(width, (corner, *names))) + gaps[0]
        self._gap = gaps[1]

    @property
    def width(self) -> int:
        """Width of the whole matrix."""
        return self._first + len(self._labels) * (self._cell + self._gap) - self._gap

    def columns_in(self, room: int) -> int:
        """Return how many columns fit in `room` cells, at least one."""
        fitting = (room - self._first + self._gap) // (self._cell + self._gap)
        return max(1, min(len(self._labels), fitting))

    def heading(self, columns: slice = slice(None)) -> list[StyledLine]:
        """Return the corner and the labels, with digits stacked if cells are narrower."""
        labels = self._labels[columns]
        if self._cell >= self._digits:
            return [self._headed(self._corner, labels)]
        stacked = [label.rjust(self._digits) for label in labels]
        corners = [*[""] * (self._digits - 1), self._corner]
        return [
            self._headed(corner, [label[line] for label in stacked])
            for line, corner in enumerate(corners)
        ]

    def row(self, number: int, columns: slice = slice(None)) -> StyledLine:
        """Return a name and its cells."""
        line: StyledLine = [(pad(self._names[number], self._first), "name")]
        for cell in self._matrix.cells[number][columns]:
            kind = self._matrix.kind(cell)
            text = pad(cell if self.in_words else kind.mark, self._cell)
            line += [(text, kind.reach), (" " * self._gap, "plain")]
        return line[:-1]

    def key(self) -> StyledLine:
        """Return the meaning of the marks in one line; empty for a matrix in words."""
        if self.in_words:
            return []
        marks = [
            (f"{kind.mark} {name}  ", kind.reach)
            for name, kind in self._matrix.legend()
            if kind.mark != name
        ]
        return [(" " * self._first, "plain"), *marks]

    def _headed(self, corner: str, labels: Sequence[str]) -> StyledLine:
        texts = (" " * self._gap).join(pad(label, self._cell) for label in labels)
        return [(pad(corner, self._first) + texts, "heading")]


def legend_lines(matrix: Matrix, *, with_marks: bool = False) -> list[StyledLine]:
    """Return the kinds that occur with their meanings, after their marks if those are shown."""
    kinds = matrix.legend()
    cells = max((width(name) for name, _ in kinds), default=0) + 2
    return [
        [
            ((pad(kind.mark, 3) if with_marks else "") + pad(name, cells), kind.reach),
            (kind.meaning, "dim"),
        ]
        for name, kind in kinds
    ]
