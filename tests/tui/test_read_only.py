import subprocess
import sys

import pytest

from gpudash.tui.preferences import Preferences
from tests.tui.stage import HandFeed, busy_snapshot, host_app, screen_lines

SCRIPT = """
import asyncio, sys
from gpudash.tui.preferences import Preferences
from tests.tui.stage import HandFeed, busy_snapshot, host_app

async def main():
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(read_only=True))
    async with app.run_test(size=(120, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("K", "T", "I", "f9", "space", "K", "h", "escape")
        await pilot.press("colon", *"kill", "enter")
        await pilot.press("escape")
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("K", "T", "I", "f9")
        await pilot.pause()

asyncio.run(main())
sys.exit("loaded" if "gpudash.actions.kill" in sys.modules else 0)
"""


def test_a_read_only_screen_never_loads_what_can_signal() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("key", ["K", "T", "I", "f9"])
async def test_a_key_that_would_signal_says_why_it_does_not(key: str) -> None:
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(read_only=True))
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press(key)
        await pilot.pause()
        assert "read-only: nothing is sent" in screen_lines(app)[-1]
        await pilot.press("enter", key)
        await pilot.pause()
        assert "read-only: nothing is sent" in screen_lines(app)[-1]


async def test_no_key_that_signals_is_offered() -> None:
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(read_only=True))
    async with app.run_test(size=(140, 60)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("K", "T", "I", "f9")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await pilot.press("down")
        assert "kill" not in screen_lines(app)[-1]
        assert "READ-ONLY" in screen_lines(app)[0]
        for opening in ("h", "colon"):
            await pilot.press(opening)
            await pilot.pause()
            text = "\n".join(screen_lines(app))
            assert "kill it" not in text
            assert "send the signal" not in text
            await pilot.press("escape")
