import os
import pty
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from gpudash.actions.lease.choose import require_possible
from gpudash.actions.lease.queue import Ticket, Timing, Waiting, gpu_number, kept, tickets
from gpudash.actions.lease.request import GpuRequest
from gpudash.model.errors import GpudashError
from gpudash.system import locks
from tests import waiting
from tests.factories import GIB, gpu_uuid, make_device, make_snapshot


@pytest.fixture
def written(capfd: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What went to stderr since it was asked for last."""
    return lambda: capfd.readouterr().err


def test_no_time_at_all(written: Callable[[], str]) -> None:
    assert not Waiting(0, since=time.monotonic()).within_deadline("1 GPU wanted, 0 free")
    assert written() == "gpudash: 1 GPU wanted, 0 free\n"


def test_a_line_a_minute_without_a_terminal(written: Callable[[], str]) -> None:
    waiting = Waiting(None, since=time.monotonic() - 185)
    for _ in range(3):
        assert waiting.within_deadline("1 GPU wanted, 0 free")
    assert re.fullmatch(r"gpudash: waiting 3m\d\ds: 1 GPU wanted, 0 free\n", written())


def test_a_line_that_is_replaced_on_a_terminal() -> None:
    parent, child = pty.openpty()
    saved = os.dup(2)
    os.dup2(child, 2)
    try:
        waiting = Waiting(None, since=time.monotonic())
        waiting.report("who has them " * 40)
        waiting.end()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    text = ""
    while text.count("\r\x1b[K") < 2:
        text += os.read(parent, 65536).decode()
    os.close(parent)
    os.close(child)
    assert "\n" not in text


def test_time_that_is_over(written: Callable[[], str]) -> None:
    waiting = Waiting(5, since=time.monotonic() - 6)
    assert waiting.is_over
    assert not waiting.within_deadline("none")
    assert written() == "gpudash: none\n"


def test_what_can_never_be() -> None:
    host = make_snapshot(devices=(make_device(), make_device(index=1, name="L4")))
    require_possible(host, GpuRequest(count=2), {})
    require_possible(host, GpuRequest(model="l4"), {})
    for request in (
        GpuRequest(count=3),
        GpuRequest(count=2, model="L4"),
        GpuRequest(min_free_bytes=500 * GIB),
    ):
        with pytest.raises(GpudashError, match=r"wanted, (this host has|0 free, none)"):
            require_possible(host, request, {})


def test_what_can_never_be_of_instances_says_why() -> None:
    instance = make_device(uuid="MIG-0", parent_uuid=gpu_uuid(0))
    host = make_snapshot(devices=(make_device(mig_mode=True), instance, make_device(index=1)))
    require_possible(host, GpuRequest(), {})
    why = "this host has 1; GPU 0:0 left out: CUDA uses one MIG instance at most$"
    with pytest.raises(GpudashError, match=why):
        require_possible(host, GpuRequest(count=2), {})
    with pytest.raises(GpudashError, match=r"this host has none that match$"):
        require_possible(host, GpuRequest(count=2, model="L4"), {})


def test_what_is_linked_nowhere_is_not_waited_for() -> None:
    host = make_snapshot(4)
    why = "2 GPUs wanted, this host has 4, but no 2 of them linked by NVLink"
    with pytest.raises(GpudashError, match=why):
        require_possible(host, GpuRequest(count=2, linked=True), {})
    with pytest.raises(GpudashError, match=r"this host has 4$"):
        require_possible(host, GpuRequest(count=5, linked=True), {})


DEVICES = [make_device(index=index, uuid=gpu_uuid(index)) for index in range(4)]


def waiting_for(count: int, *, seconds: float = 1.0, first: int = 0) -> Ticket:
    """One that has waited so long for `count` of the GPUs from the `first` on."""
    arrival = time.clock_gettime(time.CLOCK_BOOTTIME) - seconds
    gpus = frozenset(map(gpu_number, DEVICES[first:]))
    return Ticket(int(arrival * 1000), os.getpid(), count, gpus)


def left_to(ahead: list[Ticket], **free_seconds: float) -> list[int]:
    """The GPUs left to those ahead, where `gpu0` and so on have been free for so long."""
    now = time.monotonic()
    free_since = {gpu_number(DEVICES[int(gpu[3:])]): now - s for gpu, s in free_seconds.items()}
    found = kept(DEVICES, ahead, free_since, Timing(bound=600, head_start=10))
    return [index for index in range(4) if gpu_uuid(index) in found]


def test_what_became_free_is_left_to_each_who_has_waited_longer() -> None:
    first, second = waiting_for(1), waiting_for(2, first=1)
    free = {"gpu0": 1.0, "gpu1": 1.0, "gpu2": 1.0, "gpu3": 1.0}
    assert left_to([first], **free) == [0]
    assert left_to([first, second], **free) == [0, 1, 2]
    # A GPU that was free before is one that it could not use.
    assert left_to([first], gpu0=300.0, gpu2=1.0) == [2]


def test_nothing_is_left_to_one_that_cannot_use_it() -> None:
    assert left_to([waiting_for(3)], gpu0=1.0, gpu1=1.0) == []
    assert left_to([waiting_for(2, first=2)], gpu0=1.0, gpu3=1.0) == []
    assert left_to([waiting_for(1)], gpu0=11.0, gpu1=300.0) == []


def test_after_the_bound_all_that_it_could_use_is_kept_for_the_first_in_line() -> None:
    assert left_to([waiting_for(3, seconds=599)], gpu1=300.0) == []
    for seconds in (601, 6000, 600_000):
        due = waiting_for(2, seconds=seconds, first=1)
        assert left_to([due]) == left_to([due], gpu1=300.0) == [1, 2, 3]
        assert left_to([due, waiting_for(1)], gpu0=1.0, gpu1=1.0) == [0, 1, 2, 3]


TICKET = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
for gpu in (3, 7):
    fcntl.lockf(descriptor, fcntl.LOCK_SH, 4, gpu << 42 | int(sys.argv[2]))
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ticket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Popen[str]]]:
    """Starts a process with a ticket for 4 of the GPUs 3 and 7, `seconds` from now."""
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    started: list[Popen[str]] = []

    def start(seconds: float) -> Popen[str]:
        arrival_ms = int((time.clock_gettime(time.CLOCK_BOOTTIME) + seconds) * 1000)
        argv = [sys.executable, "-c", TICKET, str(tmp_path), str(arrival_ms)]
        process = Popen(argv, stdin=PIPE, stdout=PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_those_who_have_waited_longer_come_first(ticket: Callable[..., Popen[str]]) -> None:
    second, first = ticket(20), ticket(10)
    found = tickets(locks.listed())
    assert [(each.pid, each.wanted, each.gpus) for each in found] == [
        (first.pid, 4, {3, 7}),
        (second.pid, 4, {3, 7}),
    ]


def test_a_process_has_not_waited_for_longer_than_it_runs(
    ticket: Callable[..., Popen[str]],
) -> None:
    ticket(-5)
    assert tickets(locks.listed()) == []


def test_a_stopped_process_does_not_wait(ticket: Callable[..., Popen[str]]) -> None:
    process = ticket(60)
    process.send_signal(signal.SIGSTOP)
    waiting.until(lambda: psutil.Process(process.pid).status() == "stopped")
    assert tickets(locks.listed()) == []
    process.send_signal(signal.SIGCONT)
    waiting.until(lambda: psutil.Process(process.pid).status() != "stopped")
    assert [each.pid for each in tickets(locks.listed())] == [process.pid]
