"""Tasks to a driver that may never let them come back, on a system that may give no threads."""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gpudash.collect.nvml.worker import Crew, Patience, Task, once
from tests.collect.nvml.tampering import System

QUICK = Patience(alone=0.05, rest=0.1, first=0.2)
CALM = Patience(alone=0.5, rest=1.0, first=1.0)
"""Patient enough for a busy machine not to take a task that comes back for one that hangs."""
LIMIT_SECONDS = 10.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hung call waits for; it is opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def run(tasks: Sequence[Task[Any]], patience: Patience | None, *, first: bool = False) -> None:
    crew = Crew(patience)
    crew.run(tasks, first=first)
    crew.close()


def hung(gate: threading.Event) -> Task[bool]:
    return Task(lambda: gate.wait(30))


def back(task: Task[Any]) -> None:
    """Wait until a task is back."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while task.is_out:
        assert time.monotonic() < deadline


def test_all_come_back_on_one_thread() -> None:
    tasks = [Task(threading.get_ident) for _ in range(5)]
    run(tasks, CALM)
    assert len({task.outcome() for task in tasks}) == 1
    assert tasks[0].outcome() != threading.get_ident()


def test_without_patience_they_are_done_here() -> None:
    task = Task(threading.get_ident)
    run([task], None)
    assert task.outcome() == threading.get_ident()


def test_one_that_hangs_does_not_hold_the_others(gate: threading.Event) -> None:
    tasks = [Task(lambda: True), hung(gate), *(Task(lambda: True) for _ in range(6))]
    run(tasks, CALM)
    assert [task.is_out for task in tasks] == [False, True, *[False] * 6]
    assert tasks[1].seconds >= CALM.rest


def test_several_that_hang_have_their_time_at_once(gate: threading.Event) -> None:
    tasks = [hung(gate) for _ in range(8)]
    start = time.monotonic()
    run(tasks, once(0.4), first=True)
    assert time.monotonic() - start < 8 * 0.4
    assert all(task.is_out for task in tasks)


class Driver:
    """A driver that serves one call after another, each for some seconds of a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._now = 0.0
        self._turns = threading.Semaphore(0)
        self._served = threading.Semaphore(0)
        self.calls_left = 0

    def call(self) -> bool:
        """Be served, when it is one's turn."""
        self._turns.acquire()
        return True

    def note(self) -> None:
        """Take note that a call came back."""
        self._served.release()

    def clock(self) -> float:
        """Return the driver's time."""
        return self._now

    def wait(self, lock: _thread.LockType, seconds: float) -> bool:
        """Let so much time pass, in which calls are served, or less if the lock becomes free."""
        if not self.calls_left or seconds < self._seconds:
            self._now += seconds
            return lock.acquire(timeout=0 if self.calls_left else LIMIT_SECONDS)
        self._now += self._seconds
        self.calls_left -= 1
        self._turns.release()
        assert self._served.acquire(timeout=LIMIT_SECONDS)
        return not self.calls_left and lock.acquire(timeout=LIMIT_SECONDS)


def test_a_driver_that_answers_one_after_another_is_waited_for() -> None:
    driver = Driver(seconds=0.12)
    patience = Patience(alone=0.05, rest=0.4, first=0.4, news=driver.note)
    crew = Crew(patience, clock=driver.clock, wait=driver.wait)
    tasks = [Task(driver.call, clock=driver.clock) for _ in range(5)]
    driver.calls_left = len(tasks)
    crew.run(tasks, first=False)
    assert all(task.is_back for task in tasks)
    assert driver.clock() >= 5 * 0.12 > patience.rest
    crew.close()


def test_one_that_returns_later_has_its_outcome(gate: threading.Event) -> None:
    task = hung(gate)
    run([task], QUICK)
    assert task.is_out
    assert not task.is_back
    gate.set()
    back(task)
    assert task.outcome()


def test_what_the_work_raised_is_raised_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    task = Task(fail)
    run([task], CALM)
    with pytest.raises(ZeroDivisionError):
        task.outcome()


def test_every_return_is_news() -> None:
    news: list[None] = []
    tasks = [Task(lambda: None) for _ in range(3)]
    run(tasks, once(1, lambda: news.append(None)), first=True)
    assert len(news) == 3


def test_one_thread_is_kept_for_a_system_that_gives_no_more() -> None:
    system = System(threads=1)
    crew = Crew(CALM, start=system.start)
    for _ in range(50):
        tasks = [Task(threading.get_ident) for _ in range(3)]
        crew.run(tasks, first=False)
        assert all(task.is_back for task in tasks)
    crew.close()


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_one_thread_waits_for_the_first_tasks_once_mustered() -> None:
    system = System(threads=2)
    crew = Crew(once(1.0), start=system.start)
    crew.muster()
    crew.muster()
    assert system.left == 1
    system.left = 0
    task = Task(threading.get_ident)
    crew.run([task], first=True)
    assert task.outcome() != threading.get_ident()
    crew.close()


def test_who_is_mustered_after_the_end_leaves() -> None:
    before = threads()
    crew = Crew(CALM)
    crew.close()
    crew.muster()
    deadline = time.monotonic() + LIMIT_SECONDS
    while threads() > before:
        assert time.monotonic() < deadline


def test_without_patience_nobody_is_mustered() -> None:
    system = System(threads=1)
    Crew(None, start=system.start).muster()
    assert system.left == 1


def test_what_is_closed_leaves_no_thread_behind(gate: threading.Event) -> None:
    before = threads()
    crew = Crew(QUICK)
    crew.run([hung(gate), hung(gate), Task(lambda: True)], first=False)
    assert threads() > before
    crew.close()
    gate.set()
    deadline = time.monotonic() + LIMIT_SECONDS
    while threads() > before:
        assert time.monotonic() < deadline


def test_one_that_was_closed_works_again() -> None:
    crew = Crew(CALM)
    for _ in range(3):
        task = Task(lambda: True)
        crew.run([task], first=False)
        assert task.outcome()
        crew.close()


def test_what_a_thread_is_missing_for_is_taken_back_and_can_be_done_later(
    gate: threading.Event,
) -> None:
    system = System(threads=1)
    crew = Crew(QUICK, start=system.start)
    stuck, queued = hung(gate), Task(lambda: True)
    crew.run([stuck, queued], first=False)
    assert (stuck.is_out, stuck.has_no_thread) == (True, False)
    assert (queued.is_out, queued.has_no_thread, queued.is_back) == (False, True, False)
    again = Task(lambda: True, instead_of=queued)
    assert again.seconds >= queued.seconds - QUICK.rest
    crew.run([again], first=False)
    assert again.has_no_thread
    gate.set()
    back(stuck)
    done = Task(lambda: True, instead_of=again)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not done.is_back:
        assert time.monotonic() < deadline
        done = Task(lambda: True, instead_of=done)
        crew.run([done], first=False)
    crew.close()


def test_one_that_waits_for_a_thread_counts_from_the_first_try() -> None:
    now = [100.0]
    crew = Crew(QUICK, start=System(threads=0).start)
    task = Task(lambda: True, clock=lambda: now[0])
    for _ in range(5):
        crew.run([task], first=False)
        now[0] += 1.0
        task = Task(lambda: True, instead_of=task, clock=lambda: now[0])
    assert task.seconds == 5.0


def test_without_any_thread_nothing_is_asked_where_nobody_limits_how_long() -> None:
    asked: list[None] = []
    task = Task(lambda: asked.append(None))
    Crew(QUICK, start=System(threads=0).start).run([task], first=True)
    assert task.has_no_thread
    assert asked == []


def test_without_any_thread_a_single_look_asks_here() -> None:
    tasks = [Task(threading.get_ident) for _ in range(3)]
    Crew(once(1.0), start=System(threads=0).start).run(tasks, first=True)
    assert {task.outcome() for task in tasks} == {threading.get_ident()}
