import re
from typing import Any

from gpudash.model.snapshot import Snapshot
from gpudash.output.matrix import render
from tests.factories import (
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
    make_topology,
)


def matrix(count: int = 4, **overrides: Any) -> Snapshot:
    return make_snapshot(count, topology=make_topology(count, **overrides))


def sections(snapshot: Snapshot, *, p2p: bool = False) -> list[list[str]]:
    return [block.split("\n") for block in render(snapshot, p2p=p2p).strip("\n").split("\n\n")]


def test_matrix_is_laid_out_as_nvidia_smi_does() -> None:
    assert sections(matrix())[0] == [
        "      GPU0  GPU1  GPU2  GPU3  CPU Affinity  NUMA Affinity",
        "GPU0  X     PIX   SYS   SYS   0-31          0",
        "GPU1  PIX   X     SYS   SYS   0-31          0",
        "GPU2  SYS   SYS   X     PIX   32-63         1",
        "GPU3  SYS   SYS   PIX   X     32-63         1",
    ]


def test_legend_explains_only_what_occurs() -> None:
    legend = sections(matrix(2, links=(("X", "NV18"), ("NV18", None))))[1]
    assert [line.split()[0] for line in legend] == ["X", "NV#", "-"]


def test_sixty_four_gpus_align() -> None:
    grid = sections(matrix(64))[0]
    starts = [match.start() for match in re.finditer(r"\S+", grid[0].partition("  CPU")[0])]
    assert len(grid) == 65
    assert len(starts) == 64
    for line in grid[1:]:
        cells = [match.start() for match in re.finditer(r"\S+", line)]
        assert cells[1:65] == starts


def test_p2p_adds_each_kind_of_access() -> None:
    blocks = sections(matrix(), p2p=True)
    assert [block[0] for block in blocks[2:5]] == ["P2P read", "P2P write", "P2P atomics"]
    assert blocks[2][2] == "GPU0  X     OK    CNS   CNS"
    assert [line.split()[0] for line in blocks[5]] == ["X", "OK", "CNS", "NS"]


def test_p2p_has_the_matrix_that_frameworks_print() -> None:
    blocks = sections(matrix(), p2p=True)
    assert blocks[6] == [
        "P2P per driver",
        "DMA: 0 1 2 3",
        "0:   Y Y N N",
        "1:   Y Y N N",
        "2:   N N Y Y",
        "3:   N N Y Y",
    ]


def test_unknown_access_is_not_called_no() -> None:
    unknown = (("X", None), (None, "X"))
    blocks = sections(matrix(2, p2p_read=unknown), p2p=True)
    assert blocks[6][2:] == ["0:   Y -", "1:   - Y"]


def test_selected_gpus_keep_their_numbers() -> None:
    grid = sections(matrix(2, indices=(3, 11)))[0]
    assert [line.split()[0] for line in grid] == ["GPU3", "GPU3", "GPU11"]


def test_no_topology_is_one_clear_line() -> None:
    text = render(make_snapshot(topology=None), p2p=True)
    assert text == "No topology: the driver does not report how the GPUs are connected\n"


def test_a_gpu_asleep_is_not_asked_which_is_not_the_drivers_silence() -> None:
    asleep = make_snapshot(devices=(make_device(state="asleep"),), topology=None)
    whole = render(asleep).strip("\n")
    assert whole == "No topology: GPU 0 is asleep, so it is not read"
    lines = render(asleep, room=30).splitlines()
    assert all(len(line) <= 30 for line in lines)
    assert " ".join(line.strip() for line in lines) == whole


def test_colour_changes_nothing_but_colour() -> None:
    colored = render(matrix(), p2p=True, color=True)
    assert "\x1b[32m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(matrix(), p2p=True)


def test_a_sentence_wider_than_the_terminal_breaks_between_words() -> None:
    devices = tuple(make_process_device(index=index) for index in range(4))
    snapshot = make_snapshot(4, processes=(make_process(devices=devices),))
    whole = render(snapshot).splitlines()[-1]
    assert "no P2P between" in whole
    first, *others = render(snapshot, room=30).split("\n\n")[-1].splitlines()
    assert all(len(line) <= 30 for line in (first, *others))
    assert all(line.startswith("  ") for line in others)
    assert " ".join((first, *(line.strip() for line in others))) == whole
