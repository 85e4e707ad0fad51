import os
import signal
import sys
from collections.abc import Iterator

import pytest

from gpudash.actions.kill.tree import Attempt, Tree, pin_all, send_all
from gpudash.system import process_tree as kin
from tests.actions.kill.family import Family
from tests.actions.kill.shown import HERE, pinned, shown, wait_for_end
from tests.factories import make_process_device
from tests.holders import Holders
from tests.waiting import open_descriptors

GRANDPARENT = "sleep 600 & setsid sleep 600 & sh -c 'sleep 600 & wait' & wait"
FORKING = """
import os, time
for _ in range(3):
    os.fork()
while True:
    os.fork() or time.sleep(600)
    time.sleep(0.05)
"""
DEAF_CHILD = "sh -c 'trap \"\" TERM; sleep 600 & sleep 600' & trap 'exit 0' TERM; wait"


@pytest.fixture
def family() -> Iterator[Family]:
    """A shell, two children, one in a session of its own, and a third with a child."""
    with Family(("sh", "-c", GRANDPARENT)) as family:
        family.started(5, sleepers=3)
        yield family


def refused(attempts: list[Attempt]) -> list[str]:
    return [each.refusal for each in attempts if each.refusal is not None]


def test_members_are_children_and_theirs_in_any_session(family: Family) -> None:
    with pinned(family.pid) as root:
        members = Tree(root).members
        assert {member.pid for member in members} == family.alive() - {family.pid}
        assert sorted(member.depth for member in members) == [1, 1, 1, 2]
        (grandchild,) = (member.process for member in members if member.depth == 2)
        assert grandchild.command_line == ("sleep", "600")
        assert all(member.target.protected and member.process.username for member in members)
        for member in members:
            member.target.close()


def test_a_member_keeps_what_the_snapshot_knows_of_it(family: Family) -> None:
    with pinned(family.pid) as root:
        worker = next(m for m in Tree(root).members if m.depth == 2)
        holder = shown(worker.pid, devices=(make_process_device(index=3),))
        whole = Tree(root, [holder])
        assert [m.process for m in whole.members if m.process.devices] == [holder]
        whole.close()


def test_sigkill_ends_all(family: Family) -> None:
    with pinned(family.pid) as root:
        whole = Tree(root)
        assert not refused(whole.send(signal.SIGKILL))
        wait_for_end(*whole.targets)
        whole.close()
    assert family.alive() == set()


def test_sigterm_goes_to_the_root_alone_and_then_to_the_rest(family: Family) -> None:
    with pinned(family.pid) as root:
        whole = Tree(root)
        assert not refused(whole.send(signal.SIGTERM))
        wait_for_end(root)
        assert family.alive() == {member.pid for member in whole.members}
        assert not refused(whole.send_to_rest(signal.SIGTERM))
        wait_for_end(*whole.targets)
        whole.close()


def test_what_is_forked_during_the_kill_dies_too() -> None:
    with Family((sys.executable, "-c", FORKING)) as family:
        family.until(lambda alive: len(alive) > 20)
        with pinned(family.pid) as root:
            whole = Tree(root)
            family.until(lambda alive: len(alive) > len(whole.targets) + 5)
            whole.send(signal.SIGKILL)
            wait_for_end(*whole.targets)
            whole.close()
        assert family.alive() == set()


def test_members_that_outlive_the_root_are_still_held() -> None:
    with Family(("sh", "-c", DEAF_CHILD)) as family:
        family.until(lambda alive: len(alive) == 4)
        with pinned(family.pid) as root:
            whole = Tree(root)
            assert len(whole.members) == 3
            root.send(signal.SIGTERM)
            wait_for_end(root)
            assert not whole.rescan()
            whole.send(signal.SIGKILL)
            wait_for_end(*whole.targets)
            whole.close()
        assert family.alive() == set()


def test_gpudash_itself_is_left_out_of_the_tree_above_it(family: Family) -> None:
    with pinned(os.getppid()) as root:
        whole = Tree(root)
        pids = {member.pid for member in whole.members}
        assert os.getpid() not in pids
        assert not pids & family.alive()
        whole.close()


def test_many_members_take_few_descriptors() -> None:
    many = "import os, time\nfor _ in range(150): os.fork() or time.sleep(600)\ntime.sleep(600)"
    with Family((sys.executable, "-c", many)) as family:
        family.until(lambda alive: len(alive) == 151)
        with pinned(family.pid) as root:
            before = open_descriptors()
            whole = Tree(root)
            assert len(whole.members) == 150
            assert 0 < open_descriptors() - before <= 128
            whole.send(signal.SIGKILL)
            wait_for_end(*whole.targets)
            whole.close()
            assert open_descriptors() == before
        assert family.alive() == set()


def test_members_are_bounded(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kin, "MAX_DESCENDANTS", 2)
    with pinned(family.pid) as root:
        assert len(Tree(root).members) == 2


def test_one_that_is_refused_does_not_spare_the_others(holders: Holders) -> None:
    first, second, gone = holders(3)
    tagged = [shown(first.pid), shown(1), shown(second.pid), shown(gone.pid)]
    gone.end()
    targets, refusals = pin_all(tagged, HERE)
    assert [target.process.pid for target in targets] == [first.pid, second.pid]
    assert {refusal.process.pid for refusal in refusals} == {1, gone.pid}
    assert not refused(send_all(targets, signal.SIGKILL))
    wait_for_end(*targets)
    again = send_all(targets, signal.SIGKILL)
    assert [each.target.process.pid for each in again] == [first.pid, second.pid]
    assert all("already exited" in reason for reason in refused(again))
    for target in targets:
        target.close()
