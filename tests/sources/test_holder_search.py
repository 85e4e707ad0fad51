from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudash.sources import Holders
from gpudash.sources.holder_search import HolderSearch
from gpudash.sources.processes import Facts

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
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate(b"\n")


def search(nodes: Path) -> HolderSearch:
    facts = Facts(username="erin", command_line=("python", "worker.py"))
    return HolderSearch(lambda _: facts, f"{nodes}/nvidia", f"{nodes}/nvidia-uvm")


def found(looking: HolderSearch, *minors: int, listed: tuple[int, ...] = ()) -> Holders:
    """What is known once all processes were looked at."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        holders = looking.holders(minors, listed)
        assert holders is not None
        if not looking.is_under_way:
            return holders
    raise AssertionError("the search did not end")


def pids(holders: Holders, minor: int) -> set[int]:
    return {holder.pid for holder in holders.of_minor[minor]}


def test_a_program_that_has_the_gpu_open_is_found(nodes: Path) -> None:
    with holding(nodes / "nvidia1", nodes / "nvidia-uvm", nodes / "nvidiactl") as pid:
        holders = found(search(nodes), 0, 1)
        assert pids(holders, 0) == set()
        (holder,) = holders.of_minor[1]
        assert (holder.pid, holder.username) == (pid, "erin")
        assert holder.command_line == ("python", "worker.py")
        assert holder.start_ticks


def test_a_monitor_that_uses_no_cuda_is_none(nodes: Path) -> None:
    with holding(nodes / "nvidia0", nodes / "nvidiactl"):
        assert pids(found(search(nodes), 0), 0) == set()


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
        assert looking.holders((), ()) is None
        assert pids(found(looking, 0), 0) == {pid}
        assert looking.holders((), ()) is None
    assert pids(found(looking, 0), 0) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_is_not_root_did_not_see_all(nodes: Path) -> None:
    with holding(nodes / "nvidia0", nodes / "nvidia-uvm"):
        os.seteuid(65534)
        try:
            holders = found(search(nodes), 0)
        finally:
            os.seteuid(0)
    assert not holders.complete
    assert pids(holders, 0) == set()
