from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given

from gpudash.analysis.link_warnings import (
    missing_p2p,
    no_topology,
    not_in_topology,
    reduced_links,
    remarks,
)
from gpudash.analysis.selection import select
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot, Topology
from tests.factories import (
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
    make_topology,
)
from tests.strategies import snapshots

Cells = tuple[tuple[str, ...], ...]


def without_p2p(snapshot: Snapshot) -> list[str]:
    return [missing.sentence for missing in missing_p2p(snapshot)]


def on(*gpus: int, **overrides: Any) -> Process:
    devices = tuple(make_process_device(index=gpu, uuid=gpu_uuid(gpu)) for gpu in gpus)
    return make_process(devices=devices, **overrides)


def islands(*groups: Iterable[int]) -> Topology:
    """Peer access inside each group and none across."""
    group_of = {gpu: number for number, group in enumerate(groups) for gpu in group}
    count = len(group_of)
    matrix: Cells = tuple(
        tuple(
            "X" if a == b else "OK" if group_of[a] == group_of[b] else "CNS" for b in range(count)
        )
        for a in range(count)
    )
    return make_topology(count, p2p_read=matrix, p2p_write=matrix)


def host(topology: Topology | None, *processes: Process) -> Snapshot:
    return make_snapshot(8, topology=topology, processes=processes)


def test_process_across_two_islands_is_reported() -> None:
    snapshot = host(
        islands(range(4), range(4, 8)), on(*range(8), pid=20817, name="python", username="bob")
    )
    assert without_p2p(snapshot) == [
        "bob's python (PID 20817) uses GPU 0-7: no P2P between GPU 0-3 and 4-7; "
        "traffic goes through host memory"
    ]


def test_only_the_islands_that_it_uses_are_named() -> None:
    topology = islands(range(2), range(2, 4), range(4, 8))
    (sentence,) = without_p2p(host(topology, on(0, 2, 3)))
    assert "no P2P between GPU 0 and 2-3;" in sentence


def test_process_inside_one_island_is_no_matter() -> None:
    topology = islands(range(4), range(4, 8))
    assert without_p2p(host(topology, on(0, 1, 2, 3), on(5, pid=5))) == []


def test_gpus_none_of_which_reaches_another_are_not_listed_one_by_one() -> None:
    topology = islands(*([gpu] for gpu in range(8)))
    (sentence,) = without_p2p(host(topology, on(*range(8))))
    assert "GPU 0-7: no P2P between any of them;" in sentence


def test_many_islands_are_counted() -> None:
    topology = islands(*(range(first, first + 2) for first in range(0, 16, 2)))
    (sentence,) = without_p2p(make_snapshot(16, topology=topology, processes=(on(*range(16)),)))
    assert "P2P only inside 8 islands such as 0-1;" in sentence


def test_ring_without_islands_is_reported_in_pairs() -> None:
    ring: Cells = tuple(
        tuple("X" if a == b else "OK" if (a - b) % 4 in (1, 3) else "TNS" for b in range(4))
        for a in range(4)
    )
    topology = make_topology(4, p2p_read=ring, p2p_write=ring)
    (square,) = without_p2p(host(topology, on(0, 1, 2)))
    assert "no P2P between 1 of their 3 pairs;" in square


def test_ranks_of_one_job_share_a_sentence() -> None:
    ranks = [on(0, 4, pid=pid, name="python", username="bob") for pid in (11, 12, 13)]
    (sentence,) = without_p2p(host(islands(range(4), range(4, 8)), *ranks))
    assert sentence.startswith("bob's python (PID 11) and 2 more use GPU 0,4: ")


def test_owner_and_name_that_are_not_known_are_left_out() -> None:
    hidden = on(0, 4, pid=9, name=None, username=None)
    (sentence,) = without_p2p(host(islands(range(4), range(4, 8)), hidden))
    assert sentence.startswith("process (PID 9) uses GPU 0,4: ")


def test_access_that_the_driver_does_not_tell_is_not_called_missing() -> None:
    unknown = tuple(tuple("X" if a == b else None for b in range(8)) for a in range(8))
    topology = make_topology(8, p2p_read=unknown, p2p_write=unknown)
    assert without_p2p(host(topology, on(*range(8)))) == []


def test_lost_gpu_does_not_hide_what_is_known_of_the_others() -> None:
    topology = islands([0], [1], [2])
    (sentence,) = without_p2p(host(topology, on(0, 1, 2, 7)))
    assert "uses GPU 0-2,7: no P2P between any of them" in sentence


def test_display_server_on_all_gpus_is_no_matter() -> None:
    shares = tuple(make_process_device(index=gpu, type="G") for gpu in range(8))
    topology = islands(range(4), range(4, 8))
    assert without_p2p(host(topology, make_process(devices=shares))) == []


def test_mig_instances_of_two_gpus_are_no_matter() -> None:
    uuids = ("MIG-a", "MIG-b")
    shares = tuple(make_process_device(index=gpu, uuid=uuids[gpu]) for gpu in range(2))
    instances = tuple(
        make_device(uuid=uuid, parent_uuid=gpu_uuid(gpu)) for gpu, uuid in enumerate(uuids)
    )
    gpus = tuple(make_device(index=index) for index in range(2))
    process = make_process(devices=shares)
    snapshot = make_snapshot(
        devices=gpus + instances, topology=islands([0], [1]), processes=(process,)
    )
    assert without_p2p(snapshot) == []


def test_gpu_with_fewer_nvlinks_than_its_like_is_reported() -> None:
    gpus = [make_device(index=index, nvlink_count=18) for index in range(3)]
    gpus += [make_device(index=3, nvlink_count=16)]
    gpus += [make_device(index=4, nvlink_count=4, name="NVIDIA A100")]
    assert reduced_links(make_snapshot(devices=tuple(gpus))) == ["GPU 3: 16 of 18 NVLinks are up"]


def test_gpu_without_a_bridge_needs_no_remark() -> None:
    links = tuple(
        tuple("X" if a == b else "NV4" if {a, b} == {0, 1} else "SYS" for b in range(3))
        for a in range(3)
    )
    gpus = tuple(make_device(index=index, nvlink_count=4 * (index < 2)) for index in range(3))
    snapshot = make_snapshot(devices=gpus, topology=make_topology(3, links=links))
    assert reduced_links(snapshot) == []


def test_gpu_in_a_slot_that_lost_lanes_is_reported() -> None:
    gpus = (make_device(), make_device(index=1, pcie_link_width=4, max_pcie_link_width=16))
    assert reduced_links(make_snapshot(devices=gpus)) == ["GPU 1: 4 of 16 PCIe lanes are up"]


def test_gpu_that_the_topology_leaves_out_is_reported_with_the_reason() -> None:
    gpus = (make_device(), make_device(index=1, state="lost"), make_device(index=2))
    topology = make_topology(2, indices=(0, 2))
    assert not_in_topology(make_snapshot(devices=gpus, topology=topology)) == [
        "GPU 1 is not in the matrix: it fell off the bus"
    ]


def test_healthy_host_and_one_without_a_topology_need_no_remarks() -> None:
    assert remarks(make_snapshot(8)) == []
    assert remarks(host(None, on(*range(8)))) == []


@given(snapshots())
def test_any_snapshot_can_be_remarked_on(snapshot: Snapshot) -> None:
    assert all(text.isprintable() for text, _ in remarks(snapshot))


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (("ok",), "the driver does not report how the GPUs are connected"),
        (("asleep", "ok"), "the driver does not report how the GPUs are connected"),
        ((), "the driver does not report how the GPUs are connected"),
        (("asleep",), "GPU 0 is asleep, so it is not read"),
        (("asleep", "asleep"), "each of these GPUs is asleep, so none is read"),
        (
            ("resting", "resting"),
            "each of these GPUs is left alone to fall asleep, so none is read",
        ),
        (("asleep", "resting"), "none of these GPUs can be read now"),
        (("lost", "lost"), "each of these GPUs fell off the bus"),
    ],
)
def test_why_there_is_no_topology_is_reported_as_far_as_it_is_known(
    states: tuple[Any, ...], why: str
) -> None:
    devices = tuple(make_device(index=index, state=state) for index, state in enumerate(states))
    assert no_topology(make_snapshot(devices=devices, topology=None)) == f"No topology: {why}"


@pytest.mark.parametrize(
    ("selected", "why"),
    [
        (["0"], "GPU 0 is asleep, so it is not read"),
        (["0-1"], "each of these GPUs is asleep, so none is read"),
    ],
)
def test_of_some_gpus_nothing_is_said_of_the_others(selected: list[str], why: str) -> None:
    states: list[Any] = ["asleep", "asleep", "ok"]
    devices = tuple(make_device(index=index, state=state) for index, state in enumerate(states))
    snapshot = select(make_snapshot(devices=devices, topology=None), selected)
    assert no_topology(snapshot) == f"No topology: {why}"
