"""Connections of GPUs in the layout of `nvidia-smi topo -m`, and peer access."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.link_warnings import no_topology, remarks
from gpudash.analysis.links import (
    Matrix,
    MatrixTable,
    access_matrix,
    gpu_names,
    legend_lines,
    link_matrix,
    p2p_matrices,
    texts,
)
from gpudash.model.snapshot import Snapshot, Topology
from gpudash.model.text import pad, width, wrap
from gpudash.output.table import Paint, Style, painter

_GAP = "  "
_INDENT = "  "
_STYLES: dict[str, Style] = {
    "heading": "dim",
    "name": "dim",
    "plain": "plain",
    "self": "dim",
    "nvlink": "green",
    "switch": "green",
    "bridge": "plain",
    "socket": "yellow",
    "yes": "green",
    "no": "yellow",
    "unknown": "dim",
}


def render(
    snapshot: Snapshot,
    *,
    p2p: bool = False,
    color: bool = False,
    room: int | None = None,
) -> str:
    """Return the link matrix, its legend and its consequences for running processes.

    With `p2p`, the peer access of each pair is included. Sentences are wrapped to `room` cells;
    with None, each is one line.
    """
    paint = painter(color)
    topology = snapshot.topology
    if topology is None or not topology.indices:
        sections = [_wrapped(no_topology(snapshot), room)]
    else:
        sections = _links(topology, paint)
        if p2p:
            sections += _peer_access(topology, paint)
    sections.append(
        [
            paint(line, "yellow" if is_warning else "plain")
            for text, is_warning in remarks(snapshot)
            for line in _wrapped(text, room)
        ]
    )
    return _joined(sections)


def _joined(sections: Sequence[Sequence[str]]) -> str:
    """Return the sections with an empty line between them."""
    written = ("".join(f"{line.rstrip(' ')}\n" for line in lines) for lines in sections if lines)
    return "\n".join(written)


def _wrapped(text: str, room: int | None) -> list[str]:
    """Return a sentence in the layout of --once, wrapped."""
    if room is None:
        return [text]
    first, *others = wrap(text, max(1, room - len(_INDENT)), lines=len(text))
    return [first, *(_INDENT + line for line in others)]


def _links(topology: Topology, paint: Paint) -> list[list[str]]:
    matrix = link_matrix(topology)
    names = gpu_names(topology)
    beside = [_column("CPU Affinity", texts(topology.cpu_affinity))]
    beside += [_column("NUMA Affinity", texts(topology.numa_affinity))]
    grid = _grid("", names, names, matrix, paint)
    lines = [_GAP.join(parts) for parts in zip(grid, *beside, strict=True)]
    lines[0] = grid[0] + _GAP + paint(_GAP.join(column[0] for column in beside), "dim")
    return [lines, _legend(matrix, paint)]


def _peer_access(topology: Topology, paint: Paint) -> list[list[str]]:
    names = gpu_names(topology)
    matrices = p2p_matrices(topology)
    sections = [
        [paint(matrix.title, "bold"), *_grid("", names, names, matrix, paint)]
        for matrix in matrices
    ]
    occurring = tuple(row for matrix in matrices for row in matrix.cells)
    sections[-1] += ["", *_legend(Matrix("", occurring, matrices[0].kinds), paint)]
    return [*sections, _dma(topology, paint)]


def _dma(topology: Topology, paint: Paint) -> list[str]:
    """Return the matrix that CUDA frameworks print when they start."""
    matrix = access_matrix(topology)
    numbers = [str(index) for index in topology.indices]
    grid = _grid("DMA:", numbers, [f"{number}:" for number in numbers], matrix, paint)
    return [paint(matrix.title, "bold"), *grid, "", *_legend(matrix, paint)]


def _grid(
    corner: str, labels: Sequence[str], names: Sequence[str], matrix: Matrix, paint: Paint
) -> list[str]:
    widest = max(map(width, (*labels, *(text for row in matrix.cells for text in row))))
    gap = 1 if widest <= 2 else len(_GAP)
    table = MatrixTable(matrix, labels, names, corner=corner, gaps=(gap, gap))
    rows = [table.row(number) for number in range(len(names))]
    return [
        "".join(paint(text, _STYLES[role]) for text, role in line)
        for line in (*table.heading(), *rows)
    ]


def _legend(matrix: Matrix, paint: Paint) -> list[str]:
    """Return the meanings of the kinds that occur."""
    lines = legend_lines(matrix)
    return [name + paint(meaning, "dim") for (name, _), (meaning, _) in lines]


def _column(header: str, values: Sequence[str]) -> list[str]:
    texts = [header, *values]
    return [pad(text, max(map(width, texts))) for text in texts]
