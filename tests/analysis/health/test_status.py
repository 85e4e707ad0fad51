from __future__ import annotations

from typing import Any

import pytest

from gpudash.analysis.columns import devices as columns
from gpudash.analysis.health.engine import Diagnosis, findings_by_device
from gpudash.analysis.health.status import status, status_level
from gpudash.analysis.table import device_rows
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent
from gpudash.model.snapshot import Snapshot
from tests.analysis.health.examined import later
from tests.factories import GIB, make_device, make_process, make_process_device, make_snapshot


def judged(device: Device, **overrides: Any) -> tuple[str, str]:
    snapshot = make_snapshot(devices=(device,), topology=None, **overrides)
    (row,) = device_rows(snapshot)
    return columns.status(row), columns.status_level(row)


@pytest.mark.parametrize(
    ("overrides", "word", "level"),
    [
        ({}, "ok", "ok"),
        ({"gpu_utilization_percent": 0, "memory_used_bytes": 0}, "idle", "ok"),
        ({"gpu_utilization_percent": 0}, "in use", "ok"),
        ({"clocks_event_reasons": ("sw-power-cap",)}, "power-cap", "ok"),
        (
            {"clocks_event_reasons": ("sw-power-cap",), "default_power_limit_mw": 800_000},
            "power-cap",
            "warn",
        ),
        ({"clocks_event_reasons": ("sw-thermal-slowdown", "sw-power-cap")}, "thermal", "warn"),
        ({"clocks_event_reasons": ("hw-slowdown",)}, "hw-slow", "critical"),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-thermal-slowdown")},
            "thermal",
            "critical",
        ),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-power-brake-slowdown")},
            "brake",
            "critical",
        ),
        ({"clocks_event_reasons": ("gpu-idle", "applications-clocks-setting")}, "ok", "ok"),
        ({"state": "asleep"}, "asleep", "unknown"),
        ({"state": "reset-required"}, "RESET", "critical"),
        ({"state": "failed"}, "FAILED", "critical"),
    ],
)
def test_status_says_why(overrides: dict[str, Any], word: str, level: str) -> None:
    assert judged(make_device(**overrides), processes=()) == (word, level)


def test_status_of_a_lost_gpu_is_never_idle() -> None:
    lost = Device(index=2, state="lost", gpu_utilization_percent=0)
    assert judged(lost, processes=()) == ("LOST", "critical")


def test_status_is_absent_where_nothing_is_known() -> None:
    device = Device(index=0)
    assert (status(device), status_level(device)) == ("-", "unknown")


def test_idle_gpu_that_a_process_keeps_is_held() -> None:
    process = make_process(devices=(make_process_device(sm_utilization_percent=0),))
    device = make_device(gpu_utilization_percent=0)
    assert judged(device, processes=(process,)) == ("held", "warn")


def test_remark_on_a_program_is_no_status() -> None:
    seen_at = make_snapshot().taken_at.timestamp() - 10
    remarked = make_device(xid_events=(XidEvent(code=45, seen_at=seen_at),))
    assert judged(remarked, processes=()) == ("ok", "ok")
    broken = make_device(xid_events=(XidEvent(code=48, seen_at=seen_at),))
    assert judged(broken, processes=()) == ("XID", "critical")


def test_busy_gpu_is_not_held_by_the_one_who_does_nothing_there() -> None:
    busy = make_process(pid=1)
    lazy = make_process(pid=2, devices=(make_process_device(sm_utilization_percent=0),))
    assert judged(make_device(), processes=(busy, lazy)) == ("ok", "ok")


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
    assert "held" not in words


def test_worker_that_stays_idle_for_half_a_minute_holds_its_gpu() -> None:
    diagnosis = Diagnosis()
    diagnosis.examine(at(0, 90))
    words = {}
    for second in range(1, 40):
        (row,) = device_rows(diagnosis.examine(at(second, 0)))
        words[second] = columns.status(row)
    assert words[20] == "in use"
    assert words[39] == "held"


def test_snapshot_that_nobody_judged_is_judged_by_itself() -> None:
    snapshot = make_snapshot(1, processes=(), topology=None)
    assert snapshot.findings is None
    assert findings_by_device(snapshot) == {}
    device = make_device(remapped_rows_failed=True, memory_used_bytes=40 * GIB)
    concerned = findings_by_device(make_snapshot(devices=(device,), processes=()))
    assert [finding.rule for finding in concerned[device.key]] == ["row-remap-failed"]
