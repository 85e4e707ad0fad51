import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil

from gpudash.model.errors import ExitStatus
from tests.actions.kill.family import DEAF_LAUNCHER, LAUNCHER, Family
from tests.e2e.killing import DEAF, FIRM, HASTY, PATIENT, command, kill
from tests.e2e.run import tell
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder, Holders
from tests.pid_reuse import Cloner
from tests.waiting import LIMIT_SECONDS, children_of, name_of, until


@contextmanager
def forgotten_after(holder: Holder, control: Path, **fault: object) -> Iterator[dict[str, object]]:
    """Settings of a driver that lists a process until it has ended, and then has a fault."""
    tell(control, PIDS=holder.pid, LOAD="idle")

    def forget() -> None:
        until(lambda: not holder.alive)
        tell(control, PROCS_PER_DEVICE=0, LOAD="idle", **fault)

    watcher = threading.Thread(target=forget)
    watcher.start()
    try:
        yield {"CONTROL": control, "PIDS": holder.pid}
    finally:
        holder.end()
        watcher.join()


def test_a_job_is_shown_ended_and_what_it_freed(
    fakenvml: Path, job: Holder, tmp_path: Path
) -> None:
    with forgotten_after(job, tmp_path / "control") as settings:
        run = kill(job.pid, library=fakenvml, settings=settings, first=PATIENT, yes=True)
        assert not job.alive
    assert (run.returncode, run.stderr) == (0, "")
    asked, *_, told = run.stdout.splitlines()
    assert asked.startswith(f"PID {job.pid}, ")
    assert "on GPU 0-1" in asked
    assert "sleep 600" in run.stdout
    assert told.startswith(f"terminated {job.pid} ")
    assert told.endswith("freed on GPU 0-1")
    assert "waiting up to" not in run.stdout


def test_an_ignored_sigterm_is_reported_and_sigkill_ends_it(
    fakenvml: Path, holders: Holders
) -> None:
    (deaf,) = holders(1, DEAF)
    until(lambda: name_of(deaf.pid) == "sleep")
    settings: dict[str, object] = {"PIDS": deaf.pid}
    run = kill(deaf.pid, library=fakenvml, settings=settings, first=HASTY, yes=True)
    assert run.returncode == 1
    assert (
        f"ignored SIGTERM for 1 s\nto end it: gpudash kill --signal KILL {deaf.pid}\n" in run.stdout
    )
    assert deaf.alive
    run = kill(deaf.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"killed {deaf.pid}" in run.stdout
    assert not deaf.alive


def test_a_launcher_goes_with_its_tree(fakenvml: Path) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.started(2, sleepers=1)
        (worker,) = alive - {family.pid}
        settings: dict[str, object] = {"PIDS": worker}
        refused = kill(family.pid, library=fakenvml, settings=settings, yes=True)
        assert refused.returncode == 1
        assert "but 1 child does; add --tree" in refused.stderr
        assert family.alive() == alive
        options = {"yes": True, "tree": True}
        run = kill(family.pid, library=fakenvml, settings=settings, **options)
        assert run.returncode == 0
        assert f"+ {worker}" in run.stdout
        assert "1 child ended too\n" in run.stdout
        until(lambda: not family.alive())


def test_a_tree_whose_head_ignores_sigterm_is_not_left_whole(fakenvml: Path) -> None:
    with Family(("sh", "-c", DEAF_LAUNCHER)) as family:
        family.started(3, sleepers=2)
        settings: dict[str, object] = {"PIDS": family.pid}
        options = {"yes": True, "tree": True, "first": HASTY}
        run = kill(family.pid, library=fakenvml, settings=settings, **options)
        assert run.returncode == 1
        (deaf,) = family.until(lambda left: len(left) == 2) - {family.pid}
        assert "1 child ended too\n" in run.stdout
        assert re.search(rf"^{deaf} \(\w+\) ignored SIGTERM for 1 s$", run.stdout, re.MULTILINE)
        hint = f"to end them: gpudash kill --signal KILL --tree {family.pid}"
        assert run.stdout.splitlines()[-1] == hint
        run = kill(family.pid, library=fakenvml, settings=settings, signal="KILL", **options)
        assert run.returncode == 0
        assert family.alive() == set()


def test_a_tree_goes_also_when_the_reader_of_the_output_leaves(fakenvml: Path) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.started(2, sleepers=1)
        (worker,) = alive - {family.pid}
        env = environment(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=worker)
        with subprocess.Popen(
            command(family.pid, yes=True, tree=True),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        ) as run:
            assert run.stdout.readline().startswith(b"PID ")
            run.stdout.close()
            assert run.wait(LIMIT_SECONDS) == ExitStatus.BROKEN_PIPE
        until(lambda: not family.alive())


def test_one_that_is_refused_does_not_spare_the_other(fakenvml: Path, holders: Holders) -> None:
    job, innocent = holders(2)
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(job.pid, innocent.pid, library=fakenvml, settings=settings, yes=True)
    assert run.returncode == 1
    assert not job.alive
    assert innocent.alive


def test_a_gpu_that_fails_meanwhile_is_not_said_to_be_free(
    fakenvml: Path, job: Holder, tmp_path: Path
) -> None:
    with forgotten_after(job, tmp_path / "control", LOST=1) as settings:
        run = kill(job.pid, library=fakenvml, settings=settings, first=FIRM, yes=True)
    assert run.returncode == 0
    assert "freed on GPU 0\ncannot tell whether memory was freed on GPU 1" in run.stdout
    assert run.stdout.endswith(": the GPU fell off the bus\n")


def test_a_driver_that_hangs_from_the_start_does_not_hold_the_prompt(
    fakenvml: Path, job: Holder
) -> None:
    hang = {"PIDS": job.pid, "HANG": "nvmlInitWithFlags:*:inf"}
    run = kill(job.pid, library=fakenvml, settings=hang, yes=True)
    assert run.returncode == 1
    assert f"unknown whether PID {job.pid} uses a GPU: driver not answering" in run.stderr
    assert run.stderr.count("\n") == 1
    assert job.alive


def test_a_record_that_cannot_be_kept_is_reported(fakenvml: Path, job: Holder, state: Path) -> None:
    state.write_text("no folder")
    run = kill(job.pid, library=fakenvml, settings={"PIDS": job.pid}, yes=True, signal="KILL")
    assert run.returncode == 0
    assert "not recorded in audit.jsonl: Not a directory" in run.stderr
    assert not job.alive


def test_memory_that_children_keep_is_reported_with_what_ends_them(
    fakenvml: Path, gpu_holder: Callable[..., Holder]
) -> None:
    job = gpu_holder("(sleep 600 & exec sleep 600)")
    (child,) = until(
        lambda: [each for each in children_of(job.pid) if name_of(each.pid) == "sleep"]
    )
    settings: dict[str, object] = {"PIDS": job.pid}
    run = kill(job.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"its child {child.pid} still runs and has a GPU open" in run.stdout
    hint = f"to end it: gpudash kill --signal KILL {child.pid}"
    assert run.stdout.splitlines()[-1] == hint
    assert child.is_running()
    run = kill(child.pid, library=fakenvml, settings=settings, yes=True, signal="KILL")
    assert run.returncode == 0
    assert f"killed {child.pid}" in run.stdout


def test_it_asks_on_the_terminal_and_an_answer_that_is_typed_ahead_does_not_count(
    fakenvml: Path, job: Holder
) -> None:
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid)
    with Terminal(command(job.pid, signal="KILL"), env=env) as terminal:
        terminal.send("y", "enter", then="? [y/N]")
        terminal.settle(0.3)
        assert terminal.exit_status is None
        assert job.alive
        terminal.send("enter")
        assert terminal.wait_exit() == 1
        assert "nothing was sent" in terminal.text
        assert job.alive
    with Terminal(command(job.pid, signal="KILL"), env=env) as terminal:
        terminal.wait_for("? [y/N]")
        terminal.send("yes", "enter")
        assert terminal.wait_exit() == 0
        assert not job.alive


def test_a_pid_that_is_reused_while_it_asks_is_spared(fakenvml: Path, job: Holder) -> None:
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid)
    with Terminal(command(job.pid, signal="KILL"), env=env) as terminal:
        terminal.wait_for("? [y/N]")
        job.end()
        with Cloner() as innocent:
            innocent.start(job.pid)
            terminal.send("y", "enter", then="already exited")
            terminal.wait_exit()
            assert innocent.end() == -SIGTERM


def test_a_tree_whose_root_ends_during_the_question(fakenvml: Path, state: Path) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        (worker,) = family.started(2, sleepers=1) - {family.pid}
        env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=family.pid)
        argv = command(family.pid, tree=True)
        with Terminal(argv, env=env, columns=160) as terminal:
            terminal.wait_for("and its child? [y/N]")
            os.kill(family.pid, SIGKILL)
            family.until(lambda alive: alive == {worker})
            terminal.send("y", "enter")
            terminal.wait_for(f"{family.pid} ({psutil.Process().username()}) already exited")
            terminal.wait_for("1 child ended too")
            terminal.wait_exit()
        until(lambda: not family.alive())
    lines = (state / "gpudash" / "audit.jsonl").read_text().splitlines()
    results = {entry["pid"]: entry["result"] for entry in map(json.loads, lines)}
    assert results.keys() == {family.pid, worker}
    assert "already exited" in results[family.pid]
    assert results[worker] == "sent"
