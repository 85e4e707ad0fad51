import pytest

from gpudash.analysis.columns.traffic import (
    TRAFFIC_COLUMNS,
    GpuAffinity,
    affinity_sentence,
    gpu_affinities,
)
from gpudash.model.units import ABSENT
from tests.factories import make_device, make_snapshot, make_topology

COLUMNS = {column.key: column for column in TRAFFIC_COLUMNS}


def row(**overrides: object) -> GpuAffinity:
    return GpuAffinity(0, make_device(**overrides), "0", "0-31")


def share(key: str, row: GpuAffinity) -> float | None:
    of = COLUMNS[key].share
    return of(row)


def test_bar_is_the_share_of_what_the_pcie_link_can_carry() -> None:
    half = row(pcie_tx_bytes_per_second=31_504_000_000)
    assert share("pcie_tx", half) == 0.5
    assert share("pcie_rx", half) is None


def test_link_of_unknown_speed_has_no_bar_but_a_rate() -> None:
    unknown = row(pcie_tx_bytes_per_second=2 << 30, max_pcie_link_generation=None)
    assert share("pcie_tx", unknown) is None
    assert COLUMNS["pcie_tx"].text(unknown) == "2.0G"


def test_rate_that_is_not_measured_is_absent_and_none_is_zero() -> None:
    still = row(nvlink_tx_bytes_per_second=0)
    assert COLUMNS["nvlink_tx"].text(still) == "0"
    assert COLUMNS["nvlink_rx"].text(still) == ABSENT


@pytest.mark.parametrize(
    ("generation", "lanes", "text"),
    [(4, 16, "gen4 x16"), (None, 16, "gen? x16"), (4, None, "gen4 x?"), (None, None, ABSENT)],
)
def test_a_link_is_written_as_in_the_list_of_gpus(
    generation: int | None, lanes: int | None, text: str
) -> None:
    told = row(pcie_link_generation=generation, pcie_link_width=lanes)
    assert COLUMNS["pcie"].text(told) == text


def test_gpu_that_is_gone_keeps_its_place() -> None:
    snapshot = make_snapshot(2, topology=make_topology(2, indices=(0, 5)))
    rows = gpu_affinities(snapshot)
    assert [row.gpu for row in rows] == [0, 5]
    assert rows[1].device is None
    assert COLUMNS["pcie"].text(rows[1]) == ABSENT


def test_affinities_are_reported_by_node() -> None:
    assert affinity_sentence(gpu_affinities(make_snapshot(4))) == (
        "NUMA 0, CPUs 0-31: GPU 0-1;  NUMA 1, CPUs 32-63: GPU 2-3"
    )


def test_affinities_that_are_not_reported_are_not_mentioned() -> None:
    topology = make_topology(2, cpu_affinity=(None, None), numa_affinity=(None, None))
    assert affinity_sentence(gpu_affinities(make_snapshot(2, topology=topology))) == ""


def test_bar_of_nvlink_is_the_share_of_what_its_links_carry() -> None:
    half = row(nvlink_tx_bytes_per_second=225_000_000_000, nvlink_version="4.0", nvlink_count=18)
    assert share("nvlink_tx", half) == 0.5
    assert share("nvlink_tx", row(nvlink_tx_bytes_per_second=1, nvlink_version=None)) is None


def test_rate_of_a_link_that_is_there_is_unread_and_of_none_absent() -> None:
    assert COLUMNS["pcie_tx"].text(row(pcie_tx_bytes_per_second=None)) == "unread"
    assert COLUMNS["nvlink_tx"].text(row(nvlink_count=4)) == "unread"
    assert COLUMNS["nvlink_tx"].text(row(nvlink_count=None)) == ABSENT
