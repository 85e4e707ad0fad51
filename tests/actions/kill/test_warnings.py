import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from gpudash.actions.kill.pin import Target
from gpudash.actions.kill.warnings import dangers_below, warnings
from gpudash.model.process import Job
from gpudash.system import processes
from gpudash.system import processes as proc_stat
from tests import waiting
from tests.actions.kill.shown import pinned, shown
from tests.factories import make_process_device
from tests.holders import Holder, Holders

GpuHolders = Callable[..., Holder]
NOBODY = 65534


@pytest.fixture
def plain(holders: Holders) -> Holder:
    return holders(1)[0]


def warned(pid: int, **overrides: object) -> str:
    with pinned(pid, **overrides) as target:
        return "\n".join(warning.text for warning in warnings(target))


def until(pid: int, condition: Callable[[proc_stat.ProcStat], bool]) -> None:
    waiting.until(lambda: (stat := proc_stat.read_stat(pid)) and condition(stat))


def test_a_plain_job_of_the_viewer_has_none(plain: Holder) -> None:
    assert warned(plain.pid) == ""


def test_root_is_warned_of_a_service_only(plain: Holder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has processes of root's")
    session = Job(kind="unit", id="session-3.scope")
    assert warned(plain.pid, job=session) == ""
    assert warned(plain.pid, job=Job(kind="unit", id="ollama.service")) == "it belongs to root"


@pytest.fixture
def of_nobody() -> Iterator[int]:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    with subprocess.Popen(("sleep", "600"), user=NOBODY) as child:
        yield child.pid
        child.kill()


def test_another_user_is_named(of_nobody: int) -> None:
    assert warned(of_nobody, username="bob") == "it belongs to another user, bob"


def test_a_leader_of_a_session_is_reported_from_that_of_a_terminal(holders: Holders) -> None:
    (leader,) = holders(1, ("setsid", "sleep", "600"))
    until(leader.pid, lambda stat: stat.session_id == leader.pid)
    assert "it leads a session" in warned(leader.pid).splitlines()
    master, slave = pty.openpty()
    with subprocess.Popen(("setsid", "--ctty", "sleep", "600"), stdin=slave) as login:
        until(login.pid, lambda stat: stat.has_terminal and stat.session_id == login.pid)
        assert "terminal session" in warned(login.pid)
        login.kill()
    os.close(master)
    os.close(slave)


def test_what_gpudash_runs_below_is_reported() -> None:
    if os.getppid() <= 1:
        pytest.skip("init started the tests")
    assert "gpudash was started by it" in warned(os.getppid())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nvidia-persistenced", "keeps the driver loaded"),
        ("nvidia-persiste", "keeps the driver loaded"),
        ("nv-fabricmanager", "NVLink fabric"),
        ("nv-hostengine", "DCGM"),
        ("nvidia-cuda-mps-server", "all its clients"),
        ("nvidia-cuda-mps-control", "controls MPS"),
        ("Xorg", "display server"),
    ],
)
def test_daemons_are_known_by_name(plain: Holder, name: str, words: str) -> None:
    assert words in warned(plain.pid, name=name)
    assert words not in warned(plain.pid, name=f"my-{name}")


def test_graphics_are_doubted_by_type(plain: Holder) -> None:
    devices = (make_process_device(type="C+G"),)
    assert "draws graphics (type G)" in warned(plain.pid, devices=devices)


def test_one_that_the_kernel_does_not_pin_is_reported(plain: Holder) -> None:
    with Target(shown(plain.pid), None) as target:
        assert "has no pidfd" in "\n".join(warning.text for warning in warnings(target))


def test_the_init_of_a_container_is_reported(holders: Holders) -> None:
    namespace = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run((*namespace, "true"), capture_output=True).returncode:
        pytest.skip("no PID namespace can be made here")
    (outside,) = holders(1, (*namespace, "sleep", "600"))
    init = waiting.child_of(outside.pid)
    assert "init process of a container" in warned(init)
    assert ["init process of a container" in each.text for each in dangers_below(shown(init))] == [
        True
    ]


def test_figures_within_a_namespace_are_doubted(
    gpu_holder: GpuHolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = gpu_holder()
    doubt = "those of a process outside"
    assert doubt not in warned(job.pid)
    monkeypatch.setattr(processes, "in_first_pid_namespace", lambda: False)
    assert doubt in warned(job.pid)
    assert doubt not in warned(job.pid, devices=())


def test_what_is_no_plain_job_is_grave_and_said_first(plain: Holder) -> None:
    devices = (make_process_device(type="M"),)
    with pinned(plain.pid, name="nvidia-cuda-mps-server", devices=devices) as target:
        first, *rest = warnings(target)
    assert first.dangerous
    assert "MPS server" in first.text
    assert not any(warning.dangerous for warning in rest)
    assert any("MPS client" in warning.text for warning in rest)


def test_below_another_it_is_only_said_what_is_no_plain_job(plain: Holder) -> None:
    devices = (make_process_device(type="M"),)
    (danger,) = dangers_below(shown(plain.pid, name="nvidia-cuda-mps-server", devices=devices))
    assert danger.dangerous
    assert "MPS server" in danger.text
    assert dangers_below(shown(plain.pid)) == ()
    assert dangers_below(shown(os.getppid())) == ()


def test_names_are_harmless(holders: Holders) -> None:
    (hostile,) = holders(1, (sys.executable, "-c", "import time; time.sleep(600)", "\x1b[2J"))
    assert all(map(str.isprintable, warned(hostile.pid).splitlines()))
