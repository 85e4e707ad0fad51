"""The app over a hand-fed feed, with real processes to aim at."""

import subprocess
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from gpudash.actions.kill.run import Timeouts
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.tui.dialogs.kill import KillScreen
from gpudash.tui.kill import ask
from gpudash.tui.overview import Overview
from tests.actions.kill.shown import HERE, shown
from tests.factories import GIB, make_process_device, make_snapshot
from tests.feed.hand import HandFeed
from tests.tui.stage import OnScreen, on_screen

Start = Callable[..., subprocess.Popen[bytes]]


def process_for(pid: int, **overrides: Any) -> Process:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=GIB) for i in range(2))
    fields = {"devices": shares, "command_line": ("sleep", "600"), **overrides}
    return shown(pid, **fields)


def host_of(*processes: Process, **overrides: Any) -> Snapshot:
    return make_snapshot(2, **{"host": HERE, "processes": processes, **overrides})


class Stage(OnScreen):
    """The app with a hand on its feed, of which processes are killed."""

    async def reports(self, text: str) -> None:
        """Wait for an outcome, of which the footer shows what there is room for."""
        await self.until(lambda: text in self.dashboard.message)
        await self.until(lambda: self.dashboard.message[:30] in self.footer)

    async def repeats(self, snapshot: Snapshot, until: str) -> None:
        """Give one that shows the same until an outcome is reported: it takes some samples."""

        def is_reported() -> bool:
            if until not in self.dashboard.message:
                self.feed.give(replace(snapshot))
            return until in self.dashboard.message

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

    async def click_on(self, text: str) -> None:
        lines = self.lines
        y = next(number for number, line in enumerate(lines) if text in line)
        await self.pilot.click(offset=(lines[y].index(text) + 1, y))


class ImpatientOverview(Overview):
    """An overview with time limits of its own."""

    def __init__(self, feed: HandFeed, timeouts: Timeouts) -> None:
        super().__init__(feed)
        self._timeouts = timeouts

    def action_kill(self, signal_name: str) -> None:
        ask(self.app, self.model, self.chosen_rows, signal_name, self._timeouts)


@asynccontextmanager
async def stage(
    size: tuple[int, int] = (120, 36),
    timeouts: Timeouts | None = None,
    guard_seconds: float = 0.0,
    captured: bool = False,
) -> Any:
    feed = HandFeed()
    page = Overview(feed) if timeouts is None else ImpatientOverview(feed, timeouts)
    async with on_screen(
        page=page, size=size, guard_seconds=guard_seconds, captured=captured
    ) as on:
        yield Stage(on.app, on.pilot, feed, size)
