from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest

from gpudash.fleet.collector import narrowed
from gpudash.fleet.columns import USER_COLUMNS
from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import host_rows, totals
from gpudash.fleet.users import Prices
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetSnapshot, FleetSource
from gpudash.model.state import BUSY, DRAINED, FREE, HELD, IN_USE, LOST, UNKNOWN, UNUSABLE
from gpudash.model.text import SafeText

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
GIB = 1 << 30
ALICE, BOB = (SafeText("alice"),), (SafeText("bob"),)


def gpu(**fields: object) -> FleetDevice:
    known: dict[str, object] = {"index": 0, "uuid": "GPU-0", "memory_used_bytes": 4 << 20}
    return FleetDevice(**known | {"gpu_utilization_percent": 0.0} | fields)  # type: ignore[arg-type]


def snapshot(
    *devices: FleetDevice, seconds: float = 0.0, jobs: Sequence[FleetJob] = (), **fields: object
) -> FleetSnapshot:
    host = FleetHost(name=SafeText("gpu01"), devices=devices, **fields)  # type: ignore[arg-type]
    return FleetSnapshot(
        taken_at=START + timedelta(seconds=seconds), hosts=(host,), jobs=tuple(jobs)
    )


def status(device: FleetDevice, **fields: object) -> str:
    return Reducer().reduce(snapshot(device, **fields)).hosts[0].devices[0].status  # type: ignore[arg-type]


@pytest.mark.parametrize("known", ["unknown", "busy", "free"])
def test_a_gpu_is_divided_whatever_its_instances_do(known: str) -> None:
    instance = gpu(index=1, uuid="MIG-1", parent_uuid="GPU-0", gpu_utilization_percent=None)
    found = Reducer().reduce(snapshot(gpu(status=known), instance)).hosts[0].devices
    assert [each.status for each in found] == ["divided", "free"]


@pytest.mark.parametrize("state", ["stale", "down", "lost-contact"])
def test_what_was_known_of_a_host_that_does_not_answer_is_no_status(state: str) -> None:
    assert status(gpu(status="busy"), state=state) == "unknown"
    assert status(gpu(), state=state) == "unknown"


@pytest.mark.parametrize(
    ("device", "state"),
    [
        (gpu(), FREE),
        (gpu(gpu_utilization_percent=5.0), BUSY),
        (gpu(gpu_utilization_percent=4.9), FREE),
        (gpu(gpu_utilization_percent=3.0, memory_used_bytes=40 * GIB, idle_seconds=None), IN_USE),
        (gpu(gpu_utilization_percent=None), UNKNOWN),
        (gpu(memory_used_bytes=None), UNKNOWN),
        (gpu(gpu_utilization_percent=None, memory_used_bytes=2 * GIB), IN_USE),
        (gpu(memory_used_bytes=2 * GIB), IN_USE),
        (gpu(memory_used_bytes=2 * GIB, idle_seconds=299.0), IN_USE),
        (gpu(memory_used_bytes=2 * GIB, idle_seconds=300.0), HELD),
        (gpu(job="7", idle_seconds=301.0), HELD),
        (gpu(users=ALICE, idle_seconds=301.0), HELD),
        (gpu(gpu_utilization_percent=None, job="7", idle_seconds=301.0), IN_USE),
        (gpu(state="lost"), LOST),
        (gpu(xid=79), UNUSABLE),
        (gpu(xid=45), FREE),
        (gpu(gpu_utilization_percent=90.0, age_seconds=301.0), UNKNOWN),
        (gpu(status=HELD.id), HELD),
    ],
)
def test_status(device: FleetDevice, state: object) -> None:
    assert status(device) == state.id  # type: ignore[attr-defined]


def test_advice_drains_the_hosts_of_each_cluster_by_its_own_scheduler() -> None:
    lost = (gpu(state="lost"),)
    hosts = tuple(
        FleetHost(name=SafeText(name), cluster=SafeText(cluster), devices=lost)
        for name, cluster in (("a", "east"), ("b", "west"), ("c", "east"), ("d", "$(x)"))
    )
    slurm = FleetSource(kind="slurm", name=SafeText("s"))
    found = Reducer().reduce(FleetSnapshot(taken_at=START, hosts=hosts, sources=(slurm,)))
    advice = found.findings[0].advice
    assert "in east: scontrol update NodeName=a,c State=DRAIN" in advice
    assert "; in west: scontrol update NodeName=b State=DRAIN" in advice
    assert "in its cluster: scontrol update NodeName=d" in advice
    assert "the reason: in east: ssh a gpudash" in advice


def test_findings_name_the_cluster_of_hosts_that_share_a_name() -> None:
    lost = (gpu(state="lost"),)
    hosts = tuple(
        FleetHost(name=SafeText("gpu01"), cluster=SafeText(cluster), devices=devices)
        for cluster, devices in (("east", (gpu(),)), ("west", lost))
    )
    found = Reducer().reduce(FleetSnapshot(taken_at=START, hosts=hosts))
    (finding,) = found.findings
    assert "west/gpu01 GPU 0" in finding.sentence
    assert "in west: Keep new jobs off gpu01;" in finding.advice
    assert "in west: ssh gpu01 gpudash" in finding.advice
    assert finding.hosts == ("west/gpu01",)
    assert [host.name for host in found.hosts] == ["gpu01", "gpu01"]
    assert narrowed(found, lambda host, _: host.cluster == "east", Prices()).findings == ()


def test_idle_time_adds_up_between_samples() -> None:
    reducer, held = Reducer(), gpu(memory_used_bytes=2 * GIB)
    found = [reducer.reduce(snapshot(held, seconds=at)) for at in (0, 200, 400)]
    devices = [each.hosts[0].devices[0] for each in found]
    assert [(each.status, each.idle_seconds) for each in devices] == [
        (IN_USE.id, 0.0),
        (IN_USE.id, 200.0),
        (HELD.id, 400.0),
    ]


def test_gpu_is_free_as_soon_as_nothing_holds_it() -> None:
    reducer = Reducer()
    reducer.reduce(snapshot(gpu(memory_used_bytes=2 * GIB, gpu_utilization_percent=80.0)))
    assert reducer.reduce(snapshot(gpu(), seconds=10)).hosts[0].devices[0].status == FREE.id


@pytest.mark.parametrize("seconds", [-60, 3600])
def test_idle_time_starts_again_after_a_jump(seconds: float) -> None:
    reducer, held = Reducer(), gpu(memory_used_bytes=2 * GIB)
    reducer.reduce(snapshot(held))
    device = reducer.reduce(snapshot(held, seconds=seconds)).hosts[0].devices[0]
    assert (device.status, device.idle_seconds) == (IN_USE.id, 0.0)


def instance(number: int, **fields: object) -> FleetDevice:
    known: dict[str, object] = {"uuid": f"MIG-{number}", "parent_uuid": "GPU-0", "index": number}
    return gpu(**known | {"gpu_utilization_percent": None} | fields)


def test_users_hold_gpus_and_hours() -> None:
    held = gpu(users=ALICE, memory_used_bytes=2 * GIB, idle_seconds=7200.0, name="NVIDIA H100")
    busy = gpu(index=1, uuid="GPU-1", users=BOB, gpu_utilization_percent=90.0, job="8")
    users = Reducer(Prices({"h100": 2.5, "nvidia h": 1.0})).reduce(snapshot(held, busy)).users
    assert [user.name for user in users] == ["alice", "bob"]
    assert (users[0].devices, users[0].held_idle, users[0].idle_gpu_hours) == (1, 1, 2.0)
    assert users[0].idle_cost == 2.0
    assert (users[1].busy, users[1].held_idle, users[1].jobs, users[1].idle_cost) == (1, 0, 1, None)


def test_what_looks_kept_busy_is_found_and_costs_its_user_so_much_an_hour() -> None:
    full = {"name": "H100", "gpu_utilization_percent": 100.0, "dram_active_percent": 0.5}
    gpus = [
        gpu(index=n, uuid=f"GPU-{n}", users=BOB, tensor_active_percent=0.1, **full)
        for n in range(3)
    ]
    gpus.append(gpu(index=3, uuid="GPU-3", users=BOB, tensor_active_percent=60.0, **full))
    found = Reducer(Prices({"h100": 2.5})).reduce(snapshot(*gpus))
    (user,) = found.users
    assert (user.busy, user.kept_busy, user.kept_cost_per_hour) == (4, 3, 7.5)
    (kept,) = (each for each in found.findings if each.rule == "kept-alive")
    assert kept.sentence.startswith("3 GPUs of bob ")
    assert ", 7.50 an hour at the configured prices: " in kept.sentence
    (column,) = (each for each in USER_COLUMNS if each.key == "kept")
    assert column.text(user) == "3 (7.50/h)"
    (user,) = Reducer().reduce(snapshot(*gpus)).users
    assert (user.kept_busy, user.kept_cost_per_hour) == (3, None)
    assert column.text(user) == "3"
    assert not column.has_content(Reducer().reduce(snapshot(gpus[3])).users)


def test_gpu_in_instances_counts_once_for_a_user() -> None:
    parts = [instance(number, users=ALICE, memory_used_bytes=2 * GIB) for number in (1, 2)]
    (user,) = Reducer().reduce(snapshot(gpu(users=ALICE), *parts)).users
    assert (user.devices, user.memory_used_bytes) == (1, 4 * GIB)


def test_gpus_behind_one_in_instances_count_for_the_same_user() -> None:
    whole = [gpu(index=n, uuid=f"GPU-{n}", users=ALICE) for n in (1, 2)]
    (user,) = Reducer().reduce(snapshot(gpu(users=ALICE), instance(1, users=ALICE), *whole)).users
    assert user.devices == 3


def test_one_gpu_in_instances_is_one_for_its_users_and_jobs_and_in_every_finding() -> None:
    held = {"memory_used_bytes": 2 * GIB, "idle_seconds": 7200.0, "users": ALICE, "job": "7"}
    parts = [
        instance(1, **held, status=HELD.id),
        instance(2, **held, status=HELD.id),
        instance(3, users=BOB, status=BUSY.id, memory_used_bytes=2 * GIB),
    ]
    # Slurm counts the instances that it gives.
    job = FleetJob(id=SafeText("7"), user=ALICE[0], devices=2)
    found = Reducer().reduce(snapshot(gpu(), *parts, jobs=[job]))
    alice, bob = found.users
    assert (alice.devices, alice.held_idle, alice.idle_gpu_hours) == (1, 1, 2.0)
    assert (bob.devices, bob.busy) == (1, 1)
    assert [each.devices for each in found.jobs] == [1]
    (sentence,) = [each.sentence for each in found.findings if each.rule == "held-idle"]
    assert sentence.startswith("1 GPU held idle with memory in use for more than an hour by 1 user")
    assert totals(host_rows(found)).counts == {HELD.id: 1}


def test_a_gpu_that_nothing_holds_on_a_drained_host_is_not_free() -> None:
    assert status(gpu(), drain_reason="firmware") == DRAINED.id
    assert status(gpu(state="asleep"), drain_reason="firmware") == DRAINED.id
    assert status(gpu(gpu_utilization_percent=90.0), drain_reason="firmware") == BUSY.id


def test_nothing_of_a_silent_host_counts_as_used_now() -> None:
    held = gpu(users=ALICE, memory_used_bytes=2 * GIB, idle_seconds=7200.0)
    reduced = Reducer().reduce(snapshot(held, state="down"))
    assert (reduced.users[0].devices, reduced.users[0].held_idle) == (1, 0)


def test_job_has_its_mean_and_its_least_busy_gpu() -> None:
    job = FleetJob(id=SafeText("7"), user=SafeText("alice"), devices=2)
    devices = [
        gpu(index=n, uuid=f"GPU-{n}", job="7", gpu_utilization_percent=percent)
        for n, percent in enumerate((90.0, 30.0))
    ]
    (found,) = Reducer().reduce(snapshot(*devices, jobs=[job])).jobs
    assert (found.gpu_utilization_percent, found.min_gpu_utilization_percent) == (60.0, 30.0)
    assert (found.busy, found.hosts, found.user) == (2, ("gpu01",), "alice")


def test_job_that_only_devices_name_is_listed() -> None:
    (found,) = Reducer().reduce(snapshot(gpu(job="ml/train-0", users=BOB))).jobs
    assert (found.id, found.kind, found.user, found.devices) == (
        "ml/train-0",
        "kubernetes",
        "bob",
        1,
    )


def test_jobs_of_other_hosts_are_left_out() -> None:
    jobs = [
        FleetJob(id=SafeText(name), hosts=(SafeText(name),), devices=8) for name in ("gpu01", "x")
    ]
    assert [job.id for job in Reducer().reduce(snapshot(gpu(), jobs=jobs)).jobs] == ["gpu01"]
