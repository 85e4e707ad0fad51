"""Findings from real processes on the stand-in library: in the table, in JSON, in the status."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpudash.model.snapshot import Snapshot
from gpudash.system.processes import in_first_pid_namespace
from tests.e2e.run import Result, each_of, gpudash, tell
from tests.e2e.stream import drain, streaming
from tests.holders import Holder

Holders = Callable[..., list[Holder]]

FINE = {"DEVICES": 2, "LOAD": "idle"}


def trap(fakenvml: Path, pid: int, *arguments: str) -> Result:
    """One process on eight GPUs, of which the first alone is busy."""
    settings = {"DEVICES": 8, "MODEL": "geforce", "PROCS_PER_DEVICE": 1, "PIDS": pid}
    return gpudash(*arguments, library=fakenvml, LOAD="first", **settings)


def test_trap_is_reported_with_owner_and_remedy_and_fails_a_check_for_warnings_alone(
    fakenvml: Path, holders: Holders
) -> None:
    (holder,) = holders(1)
    run = trap(fakenvml, holder.pid, "--once", "--json", "--fail-on", "warn")
    assert run.status == 1
    (finding,) = (f for f in run.snapshot.findings or () if f.rule == "holds-many-works-on-few")
    owner = run.snapshot.processes[0].username
    assert finding.sentence.startswith(f"{owner}'s sleep (PID {holder.pid}) holds ")
    assert finding.sentence.endswith(" on GPU 0-7 and works on GPU 0 alone")
    assert "CUDA_VISIBLE_DEVICES=0" in finding.advice
    assert (finding.pids, finding.indices) == ((holder.pid,), (1, 2, 3, 4, 5, 6, 7))
    run = trap(fakenvml, holder.pid, "--once", "--fail-on", "critical")
    assert run.status == 0
    text = " ".join(run.text.split())
    assert f"(PID {holder.pid}) holds " in text
    assert "on GPU 0-7 and works on GPU 0 alone" in text
    assert "XLA_PYTHON_CLIENT_PREALLOCATE=false" in text
    assert "8 GPUs: 1 busy, 7 held idle" in text


def test_fail_on_gives_one_unless_a_gpu_has_a_status_of_its_own(fakenvml: Path) -> None:
    expected: list[tuple[str, dict[str, object], int]] = [
        ("info", FINE, 0),
        ("warn", {"DEVICES": 8, "LOAD": "busy"}, 1),
        ("info", {"DEVICES": 8, "LOAD": "busy"}, 1),
        ("critical", {"DEVICES": 8, "LOAD": "idle", "LOST": "1"}, 15),
        ("warn", {"DEVICES": 0}, 6),
    ]
    found = each_of([(f"--once --fail-on {level}", told) for level, told, _ in expected], fakenvml)
    assert [status for status, _, _ in found] == [status for _, _, status in expected]


def test_xid_stands_until_the_gpu_came_back(fakenvml: Path, tmp_path: Path) -> None:
    control, device = tmp_path / "control", tmp_path / "nvidia1"
    device.touch()
    tell(control)
    with streaming(fakenvml, DEVICES=2, LOAD="idle", CONTROL=control, HOLD=device) as stream:
        process = psutil.Process(stream.process.pid)

        def let_go_and_take_back() -> Snapshot:
            process.send_signal(signal.SIGUSR1)
            drain(stream, device, process)
            process.send_signal(signal.SIGUSR1)
            return stream.next()

        stream.until(lambda snapshot: snapshot.devices[1].xid_events == ())
        tell(control, XID="1:79")
        stream.until(lambda snapshot: told_of(snapshot) == ["xid"])
        assert told_of(let_go_and_take_back()) == ["xid"]
        tell(control, LOST="1")
        stream.until(lambda snapshot: told_of(snapshot) == ["lost", "xid"])
        tell(control)
        back = let_go_and_take_back()
    assert told_of(back) == []
    assert [(each.code, each.before_reset) for each in back.devices[1].xid_events or ()] == [
        (79, True)
    ]


def told_of(snapshot: Snapshot) -> list[str]:
    """The rules that found something."""
    return [finding.rule for finding in snapshot.findings or ()]


def test_memory_of_a_process_that_has_exited_is_reported_with_what_frees_it(
    fakenvml: Path, holders: Holders
) -> None:
    if not in_first_pid_namespace():
        pytest.skip("these tests run in a PID namespace")
    (holder,) = holders(1)
    holder.end()
    settings = {"DEVICES": 1, "LOAD": "idle", "PROCS_PER_DEVICE": 1, "PIDS": holder.pid}
    run = gpudash("--once", "--json", library=fakenvml, **settings)
    (finding,) = (f for f in run.snapshot.findings or () if f.rule == "exited-holds")
    assert finding.sentence.startswith(f"process (PID {holder.pid}) has exited and still holds ")
    assert "--gpu-reset -i 0" in finding.advice
    text = gpudash("--once", library=fakenvml, **settings).text
    (row,) = (line for line in text.splitlines() if line.split()[:1] == [str(holder.pid)])
    assert row.split()[1] == "(exited)"
