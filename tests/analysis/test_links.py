from gpudash.analysis.links import (
    Matrix,
    access_matrix,
    link_matrix,
    p2p_matrices,
    pci_matrix,
    texts,
)
from gpudash.model.units import ABSENT
from tests.factories import make_topology


def names(matrix: Matrix) -> list[str]:
    return [name for name, _ in matrix.legend()]


def test_legend_names_what_occurs_from_near_to_far() -> None:
    topology = make_topology(2, links=(("SYS", "NV18"), ("NV4", "X")))
    assert names(link_matrix(topology)) == ["X", "NV#", "SYS"]


def test_link_reaches_as_far_as_its_kind() -> None:
    matrix = link_matrix(make_topology())
    reaches = [matrix.kind(cell).reach for cell in ("X", "NV18", "PXB", "NODE", "SYS", ABSENT)]
    assert reaches == ["self", "nvlink", "switch", "bridge", "socket", "unknown"]


def test_each_kind_of_a_matrix_has_a_mark_of_its_own() -> None:
    for matrix in (link_matrix(make_topology()), p2p_matrices(make_topology())[0]):
        marks = [kind.mark for kind in matrix.kinds.values()]
        assert len(set(marks)) == len(marks)
        assert all(len(mark) == 1 and mark.isascii() for mark in marks)


def test_access_needs_reading_and_writing() -> None:
    read = (("X", "OK", None), ("OK", "X", "OK"), ("CNS", "OK", "X"))
    write = (("X", "GNS", "OK"), ("OK", "X", "OK"), ("OK", "OK", "X"))
    matrix = access_matrix(make_topology(3, p2p_read=read, p2p_write=write))
    assert matrix.cells == (("Y", "N", ABSENT), ("Y", "Y", "Y"), ("N", "Y", "Y"))


def test_link_of_a_newer_kind_is_shown_and_said_to_be_unknown() -> None:
    matrix = link_matrix(make_topology(2, links=(("X", "C2C"), ("C2C", "X"))))
    assert matrix.cells[0][1] == "C2C"
    assert matrix.kind("C2C").reach == "unknown"
    assert names(matrix) == ["X", "C2C"]


def test_what_is_not_reported_of_a_pair_or_a_gpu_is_absent() -> None:
    topology = make_topology(2, links=(("X", None), (None, "X")), pci_links=None)
    assert link_matrix(topology).cells == (("X", ABSENT), (ABSENT, "X"))
    assert pci_matrix(topology).cells == ((ABSENT, ABSENT), (ABSENT, ABSENT))
    assert texts(["0-15", None]) == ["0-15", ABSENT]


def test_escape_sequence_of_a_recording_is_harmless() -> None:
    links = (("X", "\x1b[31m"), ("\x1b[31m", "X"))
    assert link_matrix(make_topology(2, links=links)).cells[0][1] == "\\x1b[31m"
