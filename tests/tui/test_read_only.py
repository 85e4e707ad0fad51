import subprocess
import sys

import pytest

from tests.tui.stage import busy_snapshot, on_screen

SCRIPT = """
import asyncio, sys
from tests.tui.stage import busy_snapshot, on_screen

async def main():
    async with on_screen(busy_snapshot(), read_only=True, size=(120, 30)) as on:
        await on.press("K", "T", "I", "f9", "space", "K", "h", "escape")
        await on.press("colon", *"kill", "enter")
        await on.press("escape")
        await on.press("enter")
        await on.press("K", "T", "I", "f9")

asyncio.run(main())
sys.exit("loaded" if "gpudash.actions.kill" in sys.modules else 0)
"""


def test_a_read_only_screen_never_loads_what_can_signal() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("key", ["K", "T", "I", "f9"])
async def test_a_key_that_would_signal_says_why_it_does_not(key: str) -> None:
    async with on_screen(busy_snapshot(), key, read_only=True) as on:
        assert "read-only: nothing is sent" in on.lines[-1]
        await on.press("enter", key)
        assert "read-only: nothing is sent" in on.lines[-1]


async def test_no_key_that_signals_is_offered() -> None:
    async with on_screen(busy_snapshot(), read_only=True, size=(140, 60)) as on:
        await on.press("K", "T", "I", "f9")
        assert len(on.app.screen_stack) == 1
        await on.press("down")
        assert "kill" not in on.lines[-1]
        assert "READ-ONLY" in on.lines[0]
        for opening in ("h", "colon"):
            await on.press(opening)
            text = on.text
            assert "kill it" not in text
            assert "send the signal" not in text
            await on.press("escape")
