"""Who has leased which GPU, by locks that real processes hold, and whether it uses it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pytest

from gpudash.collect.host import LinuxReader
from gpudash.model.device import Device, DeviceState
from gpudash.model.process import Job, Lease, Process
from gpudash.model.text import clean
from gpudash.system import locks
from gpudash.system import processes as proc_stat
from tests.factories import gpu_uuid, make_device, make_process_device

HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
"""
CHILD = (
    HOLD
    + """
import subprocess
middle = f"import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
process = subprocess.Popen([sys.executable, "-c", middle + "; input()"], stdin=subprocess.PIPE)
sys.stdin.readline()
process.communicate(b"\\n")
print("alone", flush=True)
sys.stdin.readline()
"""
)
WAIT = HOLD + "print(flush=True); input()"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the places of two leases."""
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    for index in range(2):
        (tmp_path / gpu_uuid(index)).touch()
    return tmp_path


class Leaseholder:
    """A process that has leased a place, and talks in lines."""

    def __init__(self, place: Path, script: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self.greeting = self._said()

    def tell(self) -> str:
        """Let it go on, and return what it says then."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._said()

    def _said(self) -> str:
        return self.process.stdout.readline().strip()


@contextmanager
def holding(place: Path, script: str = WAIT) -> Iterator[Leaseholder]:
    """Skips where the kernel does not tell who holds a lock."""
    holder = Leaseholder(place, script)
    with holder.process:
        try:
            if holder.pid not in {each.pid for each in locks.listed()}:
                pytest.skip("/proc/locks does not show the locks of this machine")
            yield holder
        finally:
            holder.process.kill()


def on_gpu(pid: int, uuid: str = gpu_uuid(0), **more: Any) -> Process:
    """A process of this machine as it is seen on a GPU."""
    stat = proc_stat.read_stat(pid)
    fields: dict[str, Any] = {
        "parent_pid": stat.parent_pid if stat else None,
        "start_ticks": stat.start_ticks if stat else None,
    }
    shares = (make_process_device(uuid=uuid),)
    return Process(**{**fields, **more}, pid=pid, devices=shares)


def leases(
    reader: LinuxReader,
    *processes: Process,
    devices: tuple[Device, ...] = (),
    unlisted: frozenset[str] = frozenset(),
) -> list[Lease]:
    gpus = devices or tuple(make_device(index=index) for index in range(2))
    return list(reader.leases(gpus, processes, unlisted))


def test_a_lease_names_its_gpu_and_its_holder(places: Path) -> None:
    with holding(places / gpu_uuid(1)) as holder:
        (lease,) = leases(LinuxReader())
    assert (lease.uuid, lease.index, lease.pid) == (gpu_uuid(1), 1, holder.pid)
    assert lease.start_ticks
    assert lease.create_time
    assert lease.is_used is False


def test_a_place_that_was_made_again_is_another_lock(places: Path) -> None:
    reader, place = LinuxReader(clock=count(step=2).__next__), places / gpu_uuid(0)
    with holding(place) as before:
        assert [lease.pid for lease in leases(reader)] == [before.pid]
        place.unlink()
        place.touch()
        assert leases(reader) == []
        with holding(place) as after:
            assert [lease.pid for lease in leases(reader)] == [after.pid]


def test_the_locks_are_not_listed_again_at_once(places: Path) -> None:
    reader = LinuxReader(clock=repeat(100.0).__next__)
    assert leases(reader) == []
    with holding(places / gpu_uuid(0)):
        assert leases(reader) == []


def test_the_holder_itself_uses_it(places: Path) -> None:
    with holding(places / gpu_uuid(0)) as holder:
        (lease,) = leases(LinuxReader(), on_gpu(holder.pid))
    assert lease.is_used is True


def test_who_came_from_the_holder_does_so_also_without_his_parent(places: Path) -> None:
    reader = LinuxReader()
    with holding(places / gpu_uuid(0), CHILD) as holder:
        worker = int(holder.greeting)
        process = on_gpu(worker)
        try:
            assert [lease.is_used for lease in leases(reader, process)] == [True]
            assert holder.tell() == "alone"
            orphan = on_gpu(worker)
            assert orphan.parent_pid != process.parent_pid
            assert [lease.is_used for lease in leases(reader, orphan)] == [True]
        finally:
            subprocess.run(["kill", "-KILL", str(worker)], check=True)


def test_somebody_elses_process_is_no_use_of_it(places: Path) -> None:
    with holding(places / gpu_uuid(0)), holding(places / gpu_uuid(1)) as other:
        assert [lease.is_used for lease in leases(LinuxReader(), on_gpu(other.pid))] == [False] * 2


@pytest.mark.parametrize(
    "hidden",
    [
        {
            "parent_pid": None,
            "start_ticks": None,
            "hidden_reason": "hidden process of another user",
        },
        {"job": Job(kind="container", id=clean("1f3a"), runtime=clean("docker"))},
        {"job": Job(kind="pod", id=clean("1f3a"))},
        {"job": Job(kind="slurm", id=clean("77"))},
    ],
)
def test_where_a_user_comes_from_cannot_be_seen_neither_can_the_use(
    places: Path, hidden: dict[str, Any]
) -> None:
    with holding(places / gpu_uuid(0)), holding(places / gpu_uuid(1)) as other:
        (lease, _) = leases(LinuxReader(), on_gpu(other.pid, **hidden))
        assert lease.is_used is None
        (lease, _) = leases(LinuxReader(), on_gpu(other.pid, **hidden), on_gpu(lease.pid or 0))
        assert lease.is_used is True


@pytest.mark.parametrize("state", ["lost", "not-answering", "failed", "reset-required"])
def test_a_gpu_that_is_out_of_order_may_be_in_use(places: Path, state: DeviceState) -> None:
    with holding(places / gpu_uuid(0)):
        (lease,) = leases(LinuxReader(), devices=(make_device(state=state),))
    assert lease.is_used is None


@pytest.mark.parametrize("parent", [None, "GPU-x"])
def test_a_gpu_whose_processes_are_not_known_may_be_in_use(
    places: Path, parent: str | None
) -> None:
    given: Any = {
        "devices": (make_device(parent_uuid=parent),),
        "unlisted": frozenset({parent or gpu_uuid(0)}),
    }
    with holding(places / gpu_uuid(0)) as holder:
        assert [lease.is_used for lease in leases(LinuxReader(), **given)] == [None]
        process = on_gpu(holder.pid)
        assert [lease.is_used for lease in leases(LinuxReader(), process, **given)] == [True]


def test_who_works_on_an_instance_uses_its_gpu(places: Path) -> None:
    gpu = make_device(mig_mode=True)
    instance = make_device(index=0, uuid="MIG-1", parent_uuid=gpu.uuid)
    with holding(places / gpu_uuid(0)) as holder:
        process = on_gpu(holder.pid, "MIG-1")
        found = leases(LinuxReader(), process, devices=(gpu, instance))
    assert [(lease.uuid, lease.is_used) for lease in found] == [(gpu.uuid, True)]
