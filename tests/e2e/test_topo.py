"""`gpudash topo` as a process on the stand-in's topologies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH, gpudash
from tests.e2e.terminal import Terminal
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.e2e


def rows(text: str) -> list[list[str]]:
    """The cells of the first matrix."""
    return [line.split() for line in text.split("\n\n")[0].splitlines()]


def test_islands_are_linked_inside_and_sys_across(fakenvml: Path) -> None:
    heading, *body = rows(gpudash("topo", library=fakenvml).text)
    assert heading[:8] == [f"GPU{index}" for index in range(8)]
    assert body[0][1:9] == ["X", "NV4", "NV4", "NV4", "SYS", "SYS", "SYS", "SYS"]
    assert body[5][1:9] == ["SYS", "SYS", "SYS", "SYS", "NV4", "X", "NV4", "NV4"]
    assert [row[-2:] for row in (body[0], body[7])] == [["0-31", "0"], ["32-63", "1"]]


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("nvswitch", ["X", "NV12", "NV12", "NV12"]),
        ("pcie", ["X", "PIX", "PXB", "PXB"]),
    ],
)
def test_link_kinds(fakenvml: Path, topology: str, expected: list[str]) -> None:
    run = gpudash("topo", "--json", library=fakenvml, DEVICES=4, TOPO=topology)
    assert run.status == 0
    assert run.document["links"][0] == expected


def test_legend_explains_what_is_there(fakenvml: Path) -> None:
    legend = gpudash("topo", library=fakenvml, DEVICES=2, TOPO="pcie").text.split("\n\n")[1]
    assert "PIX" in legend
    assert "NV#" not in legend


def test_peer_access_is_read_write_atomics_and_yes_no(fakenvml: Path) -> None:
    run = gpudash("topo", "--p2p", library=fakenvml, DEVICES=2, MODEL="geforce")
    for title in ("read", "write", "atomics"):
        assert title in run.text
    assert "GNS" in run.text
    assert "0:   Y N\n1:   N Y\n" in run.text


def test_lost_gpu_does_not_take_the_matrix_along(fakenvml: Path) -> None:
    run = gpudash("topo", "--json", library=fakenvml, DEVICES=4, LOST=3)
    assert run.document["links"][0][:3] == ["X", "NV4", "NV4"]


def test_selection_is_a_part_of_the_matrix(fakenvml: Path) -> None:
    run = gpudash("topo", "--json", "--gpu", "0,5", library=fakenvml)
    assert run.document["indices"] == [0, 5]
    assert run.document["links"] == [["X", "SYS"], ["SYS", "X"]]


def test_findings_are_wrapped_at_words_on_a_terminal_alone() -> None:
    argv = [*GPUDASH, "--demo=pcie-1080ti", "topo"]
    piped = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    finding = piped.stdout.splitlines()[-1]
    assert "no P2P between GPU 0-3 and 4-7; traffic" in finding
    with Terminal(argv, env=os.environ, columns=80, rows=24) as terminal:
        assert terminal.wait_exit() == 0
        first, second = terminal.text.rstrip().splitlines()[-2:]
    assert f"{first} {second.strip()}" == finding


def test_nvlink_and_pcie_are_asked_on_request_alone(fakenvml: Path) -> None:
    def asked(*words: str) -> int:
        run = gpudash("topo", *words, library=fakenvml, DEVICES=2, TRACE=1)
        return run.stderr.count("nvmlDeviceGetP2PStatus")

    assert (asked(), asked("-m"), asked("-p2p", "n")) == (6, 6, 10)


def test_of_several_letters_the_first_counts(fakenvml: Path) -> None:
    settings = {"DEVICES": 2, "MODEL": "geforce"}
    spelled = [("-p2p", "n"), ("-p2p", "nrw"), ("--p2pstatus", "nr")]
    found = {gpudash("topo", *words, library=fakenvml, **settings).text for words in spelled}
    assert len(found) == 1
    assert "NS" in found.pop()
    wrong = gpudash("topo", "-p2p", "x", library=fakenvml)
    assert (wrong.status, wrong.stderr.count("\n")) == (2, 1)
