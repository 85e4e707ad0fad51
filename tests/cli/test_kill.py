from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from gpudash.actions.kill.tree import Member
from gpudash.actions.kill.warnings import KillWarning
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.cli.kill import question_lines
from gpudash.model.process import Job
from tests.actions.kill.shown import pinned
from tests.factories import make_process, make_snapshot
from tests.holders import Holder

Holders = Callable[..., list[Holder]]


def row(**overrides: object) -> ProcessRow:
    create_time = make_snapshot().taken_at.timestamp() - 100
    process = make_process(create_time=create_time, **overrides)
    return process_rows(make_snapshot(processes=(process,)))[0]


def render(row: ProcessRow, *members: Member) -> str:
    return "\n".join(question_lines(row, members, ()))


def test_says_who_how_long_and_what_is_held() -> None:
    job = Job(kind="slurm", id="77", step="0")
    assert [*question_lines(row(job=job), (), (KillWarning("it is root's"),))] == [
        "PID 4242, alice, started 1m40s ago, slurm:77.0, 40.0 GiB on GPU 0",
        "    python train.py --batch 32",
        "  ! it is root's",
    ]


def test_secrets_of_the_command_are_masked() -> None:
    text = render(row(command_line=("x", "--token", "hunter2")))
    assert "hunter2" not in text
    assert "--token" in text


def test_a_hidden_process_has_a_reason_for_a_command() -> None:
    text = render(row(command_line=None, name=None, hidden_reason="exited"))
    assert "    (exited)" in text


def test_members_are_indented_by_depth_and_counted(holders: Holders) -> None:
    (holder,) = holders(1)
    with pinned(holder.pid, devices=()) as target:
        lines = render(row(), Member(target, 1), Member(target, 2)).splitlines()
        assert lines[2].startswith(f"    + {holder.pid} alice: python")
        assert lines[3].startswith(f"      + {holder.pid}")
        many = render(row(), *[Member(target, 1)] * 30)
        assert "+ 10 more below it" in many


def test_a_long_command_is_cut() -> None:
    text = render(row(command_line=("x", "a" * 4000)))
    assert "…" in text
    assert len(text) < 1200


def test_one_without_a_gpu_says_so() -> None:
    assert "no GPU memory" in render(row(devices=()))


DEFERRED = """
import os, signal

from gpudash.cli.kill import _ctrl_c_deferred

signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


"""


def run(code: str) -> tuple[int, bytes, bytes]:
    argv = [sys.executable, "-c", DEFERRED + code]
    done = subprocess.run(argv, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_ctrl_c_waits_until_all_is_sent_and_counts_in_the_pause() -> None:
    code = """
with _ctrl_c_deferred() as pause:
    pause(0)
    interrupt()
    print("all is sent")
    try:
        pause(60)
    except KeyboardInterrupt:
        print("what was sent is reported")
"""
    assert run(code) == (0, b"all is sent\nwhat was sent is reported\n", b"")


def test_ctrl_c_neither_cuts_off_a_result_nor_outlives_it() -> None:
    code = """
with _ctrl_c_deferred() as pause:
    interrupt()
    print("result")
try:
    print("after it")
    interrupt()
except KeyboardInterrupt:
    print("left to others")
"""
    assert run(code) == (0, b"result\nafter it\nleft to others\n", b"")


def test_ctrl_c_ends_the_wait_for_a_reader_that_takes_no_result() -> None:
    code = """
from gpudash.cli.kill import wait_for_reader

reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, bytes(4096))
except BlockingIOError:
    stdout = os.dup(1)
    os.dup2(writer, 1)
with _ctrl_c_deferred() as pause:
    interrupt()
    try:
        wait_for_reader(pause)
    except KeyboardInterrupt:
        os.write(stdout, b"interrupted")
"""
    assert run(code) == (0, b"interrupted", b"")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
with _ctrl_c_deferred() as pause:
    interrupt()
    pause(0.01)
print("done")
"""
    assert run(code) == (0, b"done\n", b"")
