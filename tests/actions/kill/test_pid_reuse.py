"""Under attack: the PID of what was aimed at is an innocent process's when it is signalled."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gpudash.actions.kill.pin import pin
from gpudash.actions.kill.report import Report
from gpudash.actions.kill.run import Hit, strike
from gpudash.actions.kill.signals import find_signal
from gpudash.actions.kill.tree import Tree
from gpudash.analysis.table import process_rows
from gpudash.cli.verbs.kill.aim import aim, named
from gpudash.cli.verbs.kill.carry_out import carry_out
from gpudash.model.errors import ActionError
from gpudash.model.snapshot import Snapshot
from gpudash.system import processes as proc_stat
from gpudash.tui.actions.kill.aim import Aim
from gpudash.tui.actions.kill.flow import driven
from tests.actions.kill.shown import HERE, shown
from tests.factories import make_snapshot
from tests.holders import Holder
from tests.pid_reuse import Cloner

ROUNDS = 200
KILL = find_signal("KILL")

Holders = Callable[..., list[Holder]]


@pytest.fixture
def cloner() -> Iterator[Cloner]:
    with Cloner() as cloner:
        yield cloner


def host(pid: int) -> Snapshot:
    return make_snapshot(1, host=HERE, processes=(shown(pid),))


def outlive_tick(pid: int) -> None:
    """Wait for the end of the clock tick in which it started: its start is known no closer.

    Nothing that a driver lists is that young.
    """
    ticks = shown(pid).start_ticks or 0
    while time.clock_gettime(time.CLOCK_BOOTTIME) // proc_stat.TICK_SECONDS <= ticks:
        os.sched_yield()


def gone() -> Snapshot:
    """The host once nothing uses a GPU any more."""
    return make_snapshot(1, host=HERE, processes=())


def test_a_pinned_target_is_hit_or_nobody(holders: Holders, cloner: Cloner) -> None:
    for _ in range(ROUNDS):
        (job,) = holders(1)
        with pin(shown(job.pid), HERE) as target:
            job.end()
            cloner.start(job.pid)
            with pytest.raises(ActionError, match="already exited"):
                target.send(signal.SIGKILL)
            assert cloner.end() == -signal.SIGTERM


def test_a_row_of_the_screen_is_hit_or_nobody(holders: Holders, cloner: Cloner) -> None:
    for number in range(ROUNDS):
        (job,) = holders(1)
        snapshot = host(job.pid)
        rows = process_rows(snapshot)
        if number % 2:
            question = Aim(rows, snapshot)  # The PID is reused while it is open.
            job.end()
            cloner.start(job.pid)
        else:
            outlive_tick(job.pid)
            job.end()
            cloner.start(job.pid)
            question = Aim(rows, snapshot)  # It was reused before.
        steps = strike(question.hits(whole=False), KILL, snapshot, latest=gone)
        report: Report = asyncio.run(driven(steps))
        summary = report.summary
        question.close()
        assert cloner.end() == -signal.SIGTERM
        assert not number % 2 or summary == f"{job.pid} (alice) already exited"


def test_the_tree_of_a_reused_pid_is_nobodys(holders: Holders, cloner: Cloner) -> None:
    for _ in range(ROUNDS // 10):
        (job,) = holders(1)
        snapshot = host(job.pid)
        with pin(snapshot.processes[0], HERE) as target:
            tree = Tree(target)
            job.end()
            cloner.start(job.pid)
            steps = strike([Hit(target, tree, True)], KILL, snapshot, latest=gone)
            asyncio.run(driven(steps))
            tree.close()
        assert cloner.end() == -signal.SIGTERM


def test_a_pid_of_the_shell_is_hit_or_nobody(holders: Holders, cloner: Cloner) -> None:
    for number in range(ROUNDS):
        (job,) = holders(1)
        snapshot = host(job.pid)
        with ExitStack() as held:
            if number % 2:
                aimed = aim(named(str(job.pid)), snapshot, whole=False, held=held)
                job.end()
                cloner.start(job.pid)
                assert aimed is not None
                assert carry_out([aimed.hit], KILL, snapshot, gone)
            else:
                outlive_tick(job.pid)
                job.end()
                cloner.start(job.pid)
                assert aim(named(str(job.pid)), snapshot, whole=False, held=held) is None
        assert cloner.end() == -signal.SIGTERM
