"""Tasks to a driver that may never let them come back, on a system that may give no threads."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gpudash.collect.nvml.worker import CallTimeouts, DriverWorker, Task, one_shot_timeouts
from tests import waiting
from tests.collect.nvml.tampering import System

QUICK = CallTimeouts(turn_seconds=0.1, call_seconds=0.3, first_call_seconds=0.3)
CALM = CallTimeouts(turn_seconds=30.0, call_seconds=60.0, first_call_seconds=60.0)
"""Long enough for a busy machine not to take a task that comes back for one that hangs."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hung call waits for; it is opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def run(tasks: Sequence[Task[Any]], timeouts: CallTimeouts | None, *, first: bool = False) -> None:
    worker = DriverWorker(timeouts)
    worker.run(tasks, first=first)
    worker.close()


def hung(gate: threading.Event) -> Task[bool]:
    return Task(lambda: gate.wait(30))


def back(task: Task[Any]) -> None:
    waiting.until(lambda: not task.is_pending)


def test_all_come_back_on_one_thread() -> None:
    tasks = [Task(threading.get_ident) for _ in range(5)]
    run(tasks, CALM)
    assert len({task.result() for task in tasks}) == 1
    assert tasks[0].result() != threading.get_ident()


def test_without_timeouts_tasks_run_here() -> None:
    task = Task(threading.get_ident)
    run([task], None)
    assert task.result() == threading.get_ident()


def test_one_that_hangs_does_not_hold_the_others(gate: threading.Event) -> None:
    for seconds in (0.2, 2.0, 20.0):
        tasks = [Task(lambda: True), hung(gate), *(Task(lambda: True) for _ in range(6))]
        run(tasks, CallTimeouts(seconds / 2, seconds, seconds))
        assert tasks[1].is_pending
        assert tasks[1].seconds >= seconds
        if sum(task.is_pending for task in tasks) == 1:  # else the machine is too busy for that
            break
    assert [task.is_pending for task in tasks] == [False, True, *[False] * 6]


def test_several_that_hang_have_their_time_at_once(gate: threading.Event) -> None:
    tasks = [hung(gate) for _ in range(60)]
    start = time.monotonic()
    run(tasks, one_shot_timeouts(0.5), first=True)
    assert time.monotonic() - start < 60 * 0.5
    assert all(task.is_pending for task in tasks)


class Driver:
    """A driver that serves one call after another, each for some seconds of a clock of its own."""

    def __init__(self, seconds: float, calls: int) -> None:
        self._seconds = seconds
        self._now = 0.0
        self._turns = threading.Semaphore(0)
        self._calls = self.calls_left = calls
        self._answers = 0

    def call(self) -> bool:
        """Be served, when it is one's turn."""
        self._turns.acquire()
        return True

    def note(self) -> None:
        self._answers += 1

    def clock(self) -> float:
        return self._now

    def wait(self, returned: threading.Condition, seconds: float) -> None:
        """Let that much time pass, or a call be served if there is one that takes less."""
        if not self.calls_left:
            returned.wait(0.01)
        elif seconds >= self._seconds:
            self._now += self._seconds
            self.calls_left -= 1
            self._turns.release()
            while self._answers + self.calls_left < self._calls:
                returned.wait(0.01)
        else:
            self._now += seconds


def test_a_driver_that_answers_one_after_another_is_waited_for() -> None:
    driver = Driver(seconds=0.12, calls=5)
    timeouts = CallTimeouts(0.05, 0.4, 0.4, on_answer=driver.note)
    worker = DriverWorker(timeouts, clock=driver.clock, wait=driver.wait)
    tasks = [Task(driver.call, clock=driver.clock) for _ in range(5)]
    worker.run(tasks, first=False)
    assert all(task.is_done for task in tasks)
    assert driver.clock() >= 5 * 0.12 > timeouts.call_seconds
    worker.close()


def test_many_gpus_of_a_quick_driver_have_a_single_caller() -> None:
    now, callers = 0.0, set()

    def call() -> None:
        nonlocal now
        now += 0.001
        callers.add(threading.get_ident())

    worker = DriverWorker(CallTimeouts(0.5, 1.0, 5.0), clock=lambda: now)
    for _ in range(2):
        worker.run([Task(call, clock=lambda: now) for _ in range(64)], first=True)
    assert len(callers) == 1
    worker.close()


def test_one_that_returns_later_has_its_outcome(gate: threading.Event) -> None:
    task = hung(gate)
    run([task], QUICK)
    assert task.is_pending
    assert not task.is_done
    gate.set()
    back(task)
    assert task.result()


def test_what_the_work_raised_is_raised_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    task = Task(fail)
    run([task], CALM)
    with pytest.raises(ZeroDivisionError):
        task.result()


def test_every_return_is_news() -> None:
    news: list[None] = []
    tasks = [Task(lambda: None) for _ in range(3)]
    run(tasks, one_shot_timeouts(60, lambda: news.append(None)), first=True)
    assert len(news) == 3


def test_one_thread_is_kept_for_a_system_that_gives_no_more() -> None:
    system = System(threads=1)
    worker = DriverWorker(CALM, start=system.start)
    for _ in range(50):
        tasks = [Task(threading.get_ident) for _ in range(3)]
        worker.run(tasks, first=False)
        assert all(task.is_done for task in tasks)
    worker.close()


def threads() -> set[str]:
    """By number: those of earlier tests may end meanwhile."""
    return set(os.listdir("/proc/self/task"))


def test_one_thread_waits_for_the_first_tasks_once_prestarted() -> None:
    system = System(threads=2)
    worker = DriverWorker(one_shot_timeouts(60.0), start=system.start)
    worker.prestart()
    worker.prestart()
    assert system.left == 1
    system.left = 0
    task = Task(threading.get_ident)
    worker.run([task], first=True)
    assert task.result() != threading.get_ident()
    worker.close()


def test_a_thread_prestarted_after_the_end_ends() -> None:
    before = threads()
    worker = DriverWorker(CALM)
    worker.close()
    worker.prestart()
    waiting.until(lambda: threads() <= before)


def test_without_timeouts_no_thread_is_prestarted() -> None:
    system = System(threads=1)
    DriverWorker(None, start=system.start).prestart()
    assert system.left == 1


def test_what_is_closed_leaves_no_thread_behind(gate: threading.Event) -> None:
    before = threads()
    worker = DriverWorker(QUICK)
    worker.run([hung(gate), hung(gate), Task(lambda: True)], first=False)
    assert threads() - before
    worker.close()
    gate.set()
    waiting.until(lambda: threads() <= before)


def test_one_that_was_closed_works_again() -> None:
    worker = DriverWorker(CALM)
    for _ in range(3):
        task = Task(lambda: True)
        worker.run([task], first=False)
        assert task.result()
        worker.close()


def test_what_a_thread_is_missing_for_is_taken_back_and_can_be_done_later(
    gate: threading.Event,
) -> None:
    system = System(threads=1)
    worker = DriverWorker(QUICK, start=system.start)
    stuck, queued = hung(gate), Task(lambda: True)
    worker.run([stuck, queued], first=False)
    assert (stuck.is_pending, stuck.lacks_thread) == (True, False)
    assert (queued.is_pending, queued.lacks_thread, queued.is_done) == (False, True, False)
    again = Task(lambda: True, retry_of=queued)
    assert again.seconds >= queued.seconds - QUICK.call_seconds
    worker.run([again], first=False)
    assert again.lacks_thread
    gate.set()
    back(stuck)
    done = Task(lambda: True, retry_of=again)
    while not done.is_done:
        done = Task(lambda: True, retry_of=done)
        worker.run([done], first=False)
    worker.close()


def test_one_that_waits_for_a_thread_counts_from_the_first_try() -> None:
    now = [100.0]
    worker = DriverWorker(QUICK, start=System(threads=0).start)
    task = Task(lambda: True, clock=lambda: now[0])
    for _ in range(5):
        worker.run([task], first=False)
        now[0] += 1.0
        task = Task(lambda: True, retry_of=task, clock=lambda: now[0])
    assert task.seconds == 5.0


def test_without_any_thread_nothing_is_asked_where_nobody_limits_how_long() -> None:
    asked: list[None] = []
    task = Task(lambda: asked.append(None))
    DriverWorker(QUICK, start=System(threads=0).start).run([task], first=True)
    assert task.lacks_thread
    assert asked == []


def test_without_any_thread_a_single_sample_asks_here() -> None:
    tasks = [Task(threading.get_ident) for _ in range(3)]
    DriverWorker(one_shot_timeouts(60.0), start=System(threads=0).start).run(tasks, first=True)
    assert {task.result() for task in tasks} == {threading.get_ident()}
