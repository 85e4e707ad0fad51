from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from gpudash.analysis.health.changes import FindingChanges
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot
from tests.factories import gpu_uuid, make_device, make_host, make_snapshot

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def finding(rule: str = "hot", level: FindingLevel = "warn", **fields: Any) -> Finding:
    return Finding(rule=rule, level=level, sentence="s", **{"uuids": (gpu_uuid(0),), **fields})


def at(seconds: float, *findings: Finding, **overrides: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "findings": findings,
        "taken_at": START + timedelta(seconds=seconds),
        "host": make_host(uptime_seconds=1000.0 + seconds),
    }
    return make_snapshot(1, **{**fields, **overrides})


def events(changes: FindingChanges, snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(each.event, each.finding.rule) for each in changes.update(snapshot)]


def test_a_finding_appears_once_and_goes_once() -> None:
    changes = FindingChanges("warn", gone_seconds=30)
    assert events(changes, at(0)) == []
    assert events(changes, at(1, finding())) == [("appeared", "hot")]
    assert events(changes, at(2, finding(held_seconds=1.0))) == []
    assert events(changes, at(31)) == []
    assert events(changes, at(33)) == [("gone", "hot")]
    assert events(changes, at(34)) == []
    assert events(changes, at(35, finding())) == [("appeared", "hot")]


def test_one_that_flaps_appears_once() -> None:
    changes = FindingChanges("warn", gone_seconds=30)
    found = [
        events(changes, at(second, *[finding()] * (second % 20 < 2))) for second in range(0, 200, 2)
    ]
    assert [each for each in found if each] == [[("appeared", "hot")]]


def test_only_findings_of_the_level_count_and_worse_ones_again() -> None:
    changes = FindingChanges("warn")
    assert events(changes, at(0, finding(level="info"))) == []
    assert events(changes, at(1, finding(level="warn"))) == [("appeared", "hot")]
    assert events(changes, at(2, finding(level="critical"))) == [("appeared", "hot")]
    assert events(changes, at(3, finding(level="warn"))) == []
    assert events(changes, at(4, finding(level="critical"))) == []


def test_findings_of_different_gpus_and_processes_are_different() -> None:
    changes = FindingChanges("info")
    several = (finding(), finding(uuids=("GPU-2",)), finding("idle", pids=(1,)))
    assert len(events(changes, at(0, *several))) == 3
    assert events(changes, at(1, *several, finding("idle", pids=(2,)))) == [("appeared", "idle")]


@pytest.mark.parametrize(
    "overrides",
    [
        {"brief": True},
        {"findings": None},
        {"devices": (), "errors": (Fault(source="nvml", message="m", code=999),)},
    ],
    ids=["brief", "not examined", "no list of GPUs"],
)
def test_what_is_partial_triggers_nothing(overrides: dict[str, Any]) -> None:
    changes = FindingChanges("info", gone_seconds=5)
    assert events(changes, at(0, finding(), **overrides)) == []
    assert events(changes, at(1, finding())) == [("appeared", "hot")]
    assert events(changes, at(100, **overrides)) == []
    assert events(changes, at(101, finding())) == []


def test_nothing_has_gone_from_a_gpu_that_does_not_answer() -> None:
    changes = FindingChanges("info", gone_seconds=5)
    events(changes, at(0, finding()))
    silent = (make_device(state="not-answering"),)
    assert events(changes, at(100, devices=silent)) == []
    assert events(changes, at(101)) == [("gone", "hot")]


def test_a_reboot_does_not_keep_a_finding_for_ever() -> None:
    changes = FindingChanges("info", gone_seconds=5)
    events(changes, at(0, finding()))
    assert events(changes, at(10, host=make_host(uptime_seconds=3.0))) == []
    assert events(changes, at(16, host=make_host(uptime_seconds=9.0))) == [("gone", "hot")]
