"""Against what nvidia-smi prints, of 535 on the stand-in, and of 580 where that has no such GPU."""

from pathlib import Path

from msgspec.structs import replace

from gpudash.model.snapshot import Nic, Topology
from gpudash.model.text import clean
from gpudash.output import smi_topo
from tests.e2e.run import Line, each_of
from tests.factories import make_topology

CAPTURED = Path(__file__).parent / "captured"


def test_the_matrices(fakenvml: Path) -> None:
    captured: dict[str, Line] = {
        "topo-m.txt": ("topo -m", {"DEVICES": 4}),
        "topo-mp.txt": ("topo -mp", {"DEVICES": 4}),
        "topo-p2p.txt": ("topo -p2p r", {"DEVICES": 2, "MODEL": "geforce"}),
    }
    found = each_of([*captured.values()], fakenvml)
    assert found == [(0, (CAPTURED / name).read_text(), "") for name in captured]


ABOUT = {
    "-c 0": "The GPUs that have an affinity with CPU 0 are:\n0, 1, 2, 3\n\n",
    "-c 99": "No GPUs were found to have an affinity with CPU 99.\n\n",
    "-n 1 -i 0": "Device 0 is connected by way of a single PCIe switch to device(s): 1\n\n",
    "-n 0 -i 0": "Device 0 is not connected to other devices by way of an single on-board PCIe "
    "switch.\n\n",
    "-p -i 4,0": "Device 0 is connected to device 4 by way of an SMP interconnect link between "
    "NUMA nodes.\n\n",
    "-M -i 7": "NUMA IDs of closest memory: 1\n",
    "-C -i 7": "NUMA IDs of closest CPU: 1\n",
    "-gnid -i 7": "N/A\n",
}


def test_what_is_asked_about_single_gpus(fakenvml: Path) -> None:
    found = each_of([(f"topo {words}", {}) for words in ABOUT], fakenvml)
    assert found == [(0, text, "") for text in ABOUT.values()]


def test_another_number_of_gpus_is_refused(fakenvml: Path) -> None:
    lines = "topo -n 1", "topo -p -i 0", "topo -C -i 0,1"
    for status, text, errors in each_of([(line, {}) for line in lines], fakenvml, DEVICES=4):
        assert (status, text, errors.count("\n")) == (2, "", 1)


def with_cards() -> Topology:
    cards = [
        Nic(name=clean("mlx5_0"), gpu_links=("PIX", "SYS"), nic_links=("X", "SYS")),
        Nic(name=clean("mlx5_1"), gpu_links=("SYS", None), nic_links=("SYS", "X")),
    ]
    return replace(make_topology(2), nics=tuple(cards), gpu_numa_ids=(1, None))


def test_network_cards_have_rows_columns_and_a_legend() -> None:
    heading, *lines = smi_topo.matrix(with_cards()).splitlines()
    assert heading.startswith("\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\t")
    assert [line.split("\t")[3:5] for line in lines[:2]] == [["PIX", "SYS"], ["SYS", "N/A"]]
    assert lines[0].endswith("\t\t1")
    assert lines[2] == "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t"
    assert lines[-5:] == ["NIC Legend:", "", "  NIC0: mlx5_0", "  NIC1: mlx5_1", ""]


def test_the_cards_stay_with_a_part_of_the_gpus() -> None:
    topology = with_cards().among({with_cards().uuids[0]})
    assert [nic.gpu_links for nic in topology.nics] == [("PIX",), ("SYS",)]
