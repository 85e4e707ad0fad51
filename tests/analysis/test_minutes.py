from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.analysis.minutes import Minutes
from gpudash.model.fault import Fault
from gpudash.model.process import Job, Process
from gpudash.model.report import Minute, MinuteUse, decode_minute, encode_minute
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.text import clean
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)

START = datetime(2026, 1, 2, 3, 0, tzinfo=timezone.utc)


def sample(seconds: float, *processes: Process, **overrides: object) -> Snapshot:
    """A host of one GPU with these processes, so many seconds after the start."""
    fields = {
        "devices": (make_device(status="busy"),),
        "processes": processes,
        "taken_at": START + timedelta(seconds=seconds),
        "host": make_host(uptime_seconds=1000.0 + seconds),
        **overrides,
    }
    return make_snapshot(1, **fields)


def minutes_of(samples: Iterable[Snapshot], interval: float = 10) -> list[Minute]:
    """The minutes that samples add up to."""
    sums = Minutes(interval)
    found = [sums.add(each) for each in samples]
    return [each for each in (*found, sums.end()) if each is not None]


def process_of(user: str, job: str | None = None, *gpus: int, **share: object) -> Process:
    """A process of a user on GPUs, the first unless some are named."""
    return make_process(
        pid=hash((user, job, gpus)) % 10**6,
        username=user,
        job=None if job is None else Job(kind="slurm", id=job),
        devices=tuple(make_process_device(index=index, **share) for index in gpus or (0,)),
    )


def of_users(minute: Minute) -> dict[str | None, MinuteUse]:
    """What users have in a minute of one GPU."""
    return {each.user: each for each in minute.users}


def test_time_between_samples_counts_for_what_the_later_one_shows_in_the_minute_of_it() -> None:
    """A minute goes from its first sample back to the last of the minute before."""
    found = minutes_of(sample(second, process_of("ann")) for second in range(0, 121, 10))
    assert [each.seconds for each in found] == [50, 60, 10]
    assert [each.users[0].held_seconds for each in found] == [50, 60, 10]
    assert [each.devices[0].seen_seconds for each in found] == [50, 60, 10]
    assert found[1].taken_at == START + timedelta(seconds=110)
    assert decode_minute(encode_minute(found[1])) == found[1]


# In eighths of a second, which add up exactly: a step may be just as long as no gap is.
STEPS = st.integers(4, 2400).map(lambda eighths: eighths / 8)


@given(st.lists(STEPS, max_size=20), st.sampled_from([1.0, 5.0, 10.0, 60.0]))
def test_a_gap_counts_nothing_and_all_else_counts_once(steps: list[float], interval: float) -> None:
    """A gap is longer than three intervals and than 15 seconds."""
    at, samples = 0.0, [sample(0, process_of("ann"))]
    for step in steps:
        samples.append(sample(at := at + step, process_of("ann")))
    found = minutes_of(samples, interval)
    expected = sum(step for step in steps if step <= max(15, 3 * interval))
    assert sum(each.seconds for each in found) == pytest.approx(expected, abs=0.1)
    held = sum(use.held_seconds for each in found for use in each.users)
    assert held == pytest.approx(expected, abs=0.1)


def test_a_host_that_started_again_a_clock_that_was_set_and_no_driver_are_gaps() -> None:
    """Nobody knows what was meanwhile."""
    rebooted = [sample(0), sample(10, host=make_host(uptime_seconds=4.0))]
    set_forward = [sample(0), sample(3600, host=make_host(uptime_seconds=1010.0))]
    fault = Fault(source="nvml", message=clean("does not answer"), code=9)
    unseen = [sample(0), sample(5, devices=(), errors=(fault,)), sample(10)]
    for samples in (rebooted, set_forward, unseen):
        assert sum(each.seconds for each in minutes_of(samples)) == 0


USERS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, "1", "2"])), min_size=1, max_size=6
)


@given(USERS)
def test_shares_of_a_gpu_add_up_to_the_time_it_was_held(who: list[tuple[str, str | None]]) -> None:
    """Users have equal parts, and their jobs equal parts of these, however many processes."""
    processes = [replace(process_of(*each), pid=pid) for pid, each in enumerate(who)]
    [minute] = minutes_of(sample(second, *processes) for second in (0, 10, 20))
    users = {user for user, _ in who}
    for uses in (minute.users, minute.jobs):
        assert sum(each.share_seconds for each in uses) == pytest.approx(20, abs=0.01)
    assert {each.user: each.share_seconds for each in minute.users} == pytest.approx(
        dict.fromkeys(users, 20 / len(users)), abs=0.01
    )
    assert {each.held_seconds for each in (*minute.users, *minute.jobs)} == {20}
    assert {(each.user, each.job) for each in minute.jobs} == {
        (user, None if job is None else f"slurm:{job}") for user, job in who
    }


def test_idle_and_unknown_are_what_the_status_says() -> None:
    """A GPU whose utilization is not known is neither idle nor at work."""
    idle = (make_device(status="held-idle", gpu_utilization_percent=0),)
    dark = (make_device(status="in-use", gpu_utilization_percent=None),)
    free = (make_device(status="free", gpu_utilization_percent=0),)
    bob = process_of("bob")
    [minute] = minutes_of(
        [
            sample(0, bob),
            sample(10, bob),
            sample(20, bob, devices=idle),
            sample(35, bob, devices=dark),
            sample(50, devices=free),
            sample(59),
        ]
    )
    use = of_users(minute)["bob"]
    assert (use.held_seconds, use.idle_seconds, use.unknown_seconds) == (35, 10, 15)
    # Held by whom it is not known, as the word says.
    assert of_users(minute)[None].held_seconds == 9
    device = minute.devices[0]
    assert (device.seen_seconds, device.held_seconds, device.idle_seconds) == (59, 44, 10)


def test_instances_of_a_gpu_count_as_one_for_a_user_and_the_gpu() -> None:
    """One that is idle is not hidden by a computing neighbour."""
    parent = make_device(status="divided", gpu_utilization_percent=None, mig_mode=True)
    states = {"MIG-1": "held-idle", "MIG-2": "busy", "MIG-3": "free"}
    instances = [
        make_device(
            index=number, uuid=uuid, parent_uuid=parent.uuid, status=status, sm_active_percent=50.0
        )
        for number, (uuid, status) in enumerate(states.items())
    ]
    ann = process_of("ann", uuid="MIG-1"), process_of("ann", "7", uuid="MIG-2")
    [minute] = minutes_of(
        sample(second, *ann, process_of("bob", uuid="MIG-2"), devices=(parent, *instances))
        for second in (0, 10)
    )
    users = of_users(minute)
    assert (users["ann"].held_seconds, users["ann"].share_seconds) == (10, 7.5)
    assert (users["ann"].idle_seconds, users["bob"].idle_seconds) == (10, 0)
    assert (users["bob"].held_seconds, users["bob"].share_seconds) == (10, 2.5)
    assert [each.held_seconds for each in minute.devices] == [10, 10, 10, 0]
    assert [each.share_seconds for each in minute.devices] == [10, 5, 5, 0]
    assert [each.parent for each in minute.devices] == [None, 0, 0, 0]


def test_energy_is_divided_by_utilization_and_memory_is_the_most_at_once() -> None:
    """Where that of one is not known, it is divided as the time is; a reset counter adds 0."""
    ann = process_of("ann", sm_utilization_percent=30, used_gpu_memory_bytes=GIB)
    bob = process_of("bob", sm_utilization_percent=10, used_gpu_memory_bytes=2 * GIB)
    cay = process_of("cay", sm_utilization_percent=None)
    counters = (5000, 6000, 6400, 100)
    groups = ((ann, bob), (ann, bob), (ann, cay), (ann,))
    [minute] = minutes_of(
        sample(second, *group, devices=(make_device(status="busy", total_energy_mj=counter),))
        for second, (counter, group) in enumerate(zip(counters, groups, strict=True))
    )
    users = of_users(minute)
    assert {user: use.energy_mj for user, use in users.items()} == {
        "ann": 950,
        "bob": 250,
        "cay": 200,
    }
    assert minute.devices[0].energy_mj == 1400
    assert minute.devices[0].peak_memory_bytes == 40 * GIB
    assert users["ann"].peak_memory_bytes == GIB


def test_means_and_maxima_are_those_of_what_is_charted() -> None:
    """What no device reports is left out, what one does not report is None."""
    [minute] = minutes_of(
        sample(
            second,
            devices=(
                make_device(gpu_utilization_percent=10 * second, memory_temperature_celsius=None),
                make_device(index=1, gpu_utilization_percent=None, memory_temperature_celsius=None),
            ),
        )
        for second in (0, 1, 2)
    )
    assert minute.means["gpu_utilization_percent"] == (10, None)
    assert minute.maxima["gpu_utilization_percent"] == (20, None)
    assert "memory_temperature_celsius" not in minute.means


def test_findings_count_by_device_and_for_the_host_otherwise() -> None:
    """Each for as long as it was found."""
    about = Finding(rule="power-capped", level="warn", sentence="", uuids=(gpu_uuid(0),))
    host = Finding(rule="no-swap", level="info", sentence="")
    [minute] = minutes_of(
        [sample(0), sample(10, findings=(about, host)), sample(25, findings=(about,))]
    )
    found = {(each.rule, each.level, each.device): each.seconds for each in minute.findings}
    assert found == {("power-capped", "warn", 0): 25, ("no-swap", "info", None): 10}
