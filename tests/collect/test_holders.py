import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudash.collect.holders import HolderSearch
from gpudash.collect.source import Holders
from gpudash.model.text import clean
from gpudash.system.processes import Facts, ProcStat

HOLD = "import sys; files = [open(path) for path in sys.argv[1:]]; print(flush=True); input()"


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """A folder with files in the place of the device nodes."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    return tmp_path


@contextmanager
def holding(*paths: Path) -> Iterator[int]:
    """A process that has files open, by its PID."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, *map(str, paths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


class Clock:
    """Goes on by so much with each look at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def search(
    nodes: Path,
    clock: Callable[[], float] = lambda: 0.0,
    user: Callable[[int], str] = lambda _pid: "erin",
) -> HolderSearch:
    def facts(pid: int, _stat: ProcStat) -> Facts:
        line = clean("python"), clean("worker.py")
        return Facts(username=clean(user(pid)), command_line=line)

    return HolderSearch(facts, f"{nodes}/nvidia", f"{nodes}/nvidia-uvm", clock)


def found(looking: HolderSearch, *minors: int, listed: tuple[int, ...] = ()) -> dict[int, Holders]:
    """What is known once all processes were looked at, for which a clock that stands gives time."""
    return looking.holders(minors, listed)


def pids(holders: dict[int, Holders], minor: int) -> set[int]:
    return {holder.pid for holder in holders[minor].found}


def test_a_program_that_has_the_gpu_open_is_found(nodes: Path) -> None:
    with holding(nodes / "nvidia1", nodes / "nvidia-uvm", nodes / "nvidiactl") as pid:
        holders = found(search(nodes), 0, 1)
        assert pids(holders, 0) == set()
        (holder,) = holders[1].found
        assert (holder.pid, holder.username) == (pid, "erin")
        assert holder.command_line == ("python", "worker.py")
        assert holder.start_ticks


def test_a_monitor_that_uses_no_cuda_is_none(nodes: Path) -> None:
    with holding(nodes / "nvidia0", nodes / "nvidiactl"):
        assert pids(found(search(nodes), 0), 0) == set()


def test_many_processes_of_one_user_hide_none_of_another(nodes: Path) -> None:
    script = f"""
        exec 10<{nodes}/nvidia0 11<{nodes}/nvidia-uvm 12<&10 13<&10
        for each in $(seq 70); do read line <&0 & done
        echo; wait
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(["bash", "-c", script], stdin=pipe, stdout=pipe) as decoys:
        decoys.stdout.readline()
        with holding(nodes / "nvidia0", nodes / "nvidia-uvm") as pid:
            known = found(search(nodes, user=lambda each: "erin" if each == pid else "mallory"), 0)
        decoys.communicate(b"")
    holders = known[0]
    assert len(holders.found) + holders.left_out == 72
    assert pid in {holder.pid for holder in holders.found[:2]}


def test_of_one_user_what_has_a_context_comes_first(nodes: Path) -> None:
    gpu, uvm = nodes / "nvidia0", nodes / "nvidia-uvm"
    with holding(gpu, uvm) as first, holding(gpu, gpu, uvm) as context, holding(gpu, uvm) as last:
        shown = [holder.pid for holder in found(search(nodes), 0)[0].found]
    assert shown == [context, first, last]


def test_user_ids_without_a_name_take_the_turns_of_one_user(nodes: Path) -> None:
    gpu, uvm = nodes / "nvidia0", nodes / "nvidia-uvm"
    with holding(gpu, uvm) as one, holding(gpu, uvm) as two, holding(gpu, uvm) as named:
        users = {one: "100001", two: "100002", named: "erin"}
        known = found(search(nodes, user=lambda pid: users[pid]), 0)[0].found
    assert {holder.pid for holder in known[:2]} == {one, named}


def test_what_the_driver_lists_and_the_search_itself_are_left_out(nodes: Path) -> None:
    gpu, uvm = nodes / "nvidia0", nodes / "nvidia-uvm"
    with gpu.open(), uvm.open(), holding(gpu, uvm) as pid:
        assert pids(found(search(nodes), 0, listed=(pid,)), 0) == set()
        assert pids(found(search(nodes), 0), 0) == {pid}


def test_one_that_has_ended_is_no_more_shown(nodes: Path) -> None:
    looking = search(nodes)
    with holding(nodes / "nvidia0", nodes / "nvidia-uvm") as pid:
        assert pids(found(looking, 0), 0) == {pid}
    assert pids(found(looking, 0), 0) == set()


def test_nothing_is_looked_for_without_a_gpu_to_ask_for(nodes: Path) -> None:
    looking = search(nodes)
    with holding(nodes / "nvidia0", nodes / "nvidia-uvm") as pid:
        assert looking.holders((), ()) == {}
        assert pids(found(looking, 0), 0) == {pid}
        assert looking.holders((), ()) == {}
    assert pids(found(looking, 0), 0) == set()


def test_a_gpu_that_is_asked_for_later_is_not_judged_by_an_earlier_look(nodes: Path) -> None:
    clock = Clock()
    looking = search(nodes, clock)
    with holding(nodes / "nvidia0", nodes / "nvidia-uvm") as first:
        assert pids(looking.holders({0}, ()), 0) == {first}
        with holding(nodes / "nvidia1", nodes / "nvidia-uvm") as second:
            known = looking.holders({0, 1}, ())
            assert (known.keys(), pids(known, 0)) == ({0}, {first})
            clock.now += 2.0
            known = looking.holders({0, 1}, ())
            assert (pids(known, 0), pids(known, 1)) == ({first}, {second})


def test_a_look_that_began_before_judges_nobody_who_was_asked_for_since(nodes: Path) -> None:
    clock = Clock()
    looking = search(nodes, clock)
    with holding(nodes / "nvidia0", nodes / "nvidia1", nodes / "nvidia-uvm") as pid:
        clock.step = 1.0
        looking.holders({0}, ())
        clock.step = 0.0
        known = looking.holders({0, 1}, ())
        assert (known.keys(), pids(known, 0)) == ({0}, {pid})
        clock.now += 2.0
        assert pids(looking.holders({0, 1}, ()), 1) == {pid}


def test_a_gpu_that_was_not_asked_for_in_between_is_looked_for_again(nodes: Path) -> None:
    clock = Clock()
    looking = search(nodes, clock)
    assert looking.holders({0, 1}, ()).keys() == {0, 1}
    assert looking.holders({0}, ()).keys() == {0}
    assert looking.holders({0, 1}, ()).keys() == {0}
    clock.now += 2.0
    assert looking.holders({0, 1}, ()).keys() == {0, 1}


def test_what_a_look_has_not_met_yet_it_says_nothing_of(nodes: Path) -> None:
    clock = Clock()
    looking = search(nodes, clock)
    clock.step = 1.0
    assert looking.holders({0}, ()) == {}
    clock.step = 0.0
    assert looking.holders({0}, ())[0].found == ()


HIDDEN = """
import os
from gpudash.collect.host import LinuxReader

def complete():
    reader = LinuxReader()
    looks = (reader.holders({0}, ()).get(0) for _ in range(10_000))
    known = [look.complete for look in looks if look is not None]
    return known[-1]

print(complete())
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print(complete())
"""


def test_where_proc_hides_processes_of_others_not_all_were_seen() -> None:
    mount = "mount -t proc -o hidepid=2 proc /proc"
    inside = ("unshare", "--mount", "sh", "-c")
    probe = subprocess.run((*inside, mount), capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"no /proc that hides processes can be mounted here: {probe.stderr.strip()}")
    run = subprocess.run(
        (*inside, f'{mount} && exec "$@"', "sh", sys.executable, "-c", HIDDEN),
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    everything, own = run.stdout.split()
    if everything == "False":
        pytest.skip("root does not see all processes here either: a PID namespace")
    assert own == "False"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_is_not_root_did_not_see_all(nodes: Path) -> None:
    with holding(nodes / "nvidia0", nodes / "nvidia-uvm"):
        os.seteuid(65534)
        try:
            holders = found(search(nodes), 0)
        finally:
            os.seteuid(0)
    assert not holders[0].complete
    assert pids(holders, 0) == set()
