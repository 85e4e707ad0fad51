from __future__ import annotations

from collections.abc import Callable

from gpudash.actions.kill.tree import Member
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.model.process import Job
from gpudash.output.kill import render
from tests.actions.kill.shown import pinned
from tests.factories import make_process, make_snapshot
from tests.holders import Holder

Holders = Callable[..., list[Holder]]


def row(**overrides: object) -> ProcessRow:
    create_time = make_snapshot().taken_at.timestamp() - 100
    process = make_process(create_time=create_time, **overrides)
    return process_rows(make_snapshot(processes=(process,)))[0]


def test_says_who_how_long_and_what_is_held() -> None:
    job = Job(kind="slurm", id="77", step="0")
    assert render(row(job=job), (), ("it is root's",)) == (
        "PID 4242, alice, started 1m40s ago, slurm:77.0, 40.0 GiB on GPU 0\n"
        "    python train.py --batch 32\n"
        "  ! it is root's\n"
    )


def test_secrets_of_the_command_are_masked() -> None:
    text = render(row(command_line=("x", "--token", "hunter2")), (), ())
    assert "hunter2" not in text
    assert "--token" in text


def test_a_hidden_process_has_a_reason_for_a_command() -> None:
    text = render(row(command_line=None, name=None, hidden_reason="exited"), (), ())
    assert "    (exited)\n" in text


def test_members_are_indented_by_depth_and_counted(holders: Holders) -> None:
    (holder,) = holders(1)
    with pinned(holder.pid, devices=()) as target:
        lines = render(row(), [Member(target, 1), Member(target, 2)], ()).splitlines()
        assert lines[2].startswith(f"    + {holder.pid} alice: python")
        assert lines[3].startswith(f"      + {holder.pid}")
        many = render(row(), [Member(target, 1)] * 30, ())
        assert "+ 10 more below it" in many


def test_a_long_command_is_cut() -> None:
    text = render(row(command_line=("x", "a" * 4000)), (), ())
    assert "…" in text
    assert len(text) < 1200


def test_one_without_a_gpu_says_so() -> None:
    assert "no GPU memory" in render(row(devices=()), (), ())
