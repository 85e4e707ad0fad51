"""A feed fed by hand and a terminal that only remembers, for tests of the screen."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pyte
from textual.app import App
from textual.events import Resize
from textual.geometry import Size

from gpudash.model.fleet import FleetSnapshot
from gpudash.model.snapshot import Snapshot
from gpudash.tui.app import GpudashApp
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.link import FrameLimiter, NonBlockingWriter
from gpudash.tui.overview import Overview
from gpudash.tui.preferences import Preferences
from gpudash.tui.terminal import Terminal as TerminalDriver
from tests.factories import (
    GIB,
    gpu_uuid,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.feed.hand import HandFeed, HandFleetFeed
from tests.waiting import LIMIT_SECONDS


class OnScreen:
    """An app on a screen, with a hand on its feed and its keys: each waits until all is drawn."""

    def __init__(self, app: GpudashApp, pilot: Any, feed: Any, size: tuple[int, int]) -> None:
        self.app, self.pilot, self.feed = app, pilot, feed
        self.terminal = Terminal(*size)

    @property
    def lines(self) -> list[str]:
        with self.app._context():
            return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def footer(self) -> str:
        """Its last two lines: a long notice takes both."""
        return " ".join(" ".join(self.lines[-2:]).split())

    @property
    def dashboard(self) -> Any:
        """What the host in front shows."""
        return self.app.front.model

    @property
    def listing(self) -> Any:
        """The processes of the host in front."""
        return self.dashboard.listing

    @property
    def model(self) -> Any:
        """What the page of many hosts in front shows."""
        return self.app.front.model

    @property
    def selected(self) -> int:
        """The PID under the cursor."""
        return self.listing.selected.process.pid

    @property
    def driver(self) -> CaptureDriver:
        """What keeps the bytes, where they are captured."""
        driver = self.app.terminal
        assert isinstance(driver, CaptureDriver)
        return driver

    async def give(self, snapshot: Any) -> None:
        self.feed.give(snapshot)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def click(self, *widget: str, offset: tuple[int, int]) -> None:
        await self.pilot.click(*widget, offset=offset)
        await self.pilot.pause()

    async def resize(self, *size: int) -> None:
        await self.pilot.resize_terminal(*size)
        await self.pilot.pause()

    async def sent(self) -> str:
        """Let the terminal show all that the app has to send, and return the bytes."""
        for _ in range(4):
            await self.pilot.pause()
        sent = self.driver.take()
        self.terminal.feed(sent)
        return sent

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, and until all that was drawn with it is laid out."""
        deadline = time.monotonic() + LIMIT_SECONDS
        await self.pilot.pause()
        while not condition():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.02)
            await self.pilot.pause()

    async def shows(self, *texts: str) -> str:
        """The screen once it shows all of it: its parts are drawn one after another."""
        await self.until(lambda: all(text in self.text for text in texts))
        return self.text


@asynccontextmanager
async def on_screen(
    snapshot: Snapshot | FleetSnapshot | None = None,
    *pressed: str,
    size: tuple[int, int] = (80, 24),
    feed: Any = None,
    page: Any = None,
    captured: bool = False,
    guard_seconds: float | None = None,
    preferences: Preferences | None = None,
    no_color: bool = False,
    **settings: Any,
) -> AsyncIterator[OnScreen]:
    """A snapshot of a host, or of many, on its first page, and where some keys lead."""
    if page is None and isinstance(snapshot, FleetSnapshot):
        page = MapPage(FleetModel(HandFleetFeed()))
    page = page or Overview(feed or HandFeed())
    app = GpudashApp(
        page,
        preferences=preferences or Preferences(None, **settings),
        driver_class=CaptureDriver if captured else None,
        no_color=no_color,
    )
    if guard_seconds is not None:
        app.guard_seconds = guard_seconds, guard_seconds
    async with app.run_test(headless=not captured, size=size) as pilot:
        on = OnScreen(app, pilot, page.feed, size)
        if snapshot is not None:
            on.feed.give(snapshot)
        await on.press(*pressed)
        yield on


class CaptureDriver(TerminalDriver):
    """Keeps what would be sent, as often as that is; there is no terminal."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._extent = Size(*(options.get("size") or (80, 24)))
        self._sent = SentBytes()
        self.limiter = FrameLimiter(burst=1e9)

    def start_application_mode(self) -> None:
        self.output = self._sent
        self.owner.post_message(Resize(self._extent, self._extent))

    def stop_application_mode(self) -> None: ...

    def disable_input(self) -> None: ...

    def close(self) -> None:
        self.output = None

    def take(self) -> str:
        sent = "".join(self._sent.parts)
        self._sent.parts.clear()
        return sent


class SentBytes(NonBlockingWriter):
    """Remembers what was written to it."""

    busy = False

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, data: str) -> None:
        self.parts.append(data)


def process_of(number: int, **overrides: Any) -> Any:
    """One of many: its memory falls with its number, its GPU goes round."""
    index = number % 4
    share = make_process_device(
        index=index, uuid=gpu_uuid(index), used_gpu_memory_bytes=(60 - number) * GIB
    )
    fields: dict[str, Any] = {
        "pid": 1000 + number,
        "create_time": 1_760_000_000.0 + number,
        "devices": (share,),
        "username": ("alice", "bob")[number % 2],
        "command_line": ("python", f"job{number}.py"),
    }
    return make_process(**{**fields, **overrides})


def busy_snapshot(processes: int = 20, devices: int = 8, **overrides: Any) -> Snapshot:
    """A host of eight GPUs with many processes."""
    listed = tuple(process_of(number) for number in range(processes))
    return make_snapshot(devices, processes=listed, **overrides)


async def ended(app: App[Any]) -> None:
    """Wait for the end of an app: a pilot would wait for a screen that has gone by then."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while app.return_code is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


class Terminal:
    """An emulated terminal that shows what a driver sent."""

    def __init__(self, columns: int, lines: int) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self.screen)

    def feed(self, data: str) -> None:
        # pyte prints the tails of sequences that it does not know.
        self._stream.feed(re.sub(r"\x1b\[\?2026[hl]", "", data))

    @property
    def lines(self) -> list[str]:
        return list(self.screen.display)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def cells(self) -> list[list[tuple[str, str, str, bool]]]:
        """Each cell's character, colours and weight; of a blank the background, all one sees."""
        return [
            [
                (cell.data, cell.fg, cell.bg, cell.bold)
                if cell.data != " " or cell.underscore or cell.reverse
                else (" ", "", cell.bg, False)
                for cell in (row[x] for x in range(columns))
            ]
            for columns in (self.screen.columns,)
            for row in (self.screen.buffer[y] for y in range(self.screen.lines))
        ]
