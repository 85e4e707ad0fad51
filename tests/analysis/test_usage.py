"""The states of GPUs, the status column, the header's counts, empty lists, and users."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from gpudash.analysis.columns import devices as columns
from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings_by_device
from gpudash.analysis.table import device_rows, fit
from gpudash.analysis.usage import (
    User,
    all_users,
    device_states,
    is_unlisted,
    no_processes_text,
    shorter_summaries,
    summary,
    tally,
    totals,
    unowned_memory_bytes,
    users,
)
from gpudash.model import state as states
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.process import Job, Lease, Process
from gpudash.model.snapshot import EMPTY, Snapshot
from gpudash.model.state import State
from gpudash.model.text import clean
from tests.analysis.health.examined import later
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

UNUSED = {"sm_utilization_percent": 0}
IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}
HOT = {"temperature_celsius": 95, "slowdown_temperature_celsius": 90}


def found_states(snapshot: Snapshot) -> list[State]:
    return list(device_states(snapshot).values())


@pytest.mark.parametrize(
    ("device", "overrides", "state"),
    [
        ({}, {}, states.BUSY),
        (IDLE, {"used_gpu_memory_bytes": 300 << 20, **UNUSED}, states.HELD),
        ({**IDLE, "memory_used_bytes": GIB}, {}, states.IN_USE),
        (IDLE, {"type": "G", "used_gpu_memory_bytes": 4 << 20}, states.FREE),
        (
            {"gpu_utilization_percent": 0},
            {"type": "G", "used_gpu_memory_bytes": 2 * GIB},
            states.IN_USE,
        ),
        ({"gpu_utilization_percent": None}, {}, states.IN_USE),
        ({"state": "asleep", "gpu_utilization_percent": None}, {}, states.ASLEEP),
        ({"state": "lost", **IDLE}, {}, states.LOST),
        ({"clocks_event_reasons": ("sw-thermal-slowdown",)}, {}, states.HOT),
    ],
)
def test_holding_is_distinguished_from_working(
    device: dict[str, Any], overrides: dict[str, Any], state: State
) -> None:
    process = make_process(devices=(make_process_device(**overrides),))
    snapshot = make_snapshot(devices=(make_device(**device),), processes=(process,))
    assert found_states(snapshot) == [state]


def test_memory_of_no_listed_process_keeps_a_gpu_from_being_free() -> None:
    devices = (make_device(gpu_utilization_percent=0), make_device(index=1, **IDLE))
    snapshot = make_snapshot(devices=devices, processes=())
    assert found_states(snapshot) == [states.IN_USE, states.FREE]


def test_process_on_an_instance_holds_it_and_its_parent() -> None:
    parent = make_device(gpu_utilization_percent=0)
    instances = tuple(
        make_device(index=i, uuid=f"MIG-{i}", parent_uuid=parent.uuid, **IDLE) for i in range(2)
    )
    process = make_process(devices=(make_process_device(uuid="MIG-1", **UNUSED),))
    snapshot = make_snapshot(devices=(parent, *instances), processes=(process,))
    assert found_states(snapshot) == [states.HELD, states.FREE, states.HELD]


def test_a_gpu_whose_processes_cannot_be_listed_is_not_free() -> None:
    fault = Fault(source="processes", message="no permission", uuid=gpu_uuid(0))
    devices = (make_device(**IDLE), make_device(index=1, **IDLE))
    snapshot = make_snapshot(devices=devices, processes=(), errors=(fault,))
    assert found_states(snapshot) == [states.IN_USE, states.FREE]


@pytest.mark.parametrize("used", [True, False])
def test_who_uses_an_instance_uses_its_gpu(used: bool) -> None:
    untold = {"gpu_utilization_percent": None, "memory_used_bytes": 0}
    parent = make_device(mig_mode=True, **untold)
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0), **untold)
    share = make_process_device(uuid="MIG-1", used_gpu_memory_bytes=300 << 20)
    processes = (make_process(devices=(share,)),) if used else ()
    snapshot = make_snapshot(devices=(parent, instance), processes=processes)
    assert set(found_states(snapshot)) == {states.IN_USE if used else states.FREE}


def test_a_utilization_that_is_not_known_is_not_idle() -> None:
    unknown = make_device(gpu_utilization_percent=None, memory_used_bytes=0)
    nothing = Device(index=1)
    snapshot = make_snapshot(devices=(unknown, nothing), processes=())
    assert found_states(snapshot) == [states.UNKNOWN, states.UNKNOWN]


@pytest.mark.parametrize(("device", "state"), [(IDLE, states.LEASED), ({}, states.BUSY)])
def test_a_leased_gpu_is_not_free(device: dict[str, Any], state: State) -> None:
    lease = Lease(uuid=gpu_uuid(0), index=0, pid=77)
    snapshot = make_snapshot(devices=(make_device(**device),), processes=(), leases=(lease,))
    assert found_states(snapshot) == [state]


def status_of(device: Device, **overrides: Any) -> tuple[str, str]:
    snapshot = make_snapshot(devices=(device,), topology=None, **overrides)
    (row,) = device_rows(snapshot)
    return columns.status(row), columns.status_level(row)


@pytest.mark.parametrize(
    ("overrides", "word", "level"),
    [
        ({}, "busy", "ok"),
        ({"gpu_utilization_percent": 0, "memory_used_bytes": 0}, "free", "ok"),
        ({"gpu_utilization_percent": 0}, "in use", "ok"),
        ({"clocks_event_reasons": ("sw-power-cap",)}, "power-cap", "ok"),
        (
            {"clocks_event_reasons": ("sw-power-cap",), "default_power_limit_mw": 800_000},
            "power-cap",
            "warn",
        ),
        ({"clocks_event_reasons": ("sw-thermal-slowdown", "sw-power-cap")}, "hot", "warn"),
        ({"clocks_event_reasons": ("hw-slowdown",)}, "hw-slow", "critical"),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-thermal-slowdown")},
            "hot",
            "critical",
        ),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-power-brake-slowdown")},
            "brake",
            "critical",
        ),
        ({"clocks_event_reasons": ("gpu-idle", "applications-clocks-setting")}, "busy", "ok"),
        ({"state": "asleep"}, "asleep", "unknown"),
        (HOT, "hot", "warn"),
        ({**IDLE, "recovery_action": "gpu-reset"}, "recovery", "critical"),
        ({"state": "reset-required"}, "RESET", "critical"),
        ({"state": "failed"}, "FAILED", "critical"),
    ],
)
def test_status_says_why(overrides: dict[str, Any], word: str, level: str) -> None:
    assert status_of(make_device(**overrides), processes=()) == (word, level)


def test_status_of_a_lost_gpu_is_never_idle() -> None:
    lost = Device(index=2, state="lost", gpu_utilization_percent=0)
    assert status_of(lost, processes=()) == ("LOST", "critical")


def test_idle_gpu_that_a_process_keeps_is_held() -> None:
    process = make_process(devices=(make_process_device(sm_utilization_percent=0),))
    device = make_device(gpu_utilization_percent=0)
    assert status_of(device, processes=(process,)) == ("held idle", "warn")


def test_remark_on_a_program_is_no_status() -> None:
    seen_at = make_snapshot().taken_at.timestamp() - 10
    remarked = make_device(xid_events=(XidEvent(code=45, seen_at=seen_at),))
    assert status_of(remarked, processes=()) == ("busy", "ok")
    broken = make_device(xid_events=(XidEvent(code=48, seen_at=seen_at),))
    assert status_of(broken, processes=()) == ("XID", "critical")


def test_busy_gpu_is_not_held_by_the_one_who_does_nothing_there() -> None:
    busy = make_process(pid=1)
    lazy = make_process(pid=2, devices=(make_process_device(sm_utilization_percent=0),))
    assert status_of(make_device(), processes=(busy, lazy)) == ("busy", "ok")


def at(seconds: float, utilization: int) -> Snapshot:
    share = make_process_device(sm_utilization_percent=utilization)
    before = make_snapshot(
        devices=(make_device(gpu_utilization_percent=utilization),),
        processes=(make_process(devices=(share,)),),
        topology=None,
    )
    return later(before, seconds)


def test_one_idle_sample_of_a_working_gpu_does_not_make_it_held() -> None:
    diagnosis, words = Diagnosis(), []
    for second, utilization in enumerate((90, 90, 0, 90, 0, 0, 90)):
        (row,) = device_rows(diagnosis.examine(at(second, utilization)))
        words.append(columns.status(row))
    assert "held idle" not in words


def test_worker_that_stays_idle_for_half_a_minute_holds_its_gpu() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(at(0, 90))
    words = {}
    for second in range(1, 40):
        (row,) = device_rows(diagnosis.examine(at(second, 0)))
        words[second] = columns.status(row)
    assert words[20] == "in use"
    assert words[39] == "held idle"


def test_snapshot_without_findings_is_examined_by_itself() -> None:
    snapshot = make_snapshot(1, processes=(), topology=None)
    assert snapshot.findings is None
    assert findings_by_device(snapshot) == {}
    device = make_device(remapped_rows_failed=True, memory_used_bytes=40 * GIB)
    concerned = findings_by_device(make_snapshot(devices=(device,), processes=()))
    assert [finding.rule for finding in concerned[device.key]] == ["row-remap-failed"]


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


def test_summary_of_one_gpu_is_singular() -> None:
    assert summary(tally(make_snapshot(1))) == "1 GPU: 1 busy"


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


def test_summary_does_not_count_mig_instances() -> None:
    parent = make_device()
    instance = make_device(uuid="MIG-a", parent_uuid=parent.uuid)
    assert summary(tally(make_snapshot(devices=(parent, instance)))) == "1 GPU: 1 busy"


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
        "4 GPUs: 1 hot, 1 held idle, 1 free~",
        "4 GPUs: 1 hot, 1 free~",
        "4 GPUs: 1 free~",
    ]


def test_the_last_state_is_never_left_out() -> None:
    assert shorter_summaries(tally(make_snapshot(2)), "~") == ["2 GPUs: 2 busy"]


@given(snapshots())
def test_header_and_column_use_the_same_words(snapshot: Snapshot) -> None:
    counted = {state.word for _, state in tally(snapshot)[1]}
    gpus = [row for row in device_rows(snapshot) if not row.device.is_mig]
    shown = {columns.status(row) for row in gpus if not row.findings}
    assert shown <= counted


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


def test_memory_of_who_works_on_its_cpu_is_not_idle() -> None:
    (user,) = counted(held("bob", 0, 10, 0, cpu_percent=100.0), idle=60.0)
    assert (user.idle_memory_bytes, user.idle_seconds) == (0, None)


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


def test_all_users_are_the_sum_of_all() -> None:
    snapshot = make_snapshot(4, processes=(held("a", 0, 10, 5, pid=1), held("b", 1, 30, 0, pid=2)))
    total = all_users(snapshot, lambda _process: 5.0)
    assert total.process_count == 2
    assert total.gpu_memory_bytes == 40 * GIB
    assert total.idle_memory_bytes == 30 * GIB
    assert total.gpus == "0-1"


def test_unowned_memory_is_added_up_over_the_gpus_that_report_it() -> None:
    gpus = (make_device(memory_unaccounted_bytes=GIB), make_device(index=1))
    assert unowned_memory_bytes(make_snapshot(devices=gpus)) == GIB
    assert unowned_memory_bytes(make_snapshot(2)) is None


def test_columns_fit_eighty_cells_with_the_essential_ones() -> None:
    found = counted(held("alice", 0, 10, 50, pid=1), held("bob", 1, 60, 0, pid=2), idle=200.0)
    keys = {place.column.key for place in fit(USER_COLUMNS, found, 78, bar=8)}
    assert {"user", "memory", "gpus", "processes", "idle_memory", "sm"} <= keys


@pytest.mark.parametrize(("gpus", "text"), [(1, "1 GPU"), (2, "2 GPUs")])
def test_gpus_that_do_not_fit_are_counted(gpus: int, text: str) -> None:
    processes = [held("alice", gpu, 10, 50, pid=gpu + 1) for gpu in range(gpus)]
    (found,) = counted(*processes)
    assert COLUMNS["gpus"].short is not None
    assert COLUMNS["gpus"].short(found) == text


@given(snapshots())
def test_any_snapshot_adds_up(snapshot: Snapshot) -> None:
    found = users(snapshot, lambda _process: None)
    assert sum(user.process_count for user in found) == len(snapshot.processes)
    for column in USER_COLUMNS:
        assert all(column.text(user) for user in found)


def test_a_gpu_in_mig_mode_without_instances_is_not_free() -> None:
    parent = make_device(index=0, mig_mode=True, **{**IDLE, "gpu_utilization_percent": None})
    assert device_states(make_snapshot(0, devices=(parent,)))[parent.key] is states.NO_INSTANCES
    instance = make_device(index=0, uuid="MIG-1", parent_uuid=parent.uuid, **IDLE)
    divided = make_snapshot(0, devices=(parent, instance))
    assert device_states(divided)[parent.key] is states.FREE
