import json
import os
import subprocess
from pathlib import Path

from tests.e2e.forking import GPUDASH
from tests.e2e.run import Line, each_of
from tests.e2e.terminal import Terminal
from tests.waiting import LIMIT_SECONDS


def test_the_matrix_and_its_legend(fakenvml: Path) -> None:
    lines: list[Line] = [
        ("topo", {}),
        ("topo", {"DEVICES": 2, "TOPO": "pcie"}),
        ("topo --p2p", {"DEVICES": 2, "MODEL": "geforce"}),
        ("topo -p2p x", {}),
        *((f"topo {word}", {"DEVICES": 2, "MODEL": "geforce"}) for word in ("-p2p n", "-p2p nrw")),
    ]
    (_, whole, _), (_, pcie, _), (_, peers, _), wrong, one, several = each_of(lines, fakenvml)
    heading, *body = (line.split() for line in whole.split("\n\n")[0].splitlines())
    assert heading[:8] == [f"GPU{index}" for index in range(8)]
    assert body[0][1:9] == ["X", "NV4", "NV4", "NV4", "SYS", "SYS", "SYS", "SYS"]
    assert body[5][1:9] == ["SYS", "SYS", "SYS", "SYS", "NV4", "X", "NV4", "NV4"]
    assert [row[-2:] for row in (body[0], body[7])] == [["0-31", "0"], ["32-63", "1"]]
    legend = pcie.split("\n\n")[1]
    assert ("PIX" in legend, "NV#" in legend) == (True, False)
    assert all(word in peers for word in ("read", "write", "atomics", "GNS"))
    assert "0:   Y N\n1:   N Y\n" in peers
    assert (wrong[0], wrong[2].count("\n")) == (2, 1)
    # Of several letters the first counts.
    assert one == several
    assert "NS" in one[1]


LINKS: list[tuple[str, dict[str, object], list[str]]] = [
    ("", {"TOPO": "nvswitch"}, ["X", "NV12", "NV12", "NV12"]),
    ("", {"TOPO": "pcie"}, ["X", "PIX", "PXB", "PXB"]),
    ("", {"LOST": 3}, ["X", "NV4", "NV4"]),
    ("--gpu 0,5", {"DEVICES": 8}, ["X", "SYS"]),
]


def test_link_kinds_of_the_gpus_that_are_there_and_asked_for(fakenvml: Path) -> None:
    lines: list[Line] = [(f"topo --json {words}", told) for words, told, _ in LINKS]
    found = [json.loads(text) for _, text, _ in each_of(lines, fakenvml, DEVICES=4)]
    rows = [
        document["links"][0][: len(row)] for document, (*_, row) in zip(found, LINKS, strict=True)
    ]
    assert rows == [row for *_, row in LINKS]
    assert found[-1]["indices"] == [0, 5]


def test_nvlink_and_pcie_are_asked_on_request_alone(fakenvml: Path) -> None:
    lines: list[Line] = [(f"topo {words}", {}) for words in ("", "-m", "-p2p n")]
    found = each_of(lines, fakenvml, DEVICES=2, TRACE=1)
    assert [trace.count("nvmlDeviceGetP2PStatus") for *_, trace in found] == [6, 6, 10]


def test_findings_are_wrapped_at_words_on_a_terminal_alone() -> None:
    argv = [*GPUDASH, "--demo=pcie-1080ti", "topo"]
    piped = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    finding = piped.stdout.splitlines()[-1]
    assert "no P2P between GPU 0-3 and 4-7; traffic" in finding
    with Terminal(argv, env=os.environ, columns=80, rows=24) as terminal:
        assert terminal.wait_exit() == 0
        first, second = terminal.text.rstrip().splitlines()[-2:]
    assert f"{first} {second.strip()}" == finding
