from __future__ import annotations

from typing import Any

from hypothesis import given

from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.table import fit
from gpudash.analysis.usage import User, everyone, unowned_memory_bytes, users
from gpudash.model.process import Job, Process
from gpudash.model.snapshot import Snapshot
from tests.factories import GIB, gpu_uuid, make_device, make_process, make_snapshot
from tests.factories import make_process_device as share
from tests.strategies import snapshots

COLUMNS = {column.key: column for column in USER_COLUMNS}


def held(owner: str | None, gpu: int, gib: int | None, sm: int | None, **more: Any) -> Process:
    device = share(
        index=gpu,
        uuid=gpu_uuid(gpu),
        used_gpu_memory_bytes=None if gib is None else gib * GIB,
        sm_utilization_percent=sm,
    )
    return make_process(username=owner, devices=(device,), **more)


def counted(*processes: Process, idle: float | None = None) -> tuple[User, ...]:
    return users(make_snapshot(4, processes=processes), lambda _process: idle)


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
    assert found[1].gpu_memory_bytes == 30 * GIB
    assert found[1].sm_percent == 80


def test_share_is_of_the_memory_of_all_gpus() -> None:
    (user,) = counted(held("alice", 0, 80, 50))
    assert user.gpu_memory_share == 0.25


def test_memory_at_zero_percent_is_idle_for_as_long_as_the_longest() -> None:
    spans = {1: 30.0, 2: 600.0, 3: 9999.0}
    processes = (
        held("bob", 0, 10, 0, pid=1),
        held("bob", 1, 20, 0, pid=2),
        held("bob", 2, 40, 70, pid=3),
    )
    snapshot = make_snapshot(4, processes=processes)
    (user,) = users(snapshot, lambda process: spans[process.pid])
    assert user.idle_memory_bytes == 30 * GIB
    assert user.idle_seconds == 600.0


def test_utilization_that_is_not_known_is_not_called_idle() -> None:
    (user,) = counted(held("bob", 0, 10, None), idle=60.0)
    assert user.idle_memory_bytes is None
    assert user.idle_seconds is None
    assert COLUMNS["idle_memory"].text(user) == "-"


def test_memory_that_is_not_known_is_absent_and_not_zero() -> None:
    (user,) = counted(held("bob", 0, None, 5))
    assert user.gpu_memory_bytes is None
    assert user.gpu_memory_share is None
    assert COLUMNS["memory"].text(user) == "-"


def test_processes_of_unknown_owners_are_one_row_without_a_name() -> None:
    found = counted(held(None, 0, 1, 5, pid=1), held(None, 1, 1, 5, pid=2))
    assert [(user.name, user.process_count) for user in found] == [(None, 2)]
    assert COLUMNS["user"].text(found[0]) == "-"


def test_two_processes_on_one_mig_instance_name_it_once() -> None:
    instance = make_device(index=1, uuid="MIG-a", parent_uuid=gpu_uuid(0))
    processes = tuple(
        make_process(pid=pid, devices=(share(index=0, uuid="MIG-a"),)) for pid in (1, 2)
    )
    snapshot = make_snapshot(devices=(make_device(), instance), processes=processes)
    (user,) = users(snapshot, lambda _process: None)
    assert user.gpus == "0:1"
    assert user.gpu_count == 1


def test_jobs_are_named_once() -> None:
    job = Job(kind="slurm", id="77", step="0")
    (user,) = counted(held("a", 0, 1, 5, pid=1, job=job), held("a", 1, 1, 5, pid=2, job=job))
    assert user.jobs == ("slurm:77.0",)


def test_everyone_is_the_sum_of_all() -> None:
    snapshot = make_snapshot(4, processes=(held("a", 0, 10, 5, pid=1), held("b", 1, 30, 0, pid=2)))
    total = everyone(snapshot, lambda _process: 5.0)
    assert total.process_count == 2
    assert total.gpu_memory_bytes == 40 * GIB
    assert total.idle_memory_bytes == 30 * GIB
    assert total.gpus == "0-1"


def test_memory_that_nobody_owns_is_added_up_over_the_gpus_that_tell() -> None:
    gpus = (make_device(memory_unaccounted_bytes=GIB), make_device(index=1))
    assert unowned_memory_bytes(make_snapshot(devices=gpus)) == GIB
    assert unowned_memory_bytes(make_snapshot(2)) is None


def test_columns_fit_eighty_cells_with_the_essential_ones() -> None:
    found = counted(held("alice", 0, 10, 50, pid=1), held("bob", 1, 60, 0, pid=2), idle=200.0)
    keys = {place.column.key for place in fit(USER_COLUMNS, found, 78, bar=8)}
    assert {"user", "memory", "gpus", "processes", "idle_memory", "sm"} <= keys


@given(snapshots())
def test_any_snapshot_adds_up(snapshot: Snapshot) -> None:
    found = users(snapshot, lambda _process: None)
    assert sum(user.process_count for user in found) == len(snapshot.processes)
    for column in USER_COLUMNS:
        assert all(column.text(user) for user in found)
