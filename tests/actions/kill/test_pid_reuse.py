"""Under attack: the PID of what was aimed at is an innocent process's when it is signalled."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import psutil
import pytest

from gpudash.actions.kill.pin import pin
from gpudash.actions.kill.report import describe
from gpudash.actions.kill.run import TIMEOUTS, Kill, KillRequest
from gpudash.actions.kill.selection import KillSelection, parse_name, select
from gpudash.actions.kill.signals import find_signal
from gpudash.actions.kill.tree import Tree
from gpudash.cli.kill import signal_and_report
from gpudash.model.errors import ActionError
from gpudash.model.snapshot import Snapshot
from gpudash.system import processes as proc_stat
from tests import waiting
from tests.actions.kill.shown import HERE, shown
from tests.factories import make_snapshot
from tests.holders import Holder, Holders
from tests.pid_reuse import Cloner

ROUNDS = 40
KILL = find_signal("KILL")


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


def test_what_took_a_pid_ends_with_the_test(job: Holder) -> None:
    job.end()
    with Cloner() as cloner:
        cloner.start(job.pid)
        innocent = psutil.Process(job.pid)
    try:
        assert waiting.all_end([innocent])
    finally:
        with suppress(psutil.NoSuchProcess):
            innocent.kill()


def test_a_pinned_target_is_hit_or_none(holders: Holders, cloner: Cloner) -> None:
    for _ in range(ROUNDS):
        (job,) = holders(1)
        with pin(shown(job.pid), HERE) as target:
            job.end()
            cloner.start(job.pid)
            with pytest.raises(ActionError, match="already exited"):
                target.send(signal.SIGKILL)
            assert cloner.end() == -signal.SIGTERM


def test_a_row_of_the_screen_is_hit_or_none(holders: Holders, cloner: Cloner) -> None:
    for number in range(ROUNDS):
        (job,) = holders(1)
        snapshot = host(job.pid)
        if number % 2:
            selection = KillSelection(
                snapshot.processes, snapshot
            )  # The PID is reused while it is open.
            job.end()
            cloner.start(job.pid)
        else:
            outlive_tick(job.pid)
            job.end()
            cloner.start(job.pid)
            selection = KillSelection(snapshot.processes, snapshot)  # It was reused before.
        kill = Kill(selection.requests(with_tree=False), KILL)
        kill.send()
        report = describe(kill.wait(snapshot, latest=gone))
        selection.close()
        assert cloner.end() == -signal.SIGTERM
        assert not number % 2 or report == (f"{job.pid} (alice) already exited",)


def test_the_tree_of_a_reused_pid_is_unowned(holders: Holders, cloner: Cloner) -> None:
    for _ in range(ROUNDS // 10):
        (job,) = holders(1)
        snapshot = host(job.pid)
        with pin(snapshot.processes[0], HERE) as target:
            tree = Tree(target)
            job.end()
            cloner.start(job.pid)
            kill = Kill([KillRequest(target, tree, True)], KILL)
            kill.send()
            kill.wait(snapshot, latest=gone)
            tree.close()
        assert cloner.end() == -signal.SIGTERM


def test_a_pid_of_the_shell_is_hit_or_none(holders: Holders, cloner: Cloner) -> None:
    for number in range(ROUNDS):
        (job,) = holders(1)
        snapshot = host(job.pid)
        names = [parse_name(str(job.pid))]
        if number % 2:
            selection, refused = select(names, snapshot, with_tree=False)
            assert not refused
            with closing(selection):
                job.end()
                cloner.start(job.pid)
                assert signal_and_report(
                    selection, KILL, snapshot, with_tree=False, latest=gone, timeouts=TIMEOUTS
                )
        else:
            outlive_tick(job.pid)
            job.end()
            cloner.start(job.pid)
            selection, (reason,) = select(names, snapshot, with_tree=False)
            assert selection.targets == ()
            assert "now belongs to another process" in reason
        assert cloner.end() == -signal.SIGTERM
