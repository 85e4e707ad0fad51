import os
from pathlib import Path

import pytest

from gpudash.system import processes as proc_stat
from tests.actions.kill.family import Family
from tests.e2e.killing import ABSENT_PID, command, kill
from tests.e2e.run import Line, each_of
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder, Holders, sleep_as
from tests.waiting import child_named, name_of, until

AS_NOBODY = """
import shlex
import psutil, gpudash.cli.kill, gpudash.cli.verbs.kill
from gpudash.feed.sampler import Sampler
start = Sampler.__init__
def start_and_fall(self, *words, **told):
    start(self, *words, **told)
    os.setuid(65534)
Sampler.__init__ = start_and_fall
"""


def test_a_process_that_uses_no_gpu_is_refused(fakenvml: Path, holders: Holders) -> None:
    job, innocent = holders(2)
    run = kill(innocent.pid, ABSENT_PID, library=fakenvml, settings={"PIDS": job.pid}, yes=True)
    assert run.returncode == 1
    assert f"PID {innocent.pid} uses no GPU" in run.stderr
    assert f"there is no process of PID {ABSENT_PID}" in run.stderr
    assert innocent.alive
    assert job.alive


def test_a_job_of_another_user_is_not_permitted(fakenvml: Path, job: Holder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(
        job.pid, library=fakenvml, settings=settings, first=AS_NOBODY, yes=True, config=False
    )
    assert run.returncode == 1
    assert f"not permitted: PID {job.pid} is owned by root; try sudo gpudash" in run.stdout
    assert "it belongs to root" in run.stdout
    assert job.alive


def test_a_head_of_another_user_does_not_spare_what_is_below_it(fakenvml: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    script = "setpriv --reuid=65534 --clear-groups sleep 600 & while :; do wait; sleep 1; done"
    with Family(("sh", "-c", script)) as family:
        family.started(2, sleepers=1)
        run = kill(
            family.pid,
            library=fakenvml,
            settings={"PIDS": family.pid},
            first=AS_NOBODY,
            **{"yes": True, "config": False, "tree": True},
        )
        assert run.returncode == 1
        assert f"not permitted: PID {family.pid} is owned by root" in run.stdout
        assert "1 child ended too" in run.stdout
        assert family.pid in family.alive()


REFUSED = {
    "": (2, "no terminal: add --yes"),
    "--read-only": (1, "read-only (--read-only): nothing was sent"),
    "--demo=dgx-h100 --yes": (1, "the host is simulated"),
    "--demo=nowhere --yes": (2, "dgx-h100"),
}


def test_what_cannot_be_done_is_one_line(fakenvml: Path, job: Holder) -> None:
    lines: list[Line] = [(f"kill {words} {job.pid}", {}) for words in REFUSED]
    found = each_of([*lines, ("kill 1", {})], fakenvml, PROCS_PER_DEVICE=1, PIDS=job.pid)
    *refused, init = found
    for (status, words), run in zip(REFUSED.values(), refused, strict=True):
        assert run[:2] == (status, "")
        assert words in run[2]
        assert run[2].count("\n") == 1
    assert init[2] == "gpudash: PID 1 is init; killing it would stop the host or container\n"
    assert (init[0], job.alive) == (1, True)


def test_a_start_that_is_named_too_must_be_that_of_the_process(fakenvml: Path, job: Holder) -> None:
    stat = proc_stat.read_stat(job.pid)
    assert stat is not None
    for ticks in (-1, 0):
        name = f"{job.pid}:{stat.start_ticks + ticks}"
        run = kill(name, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
        assert (run.returncode, job.alive) == ((1, True) if ticks else (0, False))
        assert ("now belongs to another process" in run.stderr) == bool(ticks)


def test_the_settings_that_forbid_signals_hold_here_too(
    fakenvml: Path, job: Holder, config: Path
) -> None:
    config.parent.mkdir()
    for text, words in (
        ("read_only = true", "gpudash is read-only ("),
        ('read_only = "no"', "read_only: "),
        ("read_only = tru", "line 1 is not TOML"),
    ):
        config.write_text(text)
        run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True)
        assert run.returncode == 1
        assert words in run.stderr
        assert "nothing was sent" in run.stderr
        assert run.stderr.count("\n") == 1
        assert job.alive
    freely = {"yes": True, "no_config": True, "signal": "KILL"}
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, **freely)
    assert run.returncode == 0
    assert not job.alive


def test_read_only_does_not_even_load_what_can_signal(fakenvml: Path) -> None:
    first = """
os.environ["GPUDASH_READ_ONLY"] = "1"
end = os._exit
os._exit = lambda status: end(100 + status + ("gpudash.actions.kill" in sys.modules))
"""
    run = kill(1, library=fakenvml, settings={}, first=first, yes=True)
    assert run.returncode == 101
    assert "read-only" in run.stderr


@pytest.fixture
def daemon(holders: Holders, tmp_path: Path) -> Holder:
    """A process by the name of a daemon of the driver."""
    program = sleep_as("nv-hostengine", tmp_path)
    (daemon,) = holders(1, (str(program), "600"))
    until(lambda: name_of(daemon.pid) == program.name)
    return daemon


def test_yes_does_not_answer_for_a_daemon(fakenvml: Path, daemon: Holder) -> None:
    run = kill(daemon.pid, library=fakenvml, settings={"PIDS": daemon.pid}, yes=True)
    assert run.returncode == 2
    assert "is not a plain job and there is no terminal to confirm it on" in run.stderr
    assert "it is DCGM's engine" in run.stdout
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=daemon.pid)
    with Terminal(command(daemon.pid, signal="KILL", yes=True), env=env) as terminal:
        terminal.wait_for(f"type {daemon.pid} to confirm")
        terminal.send("y", "enter")
        assert terminal.wait_exit() == 1
    assert daemon.alive


def test_yes_does_not_answer_for_a_display_below_a_job(fakenvml: Path, tmp_path: Path) -> None:
    program = sleep_as("Xorg", tmp_path)
    with Family(("sh", "-c", f"{program} 600 & wait")) as family:
        display = child_named("Xorg", family.pid)
        settings: dict[str, object] = {"PIDS": family.pid}
        options = {"tree": True, "yes": True, "signal": "KILL"}
        run = kill(family.pid, library=fakenvml, settings=settings, **options)
        assert run.returncode == 2
        assert f"! PID {display}: it is a display server" in run.stdout
        assert f"PID {display} is not a plain job and there is no terminal" in run.stderr
        assert family.alive() == {family.pid, display}
        alone = kill(family.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
        assert alone.returncode == 0
        assert "display" not in alone.stdout
        assert family.alive() == {display}


def test_a_display_below_a_job_wants_its_own_pid_typed(fakenvml: Path, tmp_path: Path) -> None:
    program = sleep_as("Xorg", tmp_path)
    with Family(("sh", "-c", f"{program} 600 & wait")) as family:
        display = child_named("Xorg", family.pid)
        env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=family.pid)
        words = command(family.pid, signal="KILL", yes=True, tree=True)
        for typed, status in ((family.pid, 1), (display, 0)):
            with Terminal(words, env=env) as terminal:
                terminal.wait_for(f"type {display} to confirm")
                terminal.send(str(typed), "enter")
                assert terminal.wait_exit() == status
            assert family.alive() == ({family.pid, display} if status else set())
