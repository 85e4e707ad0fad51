from datetime import timedelta

import pytest

from gpudash.feed.protocol import FeedState
from tests.factories import make_snapshot
from tests.tui.stage import (
    CaptureDriver,
    HandFeed,
    Terminal,
    busy_snapshot,
    host_app,
    process_of,
    updated,
)

NARROW = [
    ("", "f2", "Colours"),
    ("", "K", "Close"),
    ("d", "f2", "Colours"),
    ("enter", "K", "Close"),
]


def on(terminal: Terminal) -> str:
    return "\n".join(terminal.lines)


@pytest.mark.parametrize(("view", "key", "title"), NARROW)
async def test_picture_behind_a_dialog_goes_on(view: str, key: str, title: str) -> None:
    feed, terminal = HandFeed(), Terminal(140, 40)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(140, 40)) as pilot:
        first = busy_snapshot()
        feed.give(first)
        await pilot.press(*filter(None, [view]), key)
        await updated(app, pilot, terminal)
        assert title in on(terminal)
        later = first.taken_at + timedelta(seconds=77)
        feed.give(busy_snapshot(taken_at=later))
        await updated(app, pilot, terminal)
        assert title in on(terminal)
        assert later.astimezone().strftime("%H:%M:%S") in on(terminal)
        feed.change(FeedState.STALE, 14)
        await updated(app, pilot, terminal)
        assert "STALE 14s" in on(terminal)
        feed.error = "collector: it went away"
        feed.change(FeedState.RESTARTING, 21)
        await updated(app, pilot, terminal)
        assert "NO COLLECTOR 21s" in on(terminal)
        assert "it went away" in on(terminal)
        assert title in on(terminal)


@pytest.mark.parametrize(("key", "title"), [("f2", "Colours"), ("K", "Close"), ("h", "close")])
async def test_dialog_leaves_what_is_beside_it_as_it_was(key: str, title: str) -> None:
    feed, terminal = HandFeed(), Terminal(200, 60)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(200, 60)) as pilot:
        feed.give(busy_snapshot())
        await updated(app, pilot, terminal)
        before = terminal.cells
        await pilot.press(key)
        await updated(app, pilot, terminal)
        assert title in on(terminal)
        (box,) = (child.region for child in app.screen.children if child.region)
        after = terminal.cells
        for y, row in enumerate(before):
            inside = range(box.x, box.right) if box.y <= y < box.bottom else range(0)
            assert [x for x in range(200) if row[x] != after[y][x] and x not in inside] == []


async def test_rows_behind_a_dialog_go_on_and_cost_what_changed() -> None:
    feed, terminal = HandFeed(), Terminal(140, 40)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(140, 40)) as pilot:
        processes = [process_of(number) for number in range(20)]
        feed.give(make_snapshot(8, processes=tuple(processes)))
        await pilot.press("f2")
        await updated(app, pilot, terminal)
        assert "job19.py" in on(terminal)
        processes[19] = process_of(19, command_line=("python", "other.py"))
        feed.give(make_snapshot(8, processes=tuple(processes)))
        sent = await updated(app, pilot, terminal)
        assert "other.py" in on(terminal)
        assert "Colours" in on(terminal)
        assert 0 < len(sent.encode()) < 200


async def test_picture_uncovered_is_the_one_that_was_never_covered() -> None:
    pictures = []
    for covered in (True, False):
        feed, terminal = HandFeed(), Terminal(140, 40)
        app = host_app(feed, driver_class=CaptureDriver)
        async with app.run_test(headless=False, size=(140, 40)) as pilot:
            feed.give(busy_snapshot())
            if covered:
                await pilot.press("f2")
            feed.give(make_snapshot(4, processes=tuple(process_of(n) for n in range(12))))
            await updated(app, pilot, terminal)
            if covered:
                await pilot.press("escape")
            await updated(app, pilot, terminal)
        pictures.append(terminal.cells)
    assert pictures[0] == pictures[1]
