import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from gpudash.analysis.inspection import Inspection, IoRates, cpu_percents, inspect, io_rates
from gpudash.model.process import Process
from gpudash.system.process_tree import Relative
from gpudash.system.processes import Usage
from tests import waiting
from tests.actions.kill.family import Family
from tests.actions.kill.shown import HERE, shown
from tests.factories import make_host, make_process, make_snapshot
from tests.holders import Holders

SNAPSHOT = make_snapshot(4, host=HERE)
ENVIRONMENT = {
    "HF_TOKEN": "hunter2",
    "DATABASE": "postgres://u:hunter2@h/db",
    "CUDA_VISIBLE_DEVICES": "GPU-00000002,0",
    "HOSTILE": "\x1b[2J\u202e\n",
    "EMPTY_PASSWORD": "",
}
JOB = "import time; keep = open('/dev/null'); time.sleep(600)"


def opened(pid: int) -> list[str]:
    """What stands behind the descriptors from 3 on."""
    folder = f"/proc/{pid}/fd"
    try:
        return [os.readlink(f"{folder}/{name}") for name in os.listdir(folder) if int(name) > 2]
    except FileNotFoundError:  # closed meanwhile
        return []


@pytest.fixture
def job() -> Iterator[int]:
    with subprocess.Popen((sys.executable, "-c", JOB), env=ENVIRONMENT, cwd="/usr") as child:
        waiting.until(lambda: opened(child.pid) == ["/dev/null"])
        yield child.pid
        child.kill()


def look(process: Process) -> Inspection:
    return inspect(process, SNAPSHOT)


def test_what_a_process_uses_is_read(job: int) -> None:
    seen = look(shown(job))
    assert seen.reason is None
    assert seen.usage.working_directory == "/usr"
    assert seen.usage.thread_count == 1
    assert (seen.usage.open_file_count or 0) >= 1
    assert {variable.name for variable in seen.environment or ()} >= ENVIRONMENT.keys()
    assert [relative.process.pid for relative in seen.ancestors][-1] == os.getpid()
    assert isinstance(seen.usage.read_bytes, int)
    assert isinstance(seen.usage.written_bytes, int)


def test_secrets_are_flagged_and_values_are_harmless(job: int) -> None:
    environment = look(shown(job)).environment or ()
    flagged = {variable.name for variable in environment if variable.is_secret}
    assert flagged == {"HF_TOKEN", "DATABASE"}
    values = {variable.name: variable.value for variable in environment}
    assert values["HF_TOKEN"] == "hunter2"
    assert values["HOSTILE"] == r"\x1b[2J\u202e\n"


def test_visible_devices_are_those_of_the_snapshot(job: int) -> None:
    visible = look(shown(job)).visible
    assert [device.index for device in visible.devices] == [2, 0]
    assert not visible.is_guess


def test_descendants_are_below_it() -> None:
    with Family(("sh", "-c", "sleep 600 & setsid sleep 600 & wait")) as family:
        family.started(3, sleepers=2)
        seen = look(shown(family.pid))
        pids = {relative.process.pid for relative in seen.descendants}
        assert pids == family.alive() - {family.pid}


def test_what_may_not_be_read_is_none_with_one_reason(
    job: int, as_nobody: Callable[[], None]
) -> None:
    process = shown(job, username="alice")
    as_nobody()
    seen = look(process)
    assert seen.reason == "not permitted: owned by alice; try sudo gpudash"
    assert seen.environment is None
    assert seen.visible is None
    assert seen.usage.working_directory is None
    assert seen.usage.open_file_count is None
    assert seen.usage.read_bytes is None
    assert seen.usage.thread_count == 1
    assert seen.ancestors


@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), psutil.AccessDenied(), ValueError()])
def test_a_field_that_is_refused_costs_that_field(
    job: int, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(process: psutil.Process) -> int:
        raise error

    monkeypatch.setattr(psutil.Process, "num_fds", refuse)
    seen = look(shown(job))
    assert seen.reason is None
    assert seen.usage.open_file_count is None
    assert seen.usage.thread_count == 1
    assert seen.environment


def test_a_simulated_or_other_host_cannot_be_read(job: int) -> None:
    for host, reason in (
        (make_host(simulated=True), "the host is simulated"),
        (make_host(hostname="node7.elsewhere"), "runs on node7.elsewhere"),
    ):
        seen = inspect(shown(job), make_snapshot(4, host=host))
        assert reason in (seen.reason or "")
        assert seen.environment is None
        assert seen.usage.thread_count is None


def test_a_reused_or_free_pid_tells_nothing(holders: Holders) -> None:
    (holder,) = holders(1)
    assert "another process" in (look(shown(holder.pid, start_ticks=1)).reason or "")
    process = shown(holder.pid)
    assert not look(process).exited
    holder.end()
    assert look(process).reason == "exited"
    assert look(process).exited
    hidden = shown(os.getpid(), hidden_reason="belongs to another PID namespace")
    assert look(hidden).reason == "belongs to another PID namespace"


def test_a_zombie_has_exited() -> None:
    with subprocess.Popen(("sleep", "600")) as child:
        process = shown(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert look(process).exited


def test_a_huge_environment_is_bounded() -> None:
    huge = {f"V{n}": "x" * 1000 for n in range(500)}
    with subprocess.Popen(("/bin/sleep", "600"), env=huge) as child:
        waiting.until(lambda: psutil.Process(child.pid).environ())
        environment = look(shown(child.pid)).environment
        child.kill()
    assert environment is not None
    assert 200 < len(environment) < 300


def test_rates_are_taken_between_two_looks() -> None:
    before = Inspection(pid=1, taken_at=10.0, usage=Usage(read_bytes=1000))
    after = Inspection(pid=1, taken_at=12.0, usage=Usage(read_bytes=5000, written_bytes=7))
    assert io_rates(before, after) == IoRates(read=2000.0)
    assert io_rates(after, after) == IoRates()


def test_cpu_of_relatives_is_taken_between_two_looks() -> None:
    parent, child = (make_process(pid=pid, start_ticks=pid) for pid in (1, 2))
    reused = make_process(pid=2, start_ticks=9)
    before = Inspection(
        pid=3,
        taken_at=10.0,
        ancestors=(Relative(parent, -1, 1, 5.0),),
        descendants=(Relative(child, 1, 1, 5.0),),
    )
    after = Inspection(
        pid=3,
        taken_at=12.0,
        ancestors=(Relative(parent, -1, 1, 6.0),),
        descendants=(Relative(reused, 1, 1, 0.5),),
    )
    assert cpu_percents(before, after) == {parent.key: 50.0}
    assert cpu_percents(after, after) == {}
