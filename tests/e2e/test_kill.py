"""`gpudash kill` as a real process, on the stand-in library, against real processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gpudash import proc_stat
from tests.actions.family import Family
from tests.e2e.run import tell
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder
from tests.pid_reuse import start_as

pytestmark = pytest.mark.e2e

Holders = Callable[..., list[Holder]]

ABSENT_PID = 1 << 22
DEAF = ("sh", "-c", "trap '' TERM; exec sleep 600")
LAUNCHER = "setsid sleep 600 & trap 'exit 0' TERM; wait"
KILL = """
import os, sys
from gpudash import cli
from gpudash.commands import kill
cli._run = lambda words: kill.run(**eval(words[0]))
{first}
cli.main(sys.argv[1:])
"""
IMPATIENT = """
from gpudash.actions import patience
patience.END_SECONDS, patience.ROOT_FIRST_SECONDS = 1.0, 0.5
patience.RELEASE_SECONDS = 2.5
"""
AS_NOBODY = """
import ctypes, pynvml
import gpudash.commands.kill.carry_out, gpudash.sources.host, gpudash.sources.local
ctypes.CDLL("libnvidia-ml.so.1")
os.setuid(65534)
"""


def command(*pids: object, first: str = IMPATIENT, **options: object) -> list[str]:
    told = {"pids": [str(pid) for pid in pids], **options}
    return [sys.executable, "-c", KILL.format(first=first), repr(told)]


def kill(
    *pids: object,
    library: Path,
    first: str = IMPATIENT,
    settings: dict[str, object],
    **options: object,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*pids, first=first, **options),
        env=environment(library, **{"DEVICES": 2, "PROCS_PER_DEVICE": 1, **settings}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


@contextmanager
def forgotten_after(holder: Holder, control: Path) -> Iterator[dict[str, object]]:
    """Settings of a driver that lists a process until it has ended."""
    tell(control, PIDS=holder.pid, LOAD="idle")

    def forget() -> None:
        while holder.alive:
            time.sleep(0.01)
        tell(control, PROCS_PER_DEVICE=0, LOAD="idle")

    watcher = threading.Thread(target=forget)
    watcher.start()
    yield {"CONTROL": control, "PIDS": holder.pid}
    holder.end()
    watcher.join()


def test_a_job_is_shown_ended_and_what_it_freed(
    fakenvml: Path, holders: Holders, tmp_path: Path
) -> None:
    (job,) = holders(1)
    with forgotten_after(job, tmp_path / "control") as settings:
        run = kill(job.pid, library=fakenvml, settings=settings, yes=True)
        assert not job.alive
    assert (run.returncode, run.stderr) == (0, "")
    asked, *_, told = run.stdout.splitlines()
    assert asked.startswith(f"PID {job.pid}, ")
    assert "on GPU 0-1" in asked
    assert "sleep 600" in run.stdout
    assert told.startswith(f"terminated {job.pid} ")
    assert told.endswith("freed on GPU 0-1")


def test_an_ignored_sigterm_is_told_and_sigkill_ends_it(fakenvml: Path, holders: Holders) -> None:
    (deaf,) = holders(1, DEAF)
    while psutil.Process(deaf.pid).name() != "sleep":
        os.sched_yield()
    settings: dict[str, object] = {"PIDS": deaf.pid}
    run = kill(deaf.pid, library=fakenvml, settings=settings, yes=True)
    assert run.returncode == 1
    assert "ignored SIGTERM for 1 s: --signal KILL ends it" in run.stdout
    assert deaf.alive
    run = kill(deaf.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"killed {deaf.pid}" in run.stdout
    assert not deaf.alive


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_launcher_goes_with_its_tree(fakenvml: Path, signal: str) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.until(lambda alive: len(alive) == 2)
        (worker,) = alive - {family.pid}
        settings: dict[str, object] = {"PIDS": worker}
        refused = kill(family.pid, library=fakenvml, settings=settings, yes=True)
        assert refused.returncode == 1
        assert "one process below it: add --tree" in refused.stderr
        assert family.alive() == alive
        options = {"signal": signal, "yes": True, "tree": True}
        run = kill(family.pid, library=fakenvml, settings=settings, **options)
        assert run.returncode == 0
        assert f"+ {worker}" in run.stdout
        assert "; 1 below ended too" in run.stdout
        assert family.alive() == set()


def test_a_process_that_uses_no_gpu_is_refused(fakenvml: Path, holders: Holders) -> None:
    job, innocent = holders(2)
    run = kill(innocent.pid, ABSENT_PID, library=fakenvml, settings={"PIDS": job.pid}, yes=True)
    assert run.returncode == 1
    assert f"PID {innocent.pid} uses no GPU" in run.stderr
    assert f"there is no process of PID {ABSENT_PID}" in run.stderr
    assert innocent.alive
    assert job.alive


def test_one_that_is_refused_does_not_spare_the_other(fakenvml: Path, holders: Holders) -> None:
    job, innocent = holders(2)
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(job.pid, innocent.pid, library=fakenvml, settings=settings, yes=True)
    assert run.returncode == 1
    assert not job.alive
    assert innocent.alive


def test_a_job_of_another_user_is_not_permitted(fakenvml: Path, holders: Holders) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (job,) = holders(1)
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(
        job.pid, library=fakenvml, settings=settings, first=AS_NOBODY, yes=True, config=False
    )
    assert run.returncode == 1
    assert f"not permitted: PID {job.pid} is owned by root; try sudo gpudash" in run.stdout
    assert "it is root's" in run.stdout
    assert job.alive


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({}, 2, "no terminal: add --yes"),
        ({"signal": "KIL"}, 2, "did you mean KILL?"),
        ({"read_only": True}, 1, "read-only (--read-only): nothing was sent"),
        ({"demo": "dgx-h100", "yes": True}, 1, "the host is simulated"),
        ({"demo": "nowhere", "yes": True}, 2, "dgx-h100"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    fakenvml: Path, holders: Holders, options: dict[str, object], status: int, words: str
) -> None:
    (job,) = holders(1)
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, **options)
    assert run.returncode == status
    assert words in run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stdout == ""
    assert job.alive


@pytest.mark.parametrize("pid", ["-1", "0x10", "self", "", "１"])
def test_what_is_no_pid_is_bad_usage(fakenvml: Path, pid: str) -> None:
    run = kill(pid, library=fakenvml, settings={}, yes=True)
    assert run.returncode == 2
    assert "is no PID" in run.stderr


@pytest.mark.parametrize("ticks", [-1, 0])
def test_a_start_that_is_named_too_must_be_that_of_the_process(
    fakenvml: Path, holders: Holders, ticks: int
) -> None:
    (job,) = holders(1)
    stat = proc_stat.read(job.pid)
    assert stat is not None
    name = f"{job.pid}:{stat.start_ticks + ticks}"
    run = kill(name, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
    assert run.returncode == (1 if ticks else 0)
    assert job.alive == bool(ticks)
    assert ("now belongs to another process" in run.stderr) == bool(ticks)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read_only = true", "gpudash is read-only ("),
        ('read_only = "no"', "read_only: "),
        ("read_only = tru", "line 1 is no TOML"),
    ],
)
def test_the_settings_that_forbid_signals_hold_here_too(
    fakenvml: Path, holders: Holders, config: Path, text: str, words: str
) -> None:
    config.parent.mkdir()
    config.write_text(text)
    (job,) = holders(1)
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True)
    assert run.returncode == 1
    assert words in run.stderr
    assert "nothing was sent" in run.stderr
    assert run.stderr.count("\n") == 1
    assert job.alive
    freely = {"yes": True, "config": False, "signal": "KILL"}
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, **freely)
    assert run.returncode == 0
    assert not job.alive


def test_settings_about_other_things_do_not_matter(
    fakenvml: Path, holders: Holders, config: Path
) -> None:
    config.parent.mkdir()
    config.write_text('theme = "none such"\nread_only = false\ncolumns = what\n')
    (job,) = holders(1)
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
    assert (run.returncode, run.stderr) == (0, "")
    assert not job.alive


def test_a_gpu_that_is_lost_meanwhile_is_not_said_to_be_free(
    fakenvml: Path, holders: Holders, tmp_path: Path
) -> None:
    (job,) = holders(1)
    control = tmp_path / "control"
    tell(control, PIDS=job.pid, LOAD="idle")

    def lose() -> None:
        while job.alive:
            time.sleep(0.01)
        tell(control, PIDS=job.pid, LOAD="idle", LOST="1", PROCS_PER_DEVICE=0)

    watcher = threading.Thread(target=lose)
    watcher.start()
    settings: dict[str, object] = {"CONTROL": control, "PIDS": job.pid}
    run = kill(job.pid, library=fakenvml, settings=settings, yes=True)
    watcher.join()
    assert run.returncode == 0
    assert (
        "freed on GPU 0; whether memory came free on GPU 1 is not known: it is lost" in run.stdout
    )


def test_what_was_sent_is_recorded(fakenvml: Path, holders: Holders, state: Path) -> None:
    (job,) = holders(1)
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
    assert run.returncode == 0
    (line,) = (state / "gpudash" / "audit.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert (entry["pid"], entry["signal"], entry["result"]) == (job.pid, "KILL", "sent")


def test_a_record_that_cannot_be_kept_is_told(
    fakenvml: Path, holders: Holders, state: Path
) -> None:
    (job,) = holders(1)
    state.write_text("no folder")
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
    assert run.returncode == 0
    assert "not recorded in audit.jsonl: Not a directory" in run.stderr
    assert not job.alive


def test_memory_that_children_keep_is_told_with_what_ends_them(
    fakenvml: Path, gpu_holder: Callable[..., Holder]
) -> None:
    job = gpu_holder("(sleep 600 & exec sleep 600)")
    (child,) = psutil.Process(job.pid).children()
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(job.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"its child {child.pid} still runs and has a GPU open" in run.stdout
    hint = f"to end them: gpudash kill --signal KILL {child.pid}"
    assert run.stdout.splitlines()[-1] == hint
    assert child.is_running()
    run = kill(child.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"killed {child.pid}" in run.stdout


def test_read_only_does_not_even_load_what_can_signal(fakenvml: Path) -> None:
    first = """
os.environ["GPUDASH_READ_ONLY"] = "1"
end = os._exit
os._exit = lambda status: end(100 + status + ("gpudash.actions" in sys.modules))
"""
    run = kill(1, library=fakenvml, settings={}, first=first, yes=True)
    assert run.returncode == 101
    assert "read-only" in run.stderr


@pytest.mark.parametrize(
    ("answer", "ends"), [("y", True), ("yes", True), ("", False), ("n", False)]
)
def test_it_asks_on_the_terminal(fakenvml: Path, holders: Holders, answer: str, ends: bool) -> None:
    (job,) = holders(1)
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid)
    with Terminal(command(job.pid, signal="KILL"), env=env) as terminal:
        terminal.wait_for("Send SIGKILL to this process? [y/N]")
        assert job.alive
        terminal.send(answer, "enter")
        assert terminal.wait_exit() == (0 if ends else 1)
        assert job.alive != ends


def test_a_pid_that_is_reused_while_it_asks_is_spared(fakenvml: Path, holders: Holders) -> None:
    (job,) = holders(1)
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid)
    with Terminal(command(job.pid, signal="KILL"), env=env) as terminal:
        terminal.wait_for("Send SIGKILL to this process? [y/N]")
        job.end()
        innocent = start_as(job.pid, ("sleep", "600"))
        try:
            terminal.send("y", "enter")
            terminal.wait_for("already exited")
            terminal.wait_exit()
            assert innocent.poll() is None
        finally:
            innocent.kill()
            innocent.wait()


@pytest.fixture
def daemon(holders: Holders, tmp_path: Path) -> Holder:
    """A process by the name of a daemon of the driver."""
    program = tmp_path / "nv-hostengine"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    (daemon,) = holders(1, (str(program), "600"))
    while psutil.Process(daemon.pid).name() != program.name:
        os.sched_yield()
    return daemon


def test_yes_does_not_answer_for_a_daemon(fakenvml: Path, daemon: Holder) -> None:
    run = kill(daemon.pid, library=fakenvml, settings={"PIDS": daemon.pid}, yes=True)
    assert run.returncode == 2
    assert "is no plain job and there is no terminal to confirm it on" in run.stderr
    assert "it is DCGM's engine" in run.stdout
    assert daemon.alive


@pytest.mark.parametrize("right", [False, True])
def test_a_daemon_wants_its_pid_typed(fakenvml: Path, daemon: Holder, right: bool) -> None:
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=daemon.pid)
    with Terminal(command(daemon.pid, signal="KILL", yes=True), env=env) as terminal:
        terminal.wait_for(f"type {daemon.pid} to send it")
        terminal.send(str(daemon.pid) if right else "y", "enter")
        assert terminal.wait_exit() == (0 if right else 1)
        assert daemon.alive != right
