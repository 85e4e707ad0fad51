"""In a PID namespace the driver still tells PIDs of the host: nobody innocent may be hit."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.forking import GPUDASH, run
from tests.e2e.killing import command
from tests.e2e.screen import GUARD_SECONDS, press_until
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import open_device

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c")
INNOCENT = "sleep 600"
WAIT = "until [ -e /proc/$job/fd/9 ]; do kill -0 $job || exit 9; done; "


@pytest.fixture(autouse=True)
def rights() -> None:
    run = subprocess.run((*NAMESPACE, "true"), capture_output=True, text=True)
    if run.returncode:
        pytest.skip(f"no PID namespace can be made here: {run.stderr.strip()}")


def inside(job: str, then: str) -> list[str]:
    """A command that starts a job in a namespace, has the driver list its PID, and goes on."""
    return [*NAMESPACE, f"{job} & job=$!; export FAKENVML_PIDS=$job; {then}"]


def done(library: Path, job: str, then: str) -> subprocess.CompletedProcess[str]:
    return run(inside(job, then), environment(library, DEVICES=1, PROCS_PER_DEVICE=1))


def test_the_shell_refuses_a_pid_that_means_another_process(fakenvml: Path) -> None:
    kill = f"{shlex.join(GPUDASH)} kill $job --yes --signal KILL; echo status $?"
    found = done(fakenvml, INNOCENT, f"{kill}; kill -0 $job && echo alive")
    assert "has no NVIDIA device open here: the driver means another process" in found.stderr
    assert found.stdout.split() == ["status", "1", "alive"]


def test_the_shell_refuses_a_launcher_above_it_too(fakenvml: Path) -> None:
    kill = f"{shlex.join(GPUDASH)} kill $job --tree --yes --signal KILL; echo status $?"
    found = done(fakenvml, "sh -c 'sleep 600; :'", f"{kill}; kill -0 $job && echo alive")
    assert found.stdout.split() == ["status", "1", "alive"]


def test_one_that_has_a_device_open_can_be_ended_with_a_word_of_doubt(fakenvml: Path) -> None:
    holder = shlex.join(open_device())
    kill = f"{shlex.join(command(yes=True, signal='KILL'))} $job"
    found = done(fakenvml, holder, f"{WAIT}{kill}; echo status $?; wait $job; echo $?")
    if found.returncode == 9:
        pytest.skip("a /dev of its own cannot be made here")
    assert "this is a PID namespace" in found.stdout
    assert found.stdout.split()[-3:] == ["status", "0", "137"]


def test_the_screen_refuses_with_the_reason(fakenvml: Path) -> None:
    argv = inside(INNOCENT, f"{shlex.join(GPUDASH)} --interval 2; kill -0 $job && echo alive")
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1)
    with Terminal(argv, env=env, columns=100, rows=30) as terminal:
        terminal.wait_for("sleep 600")
        terminal.settle(0.05)
        terminal.send("K", then="cannot be signalled")
        terminal.wait_for("has no NVIDIA device open here")
        terminal.rest(GUARD_SECONDS)
        terminal.send("y")
        press_until(terminal, "q", lambda: "cannot be signalled" not in terminal.text)
        terminal.wait_for("quit")
        terminal.send("q", then="alive")
