from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from gpudash.actions.kill.pin import Standing, State, Target
from gpudash.model.errors import ActionError
from tests.actions.kill.shown import WAIT_SECONDS, pinned, shown
from tests.holders import Holder

Holders = Callable[..., list[Holder]]

# A parent waits for its vfork child in a state that ps shows as D.
CLONE = {"x86_64": 56, "aarch64": 220}
VFORK = """
import ctypes, sys, time
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0x4000 | 17, 0, 0, 0, 0) or time.sleep(600)
"""


def until(target: Target, state: State) -> Standing:
    """Wait for a state and return it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (standing := target.state()).state != state:
        assert time.monotonic() < deadline, standing
        time.sleep(0.01)
    return standing


def test_a_process_that_runs_is_alive(holders: Holders) -> None:
    (holder,) = holders(1)
    with pinned(holder.pid) as target:
        assert target.state().state == "alive"


def test_a_zombie_names_the_parent_that_must_reap_it() -> None:
    with subprocess.Popen(("sleep", "600")) as child, pinned(child.pid) as target:
        target.send(signal.SIGKILL)
        assert target.wait(WAIT_SECONDS)
        standing = until(target, "zombie")
        assert standing.parent_pid == os.getpid()
        assert standing.parent_name == psutil.Process().name()
        child.wait()
        assert target.state() == Standing("gone")


def test_a_system_call_that_no_signal_interrupts_is_told(holders: Holders) -> None:
    number = CLONE.get(platform.machine())
    if number is None:
        pytest.skip(f"the number of clone on {platform.machine()} is not known")
    (holder,) = holders(1, (sys.executable, "-c", VFORK, str(number)))
    deadline = time.monotonic() + WAIT_SECONDS
    while not (children := psutil.Process(holder.pid).children()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pinned(holder.pid) as target:
        until(target, "uninterruptible")
        assert target.alive()
        children[0].kill()


def test_a_process_whose_first_thread_ended_lives_on(holders: Holders) -> None:
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
        "; ctypes.CDLL(None).pthread_exit(None)"
    )
    (holder,) = holders(1, (sys.executable, "-c", script))
    process = shown(holder.pid)
    with pinned(holder.pid) as target, Target(process, None) as unpinned:
        deadline = time.monotonic() + WAIT_SECONDS
        while psutil.Process(holder.pid).status() != "zombie":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert target.alive()
        assert unpinned.alive()
        assert target.state().state == "alive"


def test_one_known_by_its_start_time_is_pinned_to_send(holders: Holders) -> None:
    (holder,) = holders(1)
    with Target(shown(holder.pid, start_ticks=1), None) as other:
        with pytest.raises(ActionError, match="already exited"):
            other.send(signal.SIGKILL)
        assert holder.alive
    with Target(shown(holder.pid), None) as target:
        assert not target.protected
        before = len(os.listdir("/proc/self/fd"))
        target.send(signal.SIGKILL)
        assert len(os.listdir("/proc/self/fd")) == before
        assert target.wait(WAIT_SECONDS)
