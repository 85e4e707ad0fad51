from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from gpudash.analysis.inspection import Inspection
from gpudash.model.process import Process
from gpudash.tui.views.process import Inspector
from tests.actions.kill.shown import HERE, WAIT_SECONDS, shown
from tests.factories import make_snapshot
from tests.holders import Holder

Holders = Callable[..., list[Holder]]

SNAPSHOT = make_snapshot(4, host=HERE)


class Told:
    """What an inspector was told, awaited."""

    def __init__(self) -> None:
        self._seen: list[Inspection] = []
        self._changed = threading.Condition()

    def __call__(self, seen: Inspection) -> None:
        with self._changed:
            self._seen.append(seen)
            self._changed.notify()

    def next(self) -> Inspection:
        with self._changed:
            assert self._changed.wait_for(lambda: self._seen, WAIT_SECONDS)
            return self._seen.pop(0)


def look(inspector: Inspector, told: Told, process: Process) -> None:
    """One look, waited for."""
    inspector.look(process, SNAPSHOT)
    inspector.take(told.next())
    deadline = time.monotonic() + WAIT_SECONDS
    while inspector.is_looking:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_looks_beside_the_caller() -> None:
    told = Told()
    inspector = Inspector(told)
    assert inspector.waiting == "reading"
    look(inspector, told, shown(os.getpid()))
    assert inspector.waiting == ""
    assert inspector.latest is not None
    assert inspector.latest.pid == os.getpid()
    assert inspector.disk_rates == (None, None)
    look(inspector, told, shown(os.getpid()))
    assert inspector.disk_rates[0] is not None


def test_what_was_seen_outlasts_the_process(holders: Holders) -> None:
    (holder,) = holders(1)
    process = shown(holder.pid)
    told = Told()
    inspector = Inspector(told)
    look(inspector, told, process)
    holder.end()
    assert not inspector.exited
    look(inspector, told, process)
    assert inspector.exited
    assert inspector.latest is not None
    assert inspector.latest.environment
    inspector.look(process, SNAPSHOT)
    assert not inspector.is_looking


def test_a_look_that_hangs_is_said_and_not_repeated() -> None:
    told, release = Told(), threading.Event()

    def hang(seen: Inspection) -> None:
        """Keep the look from its end, as a read does that the kernel holds up."""
        told(seen)
        release.wait(WAIT_SECONDS)

    now = 100.0
    inspector = Inspector(hang, clock=lambda: now)
    inspector.look(shown(os.getpid()), SNAPSHOT)
    seen = told.next()
    now += 12
    assert inspector.waiting == "/proc does not answer for 12s"
    inspector.look(shown(os.getpid()), SNAPSHOT)
    assert [thread.name for thread in threading.enumerate()].count("inspection") == 1
    release.set()
    inspector.take(seen)
    assert inspector.latest is seen
