from typing import Any

import pytest

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings_by_device, statuses
from gpudash.analysis.status import status_level
from gpudash.analysis.table import device_rows
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.process import Lease
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot
from gpudash.model.state import State
from tests.analysis.health.examined import later
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)

UNUSED = {"sm_utilization_percent": 0}
IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}
HOT = {"temperature_celsius": 95, "slowdown_temperature_celsius": 90}


def found_states(snapshot: Snapshot) -> list[State]:
    return list(statuses(snapshot).values())


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


def test_process_on_an_instance_holds_that_alone() -> None:
    parent = make_device(gpu_utilization_percent=0)
    instances = tuple(
        make_device(index=i, uuid=f"MIG-{i}", parent_uuid=parent.uuid, **IDLE) for i in range(2)
    )
    process = make_process(devices=(make_process_device(uuid="MIG-1", **UNUSED),))
    snapshot = make_snapshot(devices=(parent, *instances), processes=(process,))
    assert found_states(snapshot) == [states.DIVIDED, states.FREE, states.HELD]


def test_use_that_is_only_the_start_of_an_unused_gpu_is_none() -> None:
    starting = {"gpu_utilization_percent": 100, "sm_active_percent": None}
    device = make_device(**{**IDLE, **starting, "persistence_mode": False})
    assert found_states(make_snapshot(devices=(device,), processes=())) == [states.FREE]
    share = make_process_device(sm_utilization_percent=None)
    used = make_snapshot(devices=(device,), processes=(make_process(devices=(share,)),))
    assert found_states(used) == [states.BUSY]
    fault = Fault(source="processes", message="no permission")
    unsure = make_snapshot(devices=(device,), processes=(), errors=(fault,))
    assert found_states(unsure) == [states.BUSY]


def test_a_gpu_whose_processes_cannot_be_listed_is_not_free() -> None:
    fault = Fault(source="processes", message="no permission", uuid=gpu_uuid(0))
    devices = (make_device(**IDLE), make_device(index=1, **IDLE))
    snapshot = make_snapshot(devices=devices, processes=(), errors=(fault,))
    assert found_states(snapshot) == [states.IN_USE, states.FREE]


@pytest.mark.parametrize("used", [True, False])
def test_an_instance_is_used_by_its_processes(used: bool) -> None:
    untold = {"gpu_utilization_percent": None, "memory_used_bytes": 0}
    parent = make_device(mig_mode=True, **untold)
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0), **untold)
    share = make_process_device(uuid="MIG-1", used_gpu_memory_bytes=300 << 20)
    processes = (make_process(devices=(share,)),) if used else ()
    snapshot = make_snapshot(devices=(parent, instance), processes=processes)
    assert found_states(snapshot) == [states.DIVIDED, states.IN_USE if used else states.FREE]


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
    return row.state.word, row.level


@pytest.mark.parametrize(
    ("overrides", "word", "level"),
    [
        ({}, "busy", "ok"),
        ({"gpu_utilization_percent": 0, "memory_used_bytes": 0}, "free", "ok"),
        ({"gpu_utilization_percent": 0}, "in use", "ok"),
        ({"clocks_event_reasons": ("sw-power-cap",)}, "busy", "ok"),
        (
            {"clocks_event_reasons": ("sw-power-cap",), "default_power_limit_mw": 800_000},
            "busy",
            "warn",
        ),
        ({"clocks_event_reasons": ("sw-thermal-slowdown", "sw-power-cap")}, "hot", "warn"),
        ({"clocks_event_reasons": ("hw-slowdown",)}, "busy", "critical"),
        ({"clocks_event_reasons": ("hw-slowdown", "hw-thermal-slowdown")}, "hot", "critical"),
        ({"clocks_event_reasons": ("hw-slowdown", "hw-power-brake-slowdown")}, "busy", "critical"),
        ({"clocks_event_reasons": ("gpu-idle", "applications-clocks-setting")}, "busy", "ok"),
        ({"state": "asleep"}, "asleep", "unknown"),
        (HOT, "hot", "warn"),
        ({**IDLE, "recovery_action": "gpu-reset"}, "unusable", "critical"),
        ({"state": "reset-required"}, "RESET", "critical"),
        ({"state": "failed"}, "FAILED", "critical"),
    ],
)
def test_status_says_why(overrides: dict[str, Any], word: str, level: str) -> None:
    assert status_of(make_device(**overrides), processes=()) == (word, level)


@pytest.mark.parametrize(("level", "shown"), [("info", "ok"), ("warn", "warn")])
def test_held_idle_is_as_bad_as_the_finding_says(level: FindingLevel, shown: str) -> None:
    told = Finding(rule="held-idle", level=level, sentence="it is held", pids=(309,))
    assert status_level(states.HELD, [told]) == shown
    assert status_level(states.HELD, []) == "warn"


def test_remark_on_a_program_is_no_status() -> None:
    seen_at = make_snapshot().taken_at.timestamp() - 10
    remarked = make_device(xid_events=(XidEvent(code=45, seen_at=seen_at),))
    assert status_of(remarked, processes=()) == ("busy", "ok")
    broken = make_device(xid_events=(XidEvent(code=48, seen_at=seen_at),))
    assert status_of(broken, processes=()) == ("unusable", "critical")


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


def test_worker_that_rests_for_longer_than_a_pause_holds_its_gpu() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(at(0, 90))
    words = {}
    for second in range(1, 310):
        (row,) = device_rows(diagnosis.examine(at(second, 0)))
        words[second] = row.state.word
    assert words[290] == "in use"
    assert words[309] == "held idle"


def test_snapshot_without_findings_is_examined_by_itself() -> None:
    snapshot = make_snapshot(1, processes=(), topology=None)
    assert snapshot.findings is None
    assert findings_by_device(snapshot) == {}
    device = make_device(remapped_rows_failed=True, memory_used_bytes=40 * GIB)
    concerned = findings_by_device(make_snapshot(devices=(device,), processes=()))
    assert [finding.rule for finding in concerned[device.key]] == ["row-remap-failed"]


def test_a_gpu_in_mig_mode_without_instances_is_not_free() -> None:
    parent = make_device(index=0, mig_mode=True, **{**IDLE, "gpu_utilization_percent": None})
    assert statuses(make_snapshot(0, devices=(parent,)))[parent.key] is states.NO_INSTANCES
    instance = make_device(index=0, uuid="MIG-1", parent_uuid=parent.uuid, **IDLE)
    divided = make_snapshot(0, devices=(parent, instance))
    assert statuses(divided)[parent.key] is states.DIVIDED
