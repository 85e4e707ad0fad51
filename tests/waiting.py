"""Waiting for what other processes and threads do, however busy the machine is."""

import gc
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psutil

from gpudash.system import processes

LIMIT_SECONDS = 120.0
"""Of every wait: it only ends a test that would hang for ever."""

Value = TypeVar("Value")


def until(condition: Callable[[], Value], about: Callable[[], object] = lambda: "") -> Value:
    """Wait until a condition holds, and return what it returned then."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, about()
        time.sleep(0.005)
    return value


def child_of(pid: int) -> int:
    """Wait until a process has one child, and return its PID."""

    def only_child() -> list[int]:
        found = [each.pid for each in psutil.Process(pid).children()]
        return found if len(found) == 1 else []

    (child,) = until(only_child)
    return child


def child_named(name: str, pid: int) -> int:
    """Wait until a process has a child of that name, and return its PID."""
    return until(lambda: next((e.pid for e in children_of(pid) if name_of(e.pid) == name), 0))


def children_of(pid: int) -> list[psutil.Process]:
    """Return the children that run: neither zombies nor those that have just ended."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            with suppress(psutil.NoSuchProcess):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
    return found


def name_of(pid: int) -> str:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).name()
    return ""


def all_end(processes: list[psutil.Process]) -> bool:
    """Wait for the end of processes that need not be ours; a zombie has ended."""
    return until(lambda: not any(map(_runs, processes)))


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def has_ended(pid: int) -> bool:
    """Whether a process is gone or a zombie; its PID must not be another's meanwhile."""
    stat = processes.read_stat(pid)
    return stat is None or stat.status in ("zombie", "dead")


def open_descriptors() -> int:
    """Return how many files are open here, without those that only garbage keeps open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
