import os
from collections.abc import Iterator

import psutil
import pytest

from gpudash.system import process_tree
from tests.actions.kill.family import Family

ABSENT_PID = 1 << 30
SCRIPT = "sleep 600 & sh -c 'setsid sleep 600 & wait' & wait"


@pytest.fixture(scope="module")
def family() -> Iterator[Family]:
    with Family(("sh", "-c", SCRIPT)) as family:
        family.started(4, sleepers=2)
        yield family


def test_agrees_with_psutil() -> None:
    process, oracle = process_tree.process_of(os.getpid()), psutil.Process()
    assert process.username == oracle.username()
    assert process.name == oracle.name()
    assert process.command_line == tuple(oracle.cmdline())
    assert process.parent_pid == oracle.ppid()
    assert process.create_time == pytest.approx(oracle.create_time(), abs=0.001)
    assert process.devices == ()


def test_ancestors_go_from_the_oldest_to_the_parent() -> None:
    oracle = [parent.pid for parent in psutil.Process().parents()]
    assert list(process_tree.ancestor_pids(os.getpid())) == oracle
    ancestors = process_tree.ancestors(os.getpid())
    assert [relative.process.pid for relative in ancestors] == oracle[::-1]
    assert [relative.depth for relative in ancestors] == [*range(-len(oracle), 0)]


def test_descendants_stand_behind_their_parent(family: Family) -> None:
    found = process_tree.descendants(family.pid)
    assert {relative.process.pid for relative in found} == family.alive() - {family.pid}
    assert sorted(relative.depth for relative in found) == [1, 1, 2]
    pids = [relative.process.pid for relative in found]
    grandchild = next(relative.process for relative in found if relative.depth == 2)
    assert pids.index(grandchild.parent_pid or 0) == pids.index(grandchild.pid) - 1


def test_of_related_ones_none_is_its_own_descendant(family: Family) -> None:
    everyone = family.alive()
    assert process_tree.descendants(*everyone) == ()


def test_descendants_are_bounded(family: Family) -> None:
    assert len(process_tree.descendants(family.pid, limit=2)) == 2


def test_an_absent_process_has_no_relatives() -> None:
    assert process_tree.process_of(ABSENT_PID) is None
    assert process_tree.descendants(ABSENT_PID) == ()
    assert process_tree.ancestors(ABSENT_PID) == ()
