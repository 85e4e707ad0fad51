"""Tasks to a driver that may never let them come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from gpudash.sources.nvml.tasks import Patience, Task, once, run

QUICK = Patience(alone=0.05, rest=0.1, first=0.2)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hung call waits for; it is opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def hung(gate: threading.Event) -> Task[bool]:
    return Task(lambda: gate.wait(30))


def test_all_come_back_on_one_thread() -> None:
    tasks = [Task(threading.get_ident) for _ in range(5)]
    run(tasks, QUICK, first=False)
    assert len({task.outcome() for task in tasks}) == 1
    assert tasks[0].outcome() != threading.get_ident()


def test_without_patience_they_are_done_here() -> None:
    task = Task(threading.get_ident)
    run([task], None, first=True)
    assert task.outcome() == threading.get_ident()


def test_one_that_hangs_does_not_hold_the_others(gate: threading.Event) -> None:
    tasks = [Task(lambda: True), hung(gate), *(Task(lambda: True) for _ in range(6))]
    run(tasks, QUICK, first=False)
    assert [task.is_out for task in tasks] == [False, True, *[False] * 6]
    assert tasks[1].seconds >= QUICK.rest


def test_several_that_hang_have_their_time_at_once(gate: threading.Event) -> None:
    tasks = [hung(gate) for _ in range(8)]
    start = time.monotonic()
    run(tasks, once(0.4), first=True)
    assert time.monotonic() - start < 8 * 0.4
    assert all(task.is_out for task in tasks)


def test_a_driver_that_answers_one_after_another_is_waited_for() -> None:
    turn = threading.Lock()

    def slow() -> bool:
        with turn:
            time.sleep(0.12)
        return True

    tasks = [Task(slow) for _ in range(5)]
    run(tasks, Patience(alone=0.05, rest=0.4, first=0.4), first=False)
    assert not any(task.is_out for task in tasks)


def test_one_that_returns_later_has_its_outcome(gate: threading.Event) -> None:
    task = hung(gate)
    run([task], QUICK, first=False)
    assert task.is_out
    gate.set()
    deadline = time.monotonic() + 10
    while task.is_out:
        assert time.monotonic() < deadline
    assert task.outcome()


def test_what_the_work_raised_is_raised_where_it_is_asked_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    task = Task(fail)
    run([task], QUICK, first=False)
    with pytest.raises(ZeroDivisionError):
        task.outcome()


def test_every_return_is_news() -> None:
    news: list[None] = []
    tasks = [Task(lambda: None) for _ in range(3)]
    run(tasks, once(1, lambda: news.append(None)), first=True)
    assert len(news) == 3
