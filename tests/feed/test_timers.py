from __future__ import annotations

import asyncio

from gpudash.feed.feed import Timers


def attached() -> Timers:
    timers = Timers()
    timers.attach(asyncio.get_running_loop())
    return timers


async def test_the_last_that_was_armed_by_a_name_is_called_alone() -> None:
    timers, called, done = attached(), list[str](), asyncio.Event()
    timers.arm("one", 0, lambda: called.append("before"))
    timers.arm("one", 0, lambda: called.append("after"))
    timers.arm("other", 0.01, done.set)
    await asyncio.wait_for(done.wait(), 10)
    assert called == ["after"]


async def test_one_is_hastened_and_never_put_off() -> None:
    timers, late, soon = attached(), asyncio.Event(), asyncio.Event()
    timers.arm("late", 3600, late.set)
    timers.hasten("late", 0)
    timers.arm("soon", 0, soon.set)
    timers.hasten("soon", 3600)
    await asyncio.wait_for(asyncio.gather(late.wait(), soon.wait()), 10)


async def test_nothing_is_hastened_that_was_called_or_cancelled_or_never_armed() -> None:
    timers, called, done = attached(), list[str](), asyncio.Event()
    timers.arm("called", 0, lambda: called.append("once"))
    timers.arm("cancelled", 0, lambda: called.append("never"))
    timers.cancel("cancelled", "unknown")
    timers.arm("done", 0.01, done.set)
    await asyncio.wait_for(done.wait(), 10)
    done.clear()
    for name in ("called", "cancelled", "unknown"):
        timers.hasten(name, 0)
    timers.arm("done", 0.01, done.set)
    await asyncio.wait_for(done.wait(), 10)
    assert called == ["once"]


async def test_all_are_cancelled() -> None:
    timers, called, done = attached(), list[str](), asyncio.Event()
    for name in ("one", "other"):
        timers.arm(name, 0, lambda: called.append("never"))
    timers.cancel_all()
    timers.arm("done", 0.01, done.set)
    await asyncio.wait_for(done.wait(), 10)
    assert called == []
