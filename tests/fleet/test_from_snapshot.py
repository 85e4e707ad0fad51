from datetime import timedelta

import pytest
from msgspec.structs import replace

from gpudash.analysis.usage import users
from gpudash.fleet.from_snapshot import SnapshotReader
from gpudash.fleet.reduce import Reducer
from gpudash.model.fault import XidEvent
from gpudash.model.fleet import FleetHost, FleetSnapshot
from gpudash.model.process import Job
from gpudash.model.snapshot import Finding, Host
from gpudash.model.text import SafeText
from tests.analysis.health.examined import later
from tests.factories import gpu_uuid, make_device, make_process, make_process_device, make_snapshot


def reader() -> SnapshotReader:
    return SnapshotReader(SafeText("lab7"), SafeText("lab"))


def test_has_the_name_and_group_that_it_was_asked_by() -> None:
    host = reader().read(make_snapshot())
    assert (host.name, host.group, host.state) == ("lab7", "lab", "ok")
    assert [device.uuid for device in host.devices] == [gpu_uuid(index) for index in range(4)]
    assert reader().read_nothing().state == "connecting"


def test_what_both_know_of_a_host_is_the_same() -> None:
    host, found = make_snapshot().host, reader().read(make_snapshot())
    shared = {*Host.__struct_fields__} & {*FleetHost.__struct_fields__}
    assert shared
    for name in shared:
        assert getattr(found, name) == getattr(host, name) is not None, name


def test_devices_have_state_users_and_the_one_job() -> None:
    job = Job(kind="slurm", id=SafeText("4242"))
    snapshot = make_snapshot(
        3,
        devices=(
            make_device(),
            make_device(index=1, state="lost", gpu_utilization_percent=None),
            make_device(index=2, memory_used_bytes=0, gpu_utilization_percent=0),
        ),
        processes=(
            make_process(job=job),
            make_process(pid=2, username="bob", devices=(make_process_device(type="G"),)),
        ),
    )
    first, second, third = reader().read(snapshot).devices
    assert (first.status, first.users, first.job) == ("busy", ("alice",), "4242")
    assert (second.status, second.state) == ("lost", "lost")
    assert (third.status, third.users, third.job) == ("free", (), None)


def test_a_gpu_that_is_lost_has_the_users_and_the_job_that_it_had() -> None:
    one, job = reader(), Job(kind="slurm", id=SafeText("4242"))
    there = make_snapshot(1, processes=(make_process(job=job),))
    gone = replace(there, devices=(make_device(state="lost"),), processes=())
    found = [one.read(each).devices[0] for each in (there, gone, gone)]
    assert [(each.users, each.job) for each in found] == [(("alice",), "4242")] * 3
    found = [one.read(each).devices[0] for each in (make_snapshot(1, processes=()), gone)]
    assert [(each.users, each.job) for each in found] == [((), None)] * 2


def test_a_host_has_the_processes_that_compute_those_of_no_job_first() -> None:
    slurm, pod = Job(kind="slurm", id=SafeText("42")), Job(kind="pod", id=SafeText("x"))
    graphics = make_process_device(type="G")
    snapshot = make_snapshot(
        processes=(
            make_process(pid=1, job=slurm),
            make_process(pid=2, username="bob", job=pod),
            make_process(pid=3, devices=(graphics,)),
        )
    )
    found = reader().read(snapshot).processes
    assert found is not None
    assert [(each.pid, each.username, each.job) for each in found] == [
        (2, "bob", None),
        (1, "alice", "42"),
    ]
    assert {each.uuids for each in found} == {(gpu_uuid(0),)}


def test_a_gpu_has_the_users_of_its_instances() -> None:
    share = make_process_device(uuid="MIG-1")
    snapshot = make_snapshot(
        devices=(
            make_device(mig_mode=True, gpu_utilization_percent=None),
            make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0), gpu_utilization_percent=None),
        ),
        processes=(make_process(devices=(share,)),),
    )
    assert [each.users for each in reader().read(snapshot).devices] == [("alice",)] * 2


def test_a_user_has_as_many_gpus_and_jobs_as_on_the_host() -> None:
    steps = [Job(kind="slurm", id=SafeText("7"), step=SafeText(step)) for step in "01"]
    instances = [
        make_device(index=n, uuid=f"MIG-{n}", parent_uuid=gpu_uuid(0), gpu_utilization_percent=None)
        for n in range(2)
    ]
    places = [(1, 0, "MIG-0"), (2, 0, "MIG-1"), (3, 1, gpu_uuid(1))]
    snapshot = make_snapshot(
        devices=(make_device(mig_mode=True), *instances, make_device(index=1)),
        processes=tuple(
            make_process(
                pid=pid, job=steps[pid % 2], devices=(make_process_device(index=index, uuid=uuid),)
            )
            for pid, index, uuid in places
        ),
    )
    (alone,) = users(snapshot)
    many = FleetSnapshot(taken_at=snapshot.taken_at, hosts=(reader().read(snapshot),))
    (among,) = Reducer().reduce(many).users
    assert (alone.name, alone.devices, alone.jobs) == ("alice", 2, 1)
    assert (among.name, among.devices, among.jobs) == ("alice", 2, 1)


def idle(snapshot_reader: SnapshotReader, now: float, **fields: object) -> float | None:
    snapshot = later(make_snapshot(devices=(make_device(**fields),), topology=None), now)
    return snapshot_reader.read(snapshot).devices[0].idle_seconds


def test_instances_have_labels_also_where_the_host_sends_none() -> None:
    instances = (
        make_device(index=1, uuid=f"MIG-{gpu}", parent_uuid=gpu_uuid(gpu)) for gpu in (0, 1)
    )
    gpus = (make_device(index=0), make_device(index=1))
    host = reader().read(make_snapshot(devices=(*gpus, *instances)))
    assert [each.label for each in host.devices] == ["0", "1", "0:1", "1:1"]


def test_idle_time_counts_from_the_first_sample_without_use() -> None:
    one = reader()
    assert idle(one, 0.0) is None
    assert idle(one, 10.0, gpu_utilization_percent=0) == 0
    assert idle(one, 70.0, gpu_utilization_percent=0) == 60
    assert idle(one, 80.0, gpu_utilization_percent=None) is None
    assert idle(one, 90.0, gpu_utilization_percent=0) == 0
    one.forget()
    assert idle(one, 100.0, gpu_utilization_percent=0) == 0


def test_what_the_host_knows_by_itself_is_taken_over() -> None:
    device = make_device(gpu_utilization_percent=0, status="held-idle", idle_seconds=600.0)
    snapshot = make_snapshot(devices=(device,), findings=())
    (found,) = reader().read(snapshot).devices
    assert (found.status, found.idle_seconds) == ("held-idle", 600.0)


def test_how_long_heat_has_slowed_a_gpu_down_is_as_the_host_knows_it() -> None:
    hot = Finding(
        rule="thermal-slowdown-software",
        level="warn",
        sentence="GPU 0 is hot",
        advice="",
        uuids=(gpu_uuid(0),),
        held_seconds=600.0,
    )
    snapshot = make_snapshot(devices=(make_device(status="hot"),), findings=(hot,))
    many = FleetSnapshot(taken_at=snapshot.taken_at, hosts=(reader().read(snapshot),))
    (found,) = Reducer().reduce(many).findings
    assert (found.rule, found.held_seconds) == ("gpus-hot", 600)


@pytest.mark.parametrize(
    ("code", "seconds", "is_recent"),
    [(31, 60, True), (31, 4000, False), (79, 4000, True), (79, 90_000, False)],
)
def test_an_xid_is_recent_for_an_hour_or_a_day_by_the_clock_of_its_host(
    code: int, seconds: float, is_recent: bool
) -> None:
    now = make_snapshot().taken_at.timestamp()
    older = XidEvent(code=13, seen_at=now - 100_000)
    events = (older, XidEvent(code=code, seen_at=now - seconds))
    snapshot = make_snapshot(devices=(make_device(xid_events=events),))
    (found,) = reader().read(snapshot).devices
    assert (found.xid, found.xid_seconds) == ((code, seconds) if is_recent else (None, None))


def test_a_gpu_that_the_host_has_no_more_is_expected_for_a_day() -> None:
    one = reader()
    both, left = make_snapshot(2), make_snapshot(1)
    start = left.taken_at
    counts = [
        one.read(replace(snapshot, taken_at=start + timedelta(seconds=at))).expected_devices
        for snapshot, at in ((left, 0), (both, 60), (left, 120), (left, 90_000))
    ]
    assert counts == [1, 2, 2, 1]


def test_a_host_without_xid_events_has_no_xid() -> None:
    snapshot = make_snapshot(devices=(make_device(xid_events=None),))
    assert reader().read(snapshot).devices[0].xid is None
