from typing import Any

from gpudash.analysis.links import access_matrix
from gpudash.collect.nvml import codes
from gpudash.model.snapshot import Topology
from tests.collect.nvml.tampering import Machine


def topology_of(machine: Machine) -> Topology:
    return machine.read().topology


def test_gpus_behind_switches_show_their_common_nvlinks() -> None:
    topology = topology_of(Machine("dgx-h100"))
    for row, cells in enumerate(topology.links):
        assert cells == tuple("X" if row == column else "NV18" for column in range(8))


def test_pcie_islands_show_the_closest_common_ancestor() -> None:
    topology = topology_of(Machine("pcie-1080ti"))
    assert topology.links[0][0] == "X"
    assert topology.links[0][1] in {"PIX", "PXB"}
    assert topology.links[0][4] == "SYS"
    assert access_matrix(topology).cells[0][1] == "Y"
    assert access_matrix(topology).cells[0][4] == "N"
    assert access_matrix(topology).cells[3][3] == "Y"


def test_a_driver_that_tells_no_links_leaves_them_none() -> None:
    machine = Machine("pcie-1080ti")
    for name in ("nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus"):
        machine.driver.replaced[name] = machine.driver.error(codes.NOT_SUPPORTED)
    topology = topology_of(machine)
    assert topology.links[0][1] is None
    assert access_matrix(topology).cells[0][1] == "-"


def test_affinity_is_a_list_of_ranges(single: Machine) -> None:
    words = [0b1011, 0, 1 << 63, 1]
    single.driver.replaced["nvmlDeviceGetCpuAffinity"] = lambda *_: words
    single.driver.replaced["nvmlDeviceGetMemoryAffinity"] = lambda *_: [0]
    topology = topology_of(single)
    assert topology.cpu_affinity == ("0-1,3,191-192",)
    assert topology.numa_affinity == (None,)


def test_a_number_of_links_that_cannot_be_is_none(dgx: Machine) -> None:
    def change(entry: Any) -> None:
        if entry.fieldId == 147:
            entry.value.sllVal = 0xFFFFFFFF

    dgx.change_fields(change)
    assert topology_of(dgx).links[0][1] == "NV18"


def test_the_topology_is_read_once() -> None:
    machine = Machine("pcie-1080ti")
    machine.read()
    machine.driver.asked.clear()
    machine.read(after=60.0)
    assert "nvmlDeviceGetP2PStatus" not in machine.driver.asked


def test_what_gpus_come_and_go_costs_only_what_was_not_read() -> None:
    machine = Machine("pcie-1080ti")
    whole = topology_of(machine)
    asked = machine.driver.asked.count
    once = asked("nvmlDeviceGetP2PStatus")
    rates = machine.host.library.nvmlDeviceGetUtilizationRates

    def lost(handle: Any) -> object:
        is_third = handle.index == 2
        return machine.driver.error(codes.GPU_IS_LOST)() if is_third else rates(handle)

    machine.driver.replaced["nvmlDeviceGetUtilizationRates"] = lost
    without = topology_of(machine)
    assert without.indices == (0, 1, 3, 4, 5, 6, 7)
    assert [cells[2] for cells in without.links] == [
        cells[3] for row, cells in enumerate(whole.links) if row != 2
    ]
    assert asked("nvmlDeviceGetP2PStatus") == once
    del machine.driver.replaced["nvmlDeviceGetUtilizationRates"]
    machine.read(after=60.0)
    assert topology_of(machine) == whole
    assert asked("nvmlDeviceGetP2PStatus") == 2 * once


def test_a_lost_gpu_is_not_in_the_topology() -> None:
    assert topology_of(Machine("lost")).indices == (0, 1, 3)


def test_links_to_switches_that_the_driver_counts_are_not_asked_one_by_one(dgx: Machine) -> None:
    topology_of(dgx)
    assert "nvmlDeviceGetNvLinkRemotePciInfo" not in dgx.driver.asked
    assert dgx.driver.asked.count("nvmlDeviceGetNvLinkState") <= 8 * 19


P2P = "nvmlDeviceGetP2PStatus"


def test_a_topology_that_nothing_needs_is_not_read() -> None:
    machine = Machine("pcie-1080ti", with_topology=False)
    machine.driver.replaced["nvmlDeviceGetComputeRunningProcesses_v3"] = lambda _: []
    assert machine.read().topology is None
    assert P2P not in machine.driver.asked


def test_a_process_on_several_gpus_needs_the_topology() -> None:
    machine = Machine("pcie-1080ti", with_topology=False)
    assert access_matrix(topology_of(machine)).cells[0][4] == "N"
    assert P2P in machine.driver.asked


def test_a_gpu_whose_links_are_all_down_needs_the_topology() -> None:
    machine = Machine("dgx-h100", with_topology=False)
    machine.driver.replaced["nvmlDeviceGetNvLinkState"] = lambda *_: 0
    assert topology_of(machine).indices == tuple(range(8))
