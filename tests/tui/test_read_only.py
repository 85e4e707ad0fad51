import subprocess
import sys

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


async def test_no_key_that_signals_is_offered_and_each_says_why() -> None:
    async with on_screen(busy_snapshot(), read_only=True, size=(140, 60)) as on:
        for view in ("enter", "escape"):
            await on.press(view)
            for key in ("K", "T", "I", "f9"):
                screen = on.app.screen
                await on.press("down", key)
                assert "read-only: nothing is sent" in on.lines[-1]
                assert on.app.screen is screen
        await on.press("down")
        assert "kill" not in on.lines[-1]
        assert "READ-ONLY" in on.lines[0]
        for opening in ("h", "colon"):
            await on.press(opening)
            text = on.text
            assert "kill it" not in text
            assert "send the signal" not in text
            await on.press("escape")
