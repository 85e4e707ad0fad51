"""The app over a hand-fed feed, with real processes to aim at."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from gpudash.actions.kill.run import Timeouts
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.tui.app import GpudashApp
from gpudash.tui.dialogs.kill import KillScreen
from gpudash.tui.kill import ask
from gpudash.tui.overview import Overview
from tests import waiting
from tests.actions.kill.shown import HERE, shown
from tests.factories import GIB, make_process_device, make_snapshot
from tests.tui.stage import HandFeed, screen_lines

Start = Callable[..., subprocess.Popen[bytes]]


def process_for(pid: int, **overrides: Any) -> Process:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=GIB) for i in range(2))
    fields = {"devices": shares, "command_line": ("sleep", "600"), **overrides}
    return shown(pid, **fields)


def host_of(*processes: Process, **overrides: Any) -> Snapshot:
    return make_snapshot(2, **{"host": HERE, "processes": processes, **overrides})


class Stage:
    """The app with a hand on its feed."""

    def __init__(self, app: GpudashApp, pilot: Any, feed: HandFeed) -> None:
        self.app, self.pilot, self.feed = app, pilot, feed

    @property
    def text(self) -> str:
        return "\n".join(screen_lines(self.app))

    @property
    def footer(self) -> str:
        """Its last two lines: a long notice takes both."""
        return " ".join(" ".join(screen_lines(self.app)[-2:]).split())

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, and until all that was drawn with it is laid out."""
        deadline = time.monotonic() + waiting.LIMIT_SECONDS
        await self.pilot.pause()
        while not condition():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.02)
            await self.pilot.pause()

    async def shows(self, *texts: str) -> None:
        """Wait until all of it is on the screen, whose parts are drawn one after another."""
        await self.until(lambda: all(text in self.text for text in texts))

    async def reports(self, text: str) -> None:
        """Wait for an outcome, of which the footer shows what there is room for."""
        await self.until(lambda: text in self.app.front.dashboard.message)
        await self.until(lambda: self.app.front.dashboard.message[:30] in self.footer)

    async def repeats(self, snapshot: Snapshot, until: str) -> None:
        """Give one that shows the same until an outcome is reported: it takes some samples."""

        def is_reported() -> bool:
            if until not in self.app.front.dashboard.message:
                self.feed.give(replace(snapshot))
            return until in self.app.front.dashboard.message

        await self.until(is_reported)
        await self.reports(until)

    async def asked(self) -> KillScreen:
        """The dialog, once it is open and obeys."""
        await self.until(lambda: isinstance(self.app.screen, KillScreen))
        screen = self.app.screen
        assert isinstance(screen, KillScreen)
        await self.until(lambda: time.monotonic() > screen.obeys_from or self.is_guarded)
        return screen

    @property
    def is_guarded(self) -> bool:
        """Whether its questions ignore what comes early."""
        return any(self.app.guard_seconds)

    async def ask(self, *processes: Process, key: str = "K") -> KillScreen:
        self.feed.give(host_of(*processes))
        await self.pilot.press(key)
        return await self.asked()

    async def closed(self) -> None:
        await self.until(lambda: not self.app.screen.is_modal)

    async def click(self, text: str) -> None:
        lines = screen_lines(self.app)
        y = next(number for number, line in enumerate(lines) if text in line)
        await self.pilot.click(offset=(lines[y].index(text) + 1, y))


class ImpatientOverview(Overview):
    """An overview with time limits of its own."""

    def __init__(self, feed: HandFeed, timeouts: Timeouts) -> None:
        super().__init__(feed)
        self._timeouts = timeouts

    def action_kill(self, signal_name: str) -> None:
        ask(self, signal_name, self._timeouts)


@asynccontextmanager
async def stage(
    size: tuple[int, int] = (120, 36),
    timeouts: Timeouts | None = None,
    guard_seconds: float = 0.0,
) -> Any:
    feed = HandFeed()
    page = Overview(feed) if timeouts is None else ImpatientOverview(feed, timeouts)
    app = GpudashApp(page)
    app.guard_seconds = guard_seconds, guard_seconds
    async with app.run_test(size=size) as pilot:
        yield Stage(app, pilot, feed)
