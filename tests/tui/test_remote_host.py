"""The screen of another host: nothing of it reaches processes of this one."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from gpudash.feed.protocol import RemoteHost
from gpudash.tui.dialogs.kill import KillScreen
from gpudash.tui.keymap import OVERVIEW_KEYS
from tests.factories import make_process, make_snapshot
from tests.feed.hand import HandFeed
from tests.tui.stage import on_screen

SIGNALLING = [key.keys.split(",")[0] for key in OVERVIEW_KEYS if key.signals]


class Elsewhere:
    """A feed of a host `lab7` on which a process has the PID of one of this host."""

    def __init__(self, start_ticks: int | None = 303585) -> None:
        self.asked: list[Sequence[str]] = []
        self.feed = HandFeed()
        self.feed.remote = RemoteHost("lab7", self._run)
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        process = make_process(pid=self.child.pid, start_ticks=start_ticks)
        self.snapshot = make_snapshot(1, processes=(process,))

    def _run(self, words: Sequence[str]) -> list[str]:
        self.asked.append(words)
        return ["/nonexistent/ssh"]

    def end(self) -> None:
        self.child.kill()
        self.child.wait()


@pytest.mark.parametrize(
    ("view", "key"), [*(("", key) for key in SIGNALLING), ("enter", SIGNALLING[0])]
)
async def test_a_key_that_signals_asks_only_the_other_host(view: str, key: str) -> None:
    there = Elsewhere()
    try:
        pressed = *filter(None, [view]), key
        async with on_screen(there.snapshot, *pressed, size=(100, 24), feed=there.feed) as on:
            [words] = there.asked
            assert words[:2] == ["kill", "-s"]
            assert words[3:] == [f"{there.child.pid}:303585"]
            # No question of ours, behind which a local signal would be.
            assert not isinstance(on.app.screen, KillScreen)
            await on.press("y", "enter")
        assert there.child.poll() is None
        os.kill(there.child.pid, 0)
    finally:
        there.end()


async def test_a_process_whose_start_is_unknown_is_not_named() -> None:
    there = Elsewhere(start_ticks=None)
    try:
        async with on_screen(there.snapshot, "K", size=(100, 24), feed=there.feed) as on:
            assert there.asked == []
            assert "does not report when a process started" in on.lines[-1]
    finally:
        there.end()


async def test_the_proc_of_this_host_is_not_read_for_another() -> None:
    there = Elsewhere()
    try:
        async with on_screen(there.snapshot, "enter", size=(100, 40), feed=there.feed) as on:
            text = on.text
            assert "this is lab7" in text
            assert "time.sleep" not in text
    finally:
        there.end()
