from typing import Any

import pytest

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import statuses
from gpudash.model import state as states
from gpudash.model.process import Holder, Process
from gpudash.model.snapshot import Snapshot
from tests.analysis.health.examined import Watched, found, host, rules
from tests.factories import make_device, make_process, make_process_device

CHILD = Holder(pid=77, start_ticks=5, username="erin", command_line=("/srv/w.py",))


def machine(*processes: Process) -> Snapshot:
    """A host of one GPU that does nothing."""
    return host(devices=(make_device(gpu_utilization_percent=0),), processes=processes)


def exited(**overrides: Any) -> Process:
    """What is known of a process that is gone and that the driver still lists."""
    fields: dict[str, Any] = {
        "devices": (make_process_device(sm_utilization_percent=0),),
        "cpu_percent": None,
        "status": None,
        "command_line": None,
        "hidden_reason": "exited",
    }
    return make_process(**{**fields, **overrides})


def test_a_process_that_has_exited_and_still_holds_memory_is_a_finding() -> None:
    finding = found(machine(exited()), "exited-holds")
    assert finding.level == "warn"
    assert finding.sentence == (
        "alice's python (PID 4242) has exited and still holds 40.0 GiB on GPU 0"
    )
    assert "fuser -v" in finding.advice
    assert "--gpu-reset -i 0" in finding.advice
    assert (finding.pids, finding.indices) == ((4242,), (0,))


def test_nobody_is_asked_to_end_a_process_that_has_exited() -> None:
    watched = Watched()
    findings = watched.see(machine(exited()), 400)
    assert "held-idle" not in findings
    assert "gpudash kill" not in findings["exited-holds"].advice


def test_a_gpu_that_only_an_exited_process_holds_is_held_idle() -> None:
    snapshot = Diagnosis().examine(machine(exited()))
    assert list(statuses(snapshot).values()) == [states.HELD]


def test_an_exit_that_the_driver_takes_a_moment_to_see_is_no_finding() -> None:
    watched = Watched()
    watched.see(machine(make_process(devices=exited().devices, cpu_percent=0.5)), 60)
    assert "exited-holds" not in watched.see(machine(exited()), 10)
    assert "exited-holds" in watched.see(machine(exited()), 5)
    assert "exited-holds" not in watched.see(machine())


@pytest.mark.parametrize(
    "reason",
    ["belongs to another PID namespace", "hidden process of another user", "not shown by /proc"],
)
def test_a_process_that_is_hidden_is_not_said_to_have_exited(reason: str) -> None:
    assert "exited-holds" not in rules(machine(exited(hidden_reason=reason)))


def test_an_exited_process_that_holds_nothing_is_no_finding() -> None:
    share = make_process_device(used_gpu_memory_bytes=0)
    assert "exited-holds" not in rules(machine(exited(devices=(share,))))


@pytest.mark.parametrize(
    ("device", "holders", "advice"),
    [
        ({"holder_pids": (77,), "holder_count": 1}, (CHILD,), "kill 77"),
        ({"holder_pids": (77,), "holder_count": 3}, (CHILD,), "sudo fuser -v /dev/nvidia3"),
        ({"holder_pids": (), "holder_count": 0, "holders_complete": True}, (), "only a reset"),
        ({"holder_pids": (), "holder_count": 0, "holders_complete": False}, (), "sudo fuser -v"),
    ],
)
def test_what_frees_the_memory_of_an_exited_process_is_what_still_has_the_gpu_open(
    device: dict[str, Any], holders: tuple[Holder, ...], advice: str
) -> None:
    gpu = make_device(gpu_utilization_percent=0, minor_number=3, **device)
    snapshot = host(devices=(gpu,), processes=(exited(),), holders=holders)
    finding = found(snapshot, "exited-holds")
    assert advice in finding.advice
    assert [e.value for e in finding.evidence if e.name == "holder"] == [
        "erin's w.py (PID 77)" for _ in holders
    ]
