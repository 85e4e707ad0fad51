import re

from gpudash.collect.local import open_simulated
from gpudash.collect.simulated import NAMES
from gpudash.model.text import clean
from tests.factories import make_snapshot
from tests.tui.stage import (
    CaptureDriver,
    HandFeed,
    Terminal,
    busy_snapshot,
    host_app,
    process_of,
    screen_lines,
    text_of,
)

SIZES = [(1, 1), (3, 10), (10, 3), (200, 1), (1, 60), (40, 10), (80, 24), (140, 40), (200, 60)]


async def test_no_size_is_too_small_or_too_large() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        for devices, processes in [(0, 0), (8, 30), (64, 100)]:
            feed.give(busy_snapshot(processes, devices))
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await pilot.press("j", "right_square_bracket")
                lines = screen_lines(app)
                assert len(lines) == size[1]
        await pilot.resize_terminal(3, 2)
        await pilot.press("h")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        await pilot.pause()
        assert "quit" in screen_lines(app)[-1]


async def test_every_simulated_host_is_shown() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        for name in NAMES:
            feed.give(open_simulated(name).sample())
            await pilot.pause()
            assert re.search(r"(?m)^\W*0 .*(\d+C|asleep|\d+ +\d+ )", text_of(app)), name


HOSTILE = [
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b[2J",
    "\x9b31m",
    "[/x]",
    "[@click=app.leave]x[/]",
    "\u202eevil",
    "a\nb",
    "\x00",
]


POINTER_SHAPE = "\x1b]22;default\x07"


async def test_hostile_names_reach_the_terminal_as_text_only() -> None:
    feed = HandFeed()
    app = host_app(feed, driver_class=CaptureDriver)
    command = tuple(clean(word) for word in HOSTILE)
    hostile = process_of(0, command_line=command, username=clean("\x1b]0;x\x07[/b]"))
    async with app.run_test(headless=False, size=(160, 40)) as pilot:
        feed.give(make_snapshot(2, processes=(hostile,)))
        await pilot.pause()
        await pilot.pause()
        driver = app._driver
        assert isinstance(driver, CaptureDriver)
        terminal = Terminal(160, 40)
        sent = driver.take().replace(POINTER_SHAPE, "")
        terminal.feed(sent)
        assert any("[/x]" in line for line in terminal.lines)
        assert any("[@click=app.leave]" in line for line in terminal.lines)
        for raw in ("\x1b]52", "\x1b]0", "\x1b[2J", "\x9b", "\u202e", "\x00", "\x07"):
            assert raw not in sent
