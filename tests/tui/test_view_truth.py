import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpudash.feed.protocol import FeedState
from gpudash.model.snapshot import Snapshot
from gpudash.tui.app import GpudashApp
from gpudash.tui.draw import chart
from gpudash.tui.preferences import Preferences
from tests.factories import make_device, make_snapshot
from tests.tui.past import sample
from tests.tui.stage import (
    CaptureDriver,
    HandFeed,
    Terminal,
    busy_snapshot,
    host_app,
    process_of,
    screen_lines,
    text_of,
    updated,
)

chart.load()

SIZE = (120, 40)
VIEWS = {"device": "d", "links": "m", "users": "u", "process": "enter"}
PLACES = {"overview": (), **{view: (key,) for view, key in VIEWS.items()}}
LARGE, SMALL = (200, 60), (40, 10)


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")


def colours(terminal: Terminal) -> set[str]:
    """Of the text between the first line and the last."""
    return {
        foreground
        for line in terminal.cells[1:-1]
        for character, foreground, _background, _bold in line
        if character.strip()
    }


@pytest.mark.parametrize(
    ("view", "state"),
    [*((view, FeedState.STALE) for view in VIEWS), ("device", FeedState.RESTARTING)],
)
async def test_view_of_a_silent_feed_fades_and_says_why(view: str, state: FeedState) -> None:
    feed, terminal = HandFeed(), Terminal(*SIZE)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=SIZE) as pilot:
        feed.give(busy_snapshot())
        await pilot.press(VIEWS[view])
        await updated(app, pilot, terminal)
        theme = app.front.dashboard.theme
        plain, shrill = (
            {style.color.triplet.hex[1:] for style in styles if style.color and style.color.triplet}
            for styles in ((theme.base, theme.strong), (theme.warn, theme.critical))
        )
        assert colours(terminal) & plain
        feed.error = "collector: no answer for 14 s"
        feed.change(state, 14)
        await updated(app, pilot, terminal)
        assert not colours(terminal) & (plain | shrill)
        assert "14s" in terminal.lines[0]
        assert "no answer for 14 s" in terminal.lines[-1]
        feed.error = None
        feed.change(FeedState.LIVE)
        feed.give(busy_snapshot())
        await updated(app, pilot, terminal)
        assert colours(terminal) & plain
        assert "14s" not in terminal.lines[0]
        assert "no answer" not in terminal.lines[-1]


@pytest.mark.parametrize(
    ("view", "size"), [*((view, (40, 10)) for view in VIEWS), ("device", (80, 24))]
)
async def test_marks_stand_in_the_first_line_of_a_view(view: str, size: tuple[int, int]) -> None:
    feed, terminal = HandFeed(), Terminal(*size)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=size) as pilot:
        feed.give(busy_snapshot())
        feed.give(busy_snapshot())
        await pilot.press(VIEWS[view], "p")
        await updated(app, pilot, terminal)
        assert "PAUSED" in terminal.lines[0]
        feed.change(FeedState.STALE, 14)
        await updated(app, pilot, terminal)
        assert "STALE 14s" in terminal.lines[0]


@asynccontextmanager
async def opened(
    place: str, snapshot: Snapshot, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[HandFeed, GpudashApp, Any]]:
    """A place of a host, drawn to its end."""
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=size) as pilot:
        feed.give(snapshot)
        await pilot.press(*PLACES[place])
        await pilot.pause()
        yield feed, app, pilot


def body(app: GpudashApp) -> list[str]:
    """What stands between the first line and the last, but for the axis of time."""
    return [line for line in screen_lines(app)[1:-1] if not re.search(r"-\d+s ", line)]


def changing(number: int) -> Snapshot:
    """A sample of a host of which every view shows another value each time."""
    gpus = tuple(
        make_device(index=n, gpu_utilization_percent=20 * n + number, pcie_tx_bytes_per_second=rate)
        for n, rate in enumerate((number << 30, 0))
    )
    processes = tuple(process_of(n, cpu_percent=10.0 * n + number) for n in range(3))
    return sample(10 * number, [0, 0], devices=gpus, processes=processes)


@pytest.mark.parametrize("place", PLACES)
async def test_a_paused_view_stands_still_and_each_step_back_is_as_it_was(place: str) -> None:
    async with opened(place, changing(0)) as (feed, app, pilot):
        seen = []
        for second in (1, 2, 3):
            feed.give(changing(second))
            await pilot.pause()
            seen.append(body(app))
        await pilot.press("p")
        frozen = text_of(app)
        assert "PAUSED" in frozen
        feed.give(changing(4))
        await pilot.pause()
        assert text_of(app) == frozen
        frozen = body(app)
        for earlier in reversed(seen[:-1]):
            await pilot.press("[")
            assert body(app) == earlier
        await pilot.press("]", "]")
        assert body(app) == frozen
        await pilot.press("p")
        assert not re.search("PAUSED|AGO", text_of(app))
        assert body(app) not in (frozen, *seen)


@pytest.mark.parametrize(
    ("place", "gpus", "processes"),
    [
        *((place, 64, 500) for place in PLACES),
        *((place, 8, 0) for place in PLACES if place != "process"),
    ],
)
async def test_another_size_is_the_picture_of_a_fresh_start(
    place: str, gpus: int, processes: int
) -> None:
    listed = tuple(process_of(number % 60, pid=1000 + number) for number in range(processes))
    host = make_snapshot(gpus, processes=listed)
    async with opened(place, host, SMALL) as (_feed, app, _pilot):
        small = text_of(app)
    async with opened(place, host) as (_feed, app, pilot):
        large = text_of(app)
        for size, picture in ((SMALL, small), (LARGE, large)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert text_of(app) == picture


@pytest.mark.parametrize("view", ["device", "process"])
async def test_other_colours_reach_a_view_and_what_lies_below(view: str) -> None:
    pictures = []
    for start in ("dark", "light"):
        feed, terminal = HandFeed(), Terminal(*SIZE)
        preferences = Preferences(theme=start)
        app = host_app(feed, driver_class=CaptureDriver, preferences=preferences)
        async with app.run_test(headless=False, size=SIZE) as pilot:
            feed.give(busy_snapshot())
            await pilot.press(VIEWS[view])
            await updated(app, pilot, terminal)
            if start == "dark":
                await pilot.press("f2", "down", "enter")
                await updated(app, pilot, terminal)
            above = terminal.cells
            await pilot.press("escape")
            await updated(app, pilot, terminal)
            pictures.append((above, terminal.cells))
    assert pictures[0][0] == pictures[1][0]
    assert pictures[0][1] == pictures[1][1]


async def test_colours_are_worn_while_they_are_looked_at_and_taken_back_by_escape(
    tmp_path: Path,
) -> None:
    feed, terminal = HandFeed(), Terminal(*SIZE)
    preferences = Preferences(str(tmp_path / "config.toml"))
    app = host_app(feed, driver_class=CaptureDriver, preferences=preferences)
    async with app.run_test(headless=False, size=SIZE) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("d")
        await updated(app, pilot, terminal)
        before = terminal.cells
        grounds = []
        await pilot.press("f2")
        for keys in ([], ["down"], ["down"], [*"term"], ["backspace"] * 4):
            await pilot.press(*keys)
            await updated(app, pilot, terminal)
            title = next(y for y, line in enumerate(terminal.lines) if "Colours" in line)
            x = terminal.lines[title].index("Colours")
            grounds.append((terminal.cells[0][0][2], terminal.cells[title][x][2]))
        assert all(beside == within for beside, within in grounds)
        assert len(set(grounds)) >= 4
        await pilot.press("escape")
        await updated(app, pilot, terminal)
        assert terminal.cells == before
        assert preferences.is_saved


async def test_many_changes_of_colours_leave_none_behind() -> None:
    feed, terminal = HandFeed(), Terminal(*SIZE)
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=SIZE) as pilot:
        feed.give(busy_snapshot())
        await updated(app, pilot, terminal)
        before = terminal.cells
        for key in ("down", "down", "up", "up"):
            await pilot.press("f2", key, "enter")
            await updated(app, pilot, terminal)
            assert key == "up" or terminal.cells != before
        assert terminal.cells == before


@pytest.mark.parametrize(
    ("key", "unknown"),
    [
        ("d", "The GPUs are not known"),
        ("w", "The GPUs are not known"),
        ("u", "Which processes run is not known"),
        ("m", "No topology: the GPUs are not known"),
    ],
)
async def test_nothing_is_said_to_be_missing_before_anything_was_seen(
    key: str, unknown: str
) -> None:
    app = host_app(HandFeed())
    async with app.run_test(size=(100, 20)) as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert unknown in text_of(app)
