from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.actions.lease.choose import choose
from gpudash.actions.lease.request import GpuRequest, filter_candidates
from gpudash.analysis.health.findings import findings, statuses, unusable_devices
from gpudash.model.device import Device
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.process import EXITED, Lease
from gpudash.model.snapshot import Snapshot
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
    make_topology,
)
from tests.strategies import snapshots


def idle(index: int, **overrides: Any) -> Device:
    fields: dict[str, Any] = {
        "memory_used_bytes": 0,
        "memory_free_bytes": 79 * GIB,
        "gpu_utilization_percent": 0,
    }
    return make_device(index=index, **{**fields, **overrides})


def host(*devices: Device, **overrides: Any) -> Snapshot:
    count = 1 + max((device.index for device in devices), default=0)
    fields: dict[str, Any] = {"processes": (), "topology": make_topology(count)}
    return make_snapshot(devices=devices, **{**fields, **overrides})


def picked(samples: Snapshot | Sequence[Snapshot], environ: Any = None, **wish: Any) -> list[int]:
    window = [samples] if isinstance(samples, Snapshot) else samples
    choice = choose(window, GpuRequest(**wish), environ or {})
    assert bool(choice.shortage) is not bool(choice.devices)
    return [device.index for device in choice.devices]


def lack(snapshot: Snapshot, **wish: Any) -> str:
    return choose([snapshot], GpuRequest(**wish), {}).shortage


def test_a_free_one() -> None:
    assert picked(host(make_device(index=0), idle(1))) == [1]


def test_none_at_all_when_there_are_too_few() -> None:
    assert picked(host(make_device(index=0), idle(1)), count=2) == []


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"state": "lost"}, "GPU 0 fell off the bus"),
        ({"recovery_action": "gpu-reset"}, "GPU 0 unfit for jobs: recovery-needed"),
        ({"fabric_state": "in-progress"}, "GPU 0 unfit for jobs: fabric-not-ready"),
        ({"remapped_rows_failed": True}, "GPU 0 unfit for jobs: row-remap-failed"),
        ({"ecc_uncorrected_volatile_count": 1}, "GPU 0 unfit for jobs: ecc-uncorrected"),
        (
            {"mig_mode": False, "pending_mig_mode": True},
            "GPU 0 waiting for a reset that changes its MIG mode",
        ),
        ({"memory_used_bytes": 30 * GIB}, "GPU 0 30.0 GiB in use by no listed process"),
        ({"memory_used_bytes": None}, "GPU 0 its free memory is unknown"),
        ({"gpu_utilization_percent": 37}, "GPU 0 37% busy"),
        ({"compute_mode": "prohibited"}, "GPU 0 in compute mode prohibited"),
        ({"mig_mode": True}, "GPU 0 MIG without instances"),
        ({"uuid": None}, "GPU 0 has no UUID"),
    ],
)
def test_what_does_not_fit_says_why(overrides: dict[str, Any], reason: str) -> None:
    assert lack(host(idle(0, **overrides))) == f"1 GPU wanted, 0 free: {reason}"


@pytest.mark.parametrize("code", [48, 79, 95])
def test_one_with_an_error_that_needs_a_reset_is_not_offered(code: int) -> None:
    event = XidEvent(code=code, seen_at=make_snapshot().taken_at.timestamp() - 60)
    assert "unfit for jobs: xid" in lack(host(idle(0, xid_events=(event,))))


def test_one_that_sleeps_is_offered() -> None:
    asleep = Device(index=0, uuid=gpu_uuid(0), state="asleep")
    assert picked(host(asleep)) == [0]
    known = replace(asleep, memory_total_bytes=8 * GIB)
    assert picked(host(known), min_free_bytes=8 * GIB) == [0]
    assert lack(host(asleep), min_free_bytes=8 * GIB) == (
        "1 GPU wanted, 0 free: GPU 0 asleep: how much memory it has is not known"
    )


@pytest.mark.parametrize(
    "overrides",
    [
        {"unified_memory": True, "memory_free_bytes": 60 * GIB},
        {"addressing_mode": "ats", "memory_free_bytes": 50 * GIB},
    ],
)
def test_memory_of_the_host_is_nobodys_use(overrides: dict[str, Any]) -> None:
    shared = idle(0, memory_used_bytes=20 * GIB, **overrides)
    assert picked(host(shared), min_free_bytes=60 * GIB) == [0]


def test_free_ones_that_are_too_small_are_free() -> None:
    gpus = [idle(0), idle(1, memory_free_bytes=60 * GIB), idle(2, gpu_utilization_percent=37)]
    assert lack(host(*gpus), min_free_bytes=500 * GIB) == (
        "1 GPU wanted, 2 free, none with 500 GiB; the largest has 79.0 GiB: GPU 2 37% busy"
    )
    assert lack(host(*gpus), count=2, min_free_bytes=70 * GIB).startswith(
        "2 GPUs wanted, 2 free, 1 with 70.0 GiB; the largest has 60.0 GiB: "
    )


@given(snapshots(), st.integers(1, 4), st.booleans(), st.booleans())
def test_any_snapshot_offers_what_is_usable_and_free_or_gives_a_reason(
    snapshot: Snapshot, count: int, linked: bool, share: bool
) -> None:
    # A brief one, in which processes are missing, decides nothing.
    snapshot = replace(snapshot, brief=False)
    offered, _ = filter_candidates([snapshot], GpuRequest(max_utilization_percent=100), {})
    keys = {each.device.key for each in offered}
    assert keys.isdisjoint(unusable_devices(snapshot))
    parents = {each.device.parent_uuid for each in offered}
    for finding in findings(snapshot):
        if finding.level == "critical":
            assert (keys | parents).isdisjoint(finding.uuids)
    # Judged here, not as a document claims.
    judged = replace(snapshot, devices=tuple(replace(d, status=None) for d in snapshot.devices))
    offered, _ = filter_candidates([judged], GpuRequest(), {})
    found = statuses(judged)
    assert {found[each.device.key].id for each in offered} <= {"free", "asleep", "resting"}
    choice = choose([snapshot], GpuRequest(count=count, linked=linked, share=share), {})
    assert len(choice.devices) == (0 if choice.shortage else count)
    assert choice.shortage.isprintable()


def test_an_instance_that_computes_is_not_free_though_the_driver_reports_no_utilization() -> None:
    parent = make_device(mig_mode=True)
    slices = [
        make_device(
            uuid=f"MIG-{number}",
            parent_uuid=parent.uuid,
            gpu_instance_id=number,
            compute_instance_id=0,
            gpu_utilization_percent=None,
            sm_active_percent=active,
            memory_used_bytes=0,
        )
        for number, active in ((1, 80.0), (2, 0.0))
    ]
    offered, _ = filter_candidates([host(parent, *slices)], GpuRequest(), {})
    assert [each.device.uuid for each in offered] == ["MIG-2"]


def test_who_holds_it_is_named() -> None:
    snapshot = host(idle(0, memory_used_bytes=40 * GIB), processes=(make_process(),))
    assert "GPU 0 held by alice (PID 4242, for" in lack(snapshot)


@pytest.mark.parametrize(("name", "whose"), [("alice", "alice"), (None, "an unknown user")])
def test_one_held_by_a_process_that_has_exited(name: str | None, whose: str) -> None:
    gone = make_process(username=name, create_time=None, hidden_reason=EXITED)
    snapshot = host(idle(0), processes=(gone,))
    assert f"GPU 0 held by {whose} (PID 4242, exited)" in lack(snapshot)


def test_one_whose_processes_are_not_known_is_not_free() -> None:
    fault = Fault(source="processes", code=4, uuid=gpu_uuid(0), message="processes unknown")
    snapshot = host(idle(0), errors=(fault,))
    assert "GPU 0 its processes could not be listed" in lack(snapshot)
    assert picked(snapshot, share=True) == [0]
    hidden = Fault(source="processes", message="processes outside this namespace are hidden")
    assert picked(host(idle(0), errors=(hidden,))) == [0]


def test_a_display_server_holds_nothing() -> None:
    share = make_process_device(type="G", used_gpu_memory_bytes=8 << 20)
    assert picked(host(idle(0), processes=(make_process(devices=(share,)),))) == [0]


def test_a_shared_one_only_if_that_is_wanted() -> None:
    used = idle(0, memory_used_bytes=40 * GIB, memory_free_bytes=39 * GIB)
    snapshot = host(used, processes=(make_process(),))
    assert picked(snapshot) == []
    assert picked(snapshot, share=True, min_free_bytes=20 * GIB) == [0]
    assert picked(snapshot, share=True, min_free_bytes=40 * GIB) == []


def test_a_leased_one_is_taken() -> None:
    lease = Lease(uuid=gpu_uuid(0), index=0, pid=77, start_ticks=5, username="bob", name="python")
    snapshot = host(idle(0), idle(1), leases=(lease,))
    assert picked(snapshot) == [1]
    assert "GPU 0 leased by bob's python (PID 77)" in lack(snapshot, count=2)
    own = choose([snapshot], GpuRequest(count=2), {}, own={gpu_uuid(0)})
    assert [device.index for device in own.devices] == [0, 1]


def test_one_quiet_instant_is_not_enough() -> None:
    window = [host(idle(0, gpu_utilization_percent=busy)) for busy in (90, 95, 92, 0, 0)]
    assert picked(window) == []
    assert picked(window, max_utilization_percent=92) == [0]


def test_the_tightest_fit_leaves_the_large_ones() -> None:
    small = idle(1, memory_free_bytes=22 * GIB)
    assert picked(host(idle(0), small, idle(2)), min_free_bytes=20 * GIB) == [1]


def test_the_model() -> None:
    other = idle(1, name="NVIDIA A100-SXM4-80GB")
    assert picked(host(idle(0), other), model="a100") == [1]


def test_neighbours_among_equals() -> None:
    islands = host(*(idle(index) for index in (1, 2, 3)))
    assert picked(islands, count=2) == [2, 3]


def test_linked_by_nvlink_or_not_at_all() -> None:
    links = (("X", "NV4", "SYS"), ("NV4", "X", "SYS"), ("SYS", "SYS", "X"))
    snapshot = host(*map(idle, range(3)), topology=make_topology(3, links=links))
    assert picked(snapshot, count=2, linked=True) == [0, 1]
    assert "no 3 of them linked by NVLink" in lack(snapshot, count=3, linked=True)


def test_a_narrower_variable_is_respected() -> None:
    snapshot = host(idle(0), idle(1), idle(2))
    assert picked(snapshot, {"CUDA_VISIBLE_DEVICES": gpu_uuid(2)}) == [2]
    assert picked(snapshot, {"CUDA_VISIBLE_DEVICES": ""}) == []


def test_instances_in_place_of_their_gpu() -> None:
    parent = idle(0, mig_mode=True)
    instances = tuple(
        idle(0, uuid=f"MIG-{name}", parent_uuid=gpu_uuid(0), gpu_utilization_percent=None)
        for name in "ab"
    )
    snapshot = host(parent, *instances)
    (choice,) = choose([snapshot], GpuRequest(), {}).devices
    assert choice.uuid == "MIG-a"
    assert picked(snapshot, count=2) == []


def test_instances_do_not_count_among_the_gpus_that_several_are_taken_from() -> None:
    instances = (idle(2, uuid=f"MIG-{name}", parent_uuid=gpu_uuid(2)) for name in "ab")
    samples = [host(idle(0), idle(1), idle(2, mig_mode=True), *instances)]
    assert choose(samples, GpuRequest(count=2), {}).fit == 2
    assert choose(samples, GpuRequest(), {}).fit == 4


def test_instances_are_named_by_their_labels_and_say_why_several_are_none() -> None:
    instances = [
        idle(number, uuid=f"MIG-{number}", parent_uuid=gpu_uuid(0), gpu_utilization_percent=None)
        for number in (0, 1)
    ]
    used = make_process(devices=(make_process_device(uuid="MIG-1"),))
    other = idle(1, gpu_utilization_percent=37)
    snapshot = host(idle(0, mig_mode=True), *instances, other, processes=(used,))
    assert lack(snapshot, min_free_bytes=80 * GIB) == (
        "1 GPU wanted, 1 free, none with 80.0 GiB; the largest has 79.0 GiB: "
        "GPU 0:1 held by alice (PID 4242, for 84d18h); GPU 1 37% busy"
    )
    assert lack(snapshot, count=2) == (
        "2 GPUs wanted, 0 free: GPU 0:0,0:1 left out: CUDA uses one MIG instance at most; "
        "GPU 1 37% busy"
    )


def test_many_of_many() -> None:
    count = 64
    links = tuple(
        tuple("X" if a == b else "NV4" if a // 8 == b // 8 else "SYS" for b in range(count))
        for a in range(count)
    )
    topology = make_topology(count, links=links)
    taken = host(*(idle(index) for index in range(3, count)), topology=topology)
    assert picked(taken, count=8, linked=True) == list(range(8, 16))
