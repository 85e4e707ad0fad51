from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.filter import parse
from gpudash.analysis.filter.words import quoted
from gpudash.analysis.table import device_rows, fit, process_rows
from gpudash.analysis.usage import (
    User,
    all_users,
    is_unlisted,
    no_processes_text,
    shorter_summaries,
    summary,
    tally,
    totals,
    unowned_memory_bytes,
    users,
)
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.process import Job, Process
from gpudash.model.snapshot import EMPTY, Snapshot
from gpudash.model.text import clean
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.factories import make_process_device as share
from tests.strategies import snapshots

IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}
HOT = {"temperature_celsius": 95, "slowdown_temperature_celsius": 90}


def test_summary_counts_what_each_gpu_does() -> None:
    devices = (
        make_device(index=0),
        make_device(index=1, **{**IDLE, "memory_used_bytes": 60 * GIB}),
        make_device(index=2, **IDLE),
        Device(index=3, state="lost"),
        make_device(index=4, **HOT),
    )
    processes = (make_process(devices=(make_process_device(index=1, sm_utilization_percent=0),)),)
    snapshot = make_snapshot(devices=devices, processes=processes)
    assert summary(tally(snapshot)) == "5 GPUs: 1 LOST, 1 hot, 1 busy, 1 held idle, 1 free"


def test_summary_without_gpus_says_so() -> None:
    assert summary(tally(make_snapshot(0))) == "No GPUs"


def test_gpus_of_a_driver_that_does_not_answer_are_unknown_not_none() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 3 s"))
    snapshot = replace(EMPTY, errors=(fault,))
    assert [summary(tally(snapshot)), *shorter_summaries(tally(snapshot), "~")] == [
        "GPUs unknown"
    ] * 2
    told = replace(EMPTY, errors=(replace(fault, code=6),))
    assert summary(tally(told)) == "No GPUs"


def test_summary_counts_mig_instances_and_not_what_is_hidden() -> None:
    parent = make_device(mig_mode=True, gpu_utilization_percent=None)
    free, held = (
        make_device(
            uuid=f"MIG-{i}",
            parent_uuid=parent.uuid,
            gpu_utilization_percent=None,
            memory_used_bytes=used,
        )
        for i, used in enumerate((0, 4 * GIB))
    )
    other = make_device(index=1)
    snapshot = make_snapshot(devices=(parent, free, held, other), processes=())
    words = "1 in use, 1 divided, 1 free"
    assert summary(tally(snapshot)) == "2 GPUs, 2 MIG: 1 busy, " + words
    assert summary(tally(snapshot, shown=snapshot.devices[:3])) == "1 GPU, 2 MIG: " + words
    assert summary(tally(make_snapshot(devices=(free,), processes=()))) == "1 MIG: 1 free"


def test_totals_add_up_what_is_known() -> None:
    snapshot = make_snapshot(2)
    assert totals(snapshot) == "80.0G of 160G, 825W"
    assert totals(make_snapshot(devices=(Device(index=0),))) == ""


def test_shorter_summaries_keep_the_order_and_lose_what_is_busy_first() -> None:
    devices = (
        make_device(index=0),
        make_device(index=1, **IDLE),
        make_device(index=2, **HOT),
        make_device(index=3, **{**IDLE, "memory_used_bytes": 60 * GIB}),
    )
    processes = (make_process(devices=(make_process_device(index=3, sm_utilization_percent=0),)),)
    snapshot = make_snapshot(devices=devices, processes=processes)
    assert summary(tally(snapshot)) == "4 GPUs: 1 hot, 1 busy, 1 held idle, 1 free"
    assert shorter_summaries(tally(snapshot), "~") == [
        "4 GPUs: 1 hot, 1 busy, 1 held idle, 1 free",
        "4 GPUs: 1 hot, ~, 1 held idle, 1 free",
        "4 GPUs: 1 hot, ~, 1 free",
        "4 GPUs: ~, 1 free",
    ]


def test_the_last_state_is_never_left_out() -> None:
    assert shorter_summaries(tally(make_snapshot(2)), "~") == ["2 GPUs: 2 busy"]


@given(snapshots())
def test_the_header_counts_the_words_of_the_column(snapshot: Snapshot) -> None:
    shown = Counter(row.state.word for row in device_rows(snapshot))
    assert {state.word: count for count, state in tally(snapshot).counts} == shown


def blind(*indices: int) -> tuple[Fault, ...]:
    return tuple(
        Fault(source="processes", message=clean("processes unknown"), uuid=gpu_uuid(index))
        for index in indices
    )


def empty(*devices: Device, errors: tuple[Fault, ...] = ()) -> Snapshot:
    return make_snapshot(devices=devices, processes=(), errors=errors)


@pytest.mark.parametrize(
    ("indices", "words"),
    [
        ((), "No running processes found"),
        ((1, 2), "No running processes found; those on GPU 1-2 are not known"),
        ((0, 1, 2), "Which processes run is not known"),
    ],
)
def test_no_process_runs_on_gpus_that_list_none(indices: tuple[int, ...], words: str) -> None:
    gpus = (make_device(index=index) for index in range(3))
    assert no_processes_text(empty(*gpus, errors=blind(*indices))) == words


def test_processes_are_unknown_where_the_driver_lists_no_gpus() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 3 s"))
    assert no_processes_text(empty(errors=(fault,))) == "Which processes run is not known"


@pytest.mark.parametrize("state", ["lost", "not-answering", "failed", "reset-required"])
def test_processes_of_one_that_is_out_of_order_are_unknown(state: DeviceState) -> None:
    gpus = make_device(), make_device(index=1, state=state)
    assert no_processes_text(empty(*gpus)).endswith("those on GPU 1 are not known")


@pytest.mark.parametrize("state", ["asleep", "resting"])
def test_no_process_runs_on_one_that_sleeps(state: DeviceState) -> None:
    assert no_processes_text(empty(make_device(state=state))) == "No running processes found"


def test_a_host_without_gpus_has_no_processes() -> None:
    assert no_processes_text(empty()) == "No running processes found"


def test_an_instance_is_listed_with_its_gpu() -> None:
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0))
    assert is_unlisted(instance, empty(instance, errors=blind(0)))
    assert not is_unlisted(instance, empty(instance, errors=blind(1)))


COLUMNS = {column.key: column for column in USER_COLUMNS}


def held(owner: str | None, gpu: int, gib: int | None, sm: int | None, **more: Any) -> Process:
    device = share(
        index=gpu,
        uuid=gpu_uuid(gpu),
        used_gpu_memory_bytes=None if gib is None else gib * GIB,
        sm_utilization_percent=sm,
    )
    return make_process(username=owner, devices=(device,), **more)


def counted(*processes: Process) -> tuple[User, ...]:
    return users(judged(*processes))


def judged(*processes: Process) -> Snapshot:
    """Four GPUs that the host has judged already, as it has these processes."""
    devices = tuple(make_device(index=index, status="busy") for index in range(4))
    return make_snapshot(devices=devices, processes=processes)


def test_owner_is_one_row_and_the_largest_holder_stands_first() -> None:
    found = counted(
        held("alice", 0, 10, 50, pid=1),
        held("bob", 1, 60, 90, pid=2),
        held("alice", 2, 20, 30, pid=3),
    )
    assert [(user.name, user.process_count, user.gpus) for user in found] == [
        ("bob", 1, "1"),
        ("alice", 2, "0,2"),
    ]
    assert found[1].memory_used_bytes == 30 * GIB
    assert found[1].utilization_percent == 40


def test_percentages_are_of_the_gpus_that_a_user_has_as_those_of_a_process_are() -> None:
    shares = tuple(
        share(
            index=gpu,
            uuid=gpu_uuid(gpu),
            used_gpu_memory_bytes=60 * GIB,
            sm_utilization_percent=100 if gpu == 0 else 0,
        )
        for gpu in (0, 1)
    )
    snapshot = make_snapshot(4, processes=(make_process(username="alice", devices=shares),))
    (user,) = users(snapshot)
    (row,) = process_rows(snapshot)
    assert user.utilization_percent == row.process.sm_utilization_percent == 50
    assert user.gpu_memory_percent == row.gpu_memory_percent == 75


def test_processes_on_one_gpu_do_not_use_it_for_more_than_all_of_the_time() -> None:
    (user,) = counted(
        held("alice", 0, 10, 90, pid=1),
        held("alice", 0, 10, 90, pid=2),
        held("alice", 1, 10, 20, pid=3),
    )
    assert user.utilization_percent == 60
    assert user.gpu_memory_percent == 100 * 30 / 160


def test_a_gpu_whose_size_is_not_known_leaves_the_share_of_memory_open() -> None:
    devices = (make_device(), make_device(index=1, memory_total_bytes=None))
    processes = (held("alice", 0, 10, 5, pid=1), held("alice", 1, 10, 5, pid=2))
    (user,) = users(make_snapshot(devices=devices, processes=processes))
    assert user.gpu_memory_percent is None


def test_the_bar_of_memory_is_of_the_gpus_that_they_use_as_the_percentage_beside_it() -> None:
    (user,) = counted(held("alice", 0, 20, 50))
    assert COLUMNS["memory_percent"].text(user) == "25%"
    share = COLUMNS["memory"].share
    assert share(user) == 0.25


def test_memory_at_zero_percent_is_idle_for_as_long_as_the_longest() -> None:
    (user,) = counted(
        held("bob", 0, 10, 0, pid=1, cpu_percent=0.0, idle_seconds=30.0),
        held("bob", 1, 20, 0, pid=2, cpu_percent=0.0, idle_seconds=600.0),
        held("bob", 2, 40, 70, pid=3),
    )
    assert user.idle_memory_bytes == 30 * GIB
    assert user.idle_seconds == 600.0


def test_memory_of_who_works_on_its_cpu_is_not_idle() -> None:
    (user,) = counted(held("bob", 0, 10, 0, cpu_percent=100.0, idle_seconds=60.0))
    assert (user.idle_memory_bytes, user.idle_seconds) == (0, None)


def test_utilization_that_is_not_known_is_not_called_idle() -> None:
    (user,) = counted(held("bob", 0, 10, None))
    assert user.idle_memory_bytes is None
    assert user.idle_seconds is None
    assert COLUMNS["idle_memory"].text(user) == "-"


def test_memory_that_is_not_known_is_absent_and_not_zero() -> None:
    (user,) = counted(held("bob", 0, None, 5))
    assert user.memory_used_bytes is None
    assert COLUMNS["memory"].text(user) == "-"


def test_processes_of_unknown_owners_are_one_row_without_a_name() -> None:
    found = counted(held(None, 0, 1, 5, pid=1), held(None, 1, 1, 5, pid=2))
    assert [(user.name, user.process_count) for user in found] == [(None, 2)]
    assert COLUMNS["user"].text(found[0]) == "-"


def test_exited_processes_without_an_owner_are_a_row_of_their_own() -> None:
    gone = held(None, 1, 2, 0, pid=2, hidden_reason="exited")
    found = counted(held(None, 0, 1, 5, pid=1), gone, held("bob", 2, 3, 0, hidden_reason="exited"))
    assert [COLUMNS["user"].text(user) for user in found] == ["bob", "(exited)", "-"]
    assert parse(f"user={quoted('(exited)')}").matches(
        process_rows(make_snapshot(4, processes=(gone,)))[0]
    )


def test_two_processes_on_one_mig_instance_name_it_once() -> None:
    instance = make_device(index=1, uuid="MIG-a", parent_uuid=gpu_uuid(0))
    processes = tuple(
        make_process(pid=pid, devices=(share(index=0, uuid="MIG-a"),)) for pid in (1, 2)
    )
    snapshot = make_snapshot(devices=(make_device(), instance), processes=processes)
    (user,) = users(snapshot)
    assert user.gpus == "0:1"
    assert user.devices == 1


def test_jobs_are_named_once() -> None:
    job = Job(kind="slurm", id="77", step="0")
    (user,) = counted(held("a", 0, 1, 5, pid=1, job=job), held("a", 1, 1, 5, pid=2, job=job))
    assert user.job_labels == ("slurm:77.0",)


def test_all_users_are_the_sum_of_all() -> None:
    working = held("a", 0, 10, 5, pid=1)
    idle = held("b", 1, 30, 0, pid=2, cpu_percent=0.0, idle_seconds=5.0)
    total = all_users(judged(working, idle))
    assert total.process_count == 2
    assert total.memory_used_bytes == 40 * GIB
    assert total.idle_memory_bytes == 30 * GIB
    assert total.gpus == "0-1"


def test_unowned_memory_is_added_up_over_the_gpus_that_report_it() -> None:
    gpus = (make_device(memory_unaccounted_bytes=GIB), make_device(index=1))
    assert unowned_memory_bytes(make_snapshot(devices=gpus)) == GIB
    assert unowned_memory_bytes(make_snapshot(2)) is None


def test_columns_fit_eighty_cells_with_the_essential_ones() -> None:
    idle = held("bob", 1, 60, 0, pid=2, cpu_percent=0.0, idle_seconds=200.0)
    found = counted(held("alice", 0, 10, 50, pid=1), idle)
    keys = {place.column.key for place in fit(USER_COLUMNS, found, 78, bar=8)}
    assert {"user", "memory", "gpus", "processes", "idle_memory", "utilization"} <= keys


@pytest.mark.parametrize(("gpus", "text"), [(1, "1 GPU"), (2, "2 GPUs")])
def test_gpus_that_do_not_fit_are_counted(gpus: int, text: str) -> None:
    processes = [held("alice", gpu, 10, 50, pid=gpu + 1) for gpu in range(gpus)]
    (found,) = counted(*processes)
    assert COLUMNS["gpus"].short is not None
    assert COLUMNS["gpus"].short(found) == text


@given(snapshots())
def test_any_snapshot_adds_up(snapshot: Snapshot) -> None:
    found = users(snapshot)
    assert sum(user.process_count for user in found) == len(snapshot.processes)
    for column in USER_COLUMNS:
        assert all(column.text(user) for user in found)
