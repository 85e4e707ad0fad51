"""The screen under random use: keys, snapshots, sizes, lost GPUs, in any order."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from textual.pilot import Pilot

from gpudash.analysis.history.metrics import ProcessKey
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.tui.keymap import OVERVIEW_KEYS
from tests.factories import gpu_uuid, make_device, make_snapshot
from tests.feed.hand import HandFeed
from tests.tui.stage import on_screen, process_of

KEYS = [name for key in OVERVIEW_KEYS for name in key.keys.split(",") if name != "ctrl+z"]
LETTERS = ["alice", "bob", "gpu", ":", "1", "mem", ">", "5", "G", "-", "x"]

QUITTING = ("q", "ctrl+c", "f10")

HOSTILE = ("\x1b]0;x\x07", "[/x][@click=app.leave]", "\u202eevil", "a\nb\x00\x9b31m", "漢字" * 9)
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ALLOWED = re.compile(
    r"\x1b(\[B\x08{1,4}|\[[0-9;?]*[@A-Za-z]|\]22;[a-z-]*\x07|\]52;c;[A-Za-z0-9+/=]*\x07)"
)


def processes(numbers: list[int], percent: int) -> tuple[Process, ...]:
    return tuple(
        process_of(
            number,
            command_line=("python", clean(HOSTILE[number % len(HOSTILE)]), f"job{number}.py"),
            cpu_percent=float(number * percent % 100),
        )
        for number in numbers
    )


def device(index: int, is_lost: bool) -> Device:
    if not is_lost:
        return make_device(index=index, uuid=gpu_uuid(index))
    fault = Fault(source="nvml", message=clean(f"GPU {index} fell off the bus. " * index))
    return Device(index=index, uuid=gpu_uuid(index), state="lost", fault=fault)


class Dashboard(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.feed = HandFeed()
        self.had: tuple[set[object], set[object]] = set(), set()
        self.steps: asyncio.Queue[Any] = asyncio.Queue()
        self.task = self.loop.create_task(self.serve())
        self.run(lambda pilot: pilot.pause())

    async def serve(self) -> None:
        """Take all steps in one task: Textual's context belongs to it."""
        async with on_screen(feed=self.feed, captured=True, size=(100, 30)) as self.on:
            self.app = self.on.app
            while True:
                step, done = await self.steps.get()
                if step is None:
                    done.set_result(None)
                    return
                try:
                    await step(self.on.pilot)
                    await self.on.pilot.pause()
                    done.set_result(None)
                except BaseException as error:
                    done.set_exception(error)
                    raise

    def run(self, step: Callable[[Pilot[int]], Awaitable[object]] | None) -> None:
        done = self.loop.create_future()
        self.steps.put_nowait((step, done))
        self.loop.run_until_complete(asyncio.wait([done, self.task], return_when="FIRST_COMPLETED"))
        (self.task if self.task.done() and not done.done() else done).result()

    def give(self, snapshot: Snapshot) -> None:
        self.feed.give(snapshot)
        self.run(lambda pilot: pilot.pause())

    def press_key(self, key: str) -> None:
        self.run(lambda pilot: pilot.press(key))

    def teardown(self) -> None:
        if not self.task.done():
            self.run(None)
        self.loop.run_until_complete(self.task)
        self.loop.close()

    @property
    def selected(self) -> ProcessKey | None:
        return self.on.listing.selected_key

    @initialize()
    def begin(self) -> None:
        self.give(make_snapshot(4, processes=processes([1, 2, 3, 4, 5], 7)))
        self.choose()

    @property
    def device(self) -> str | None:
        row = self.on.dashboard.devices.selected
        return row.device.key if row else None

    @rule(
        numbers=st.lists(st.integers(0, 30), unique=True, max_size=20),
        devices=st.sampled_from([0, 1, 4, 40]),
        lost=st.frozensets(st.integers(0, 5)),
        percent=st.integers(0, 99),
    )
    def snapshot(
        self, numbers: list[int], devices: int, lost: frozenset[int], percent: int
    ) -> None:
        before = self.selected, self.device
        paused = not self.on.dashboard.time.is_live
        every = tuple(device(index, index in lost) for index in range(devices))
        snapshot = make_snapshot(devices=every, processes=processes(numbers, percent))
        self.give(snapshot)
        if paused:
            assert (self.selected, self.device) == before
            return
        rows = {row.device.key for row in self.on.dashboard.devices.rows}
        present = ({process.key for process in snapshot.processes}, rows)
        after = before[0] if self.is_given_up else self.selected, self.device
        for now, earlier, had, there in zip(after, before, self.had, present, strict=True):
            # It may go back to one that some samples left out, but to no other.
            assert now == earlier or now in had or earlier not in there
        self.choose()

    @property
    def is_given_up(self) -> bool:
        """Whether the list stays at its top instead of with a process that nobody chose."""
        return self.selected is None and self.on.listing.is_at_home

    def choose(self) -> None:
        self.had[0].add(self.selected)
        self.had[1].add(self.device)

    @rule(key=st.sampled_from(KEYS))
    def press(self, key: str) -> None:
        # Everywhere but on the overview q goes back; the others always quit.
        if key not in QUITTING or (key == "q" and len(self.app.screen_stack) > 1):
            self.press_key(key)
            self.choose()

    @rule(words=st.lists(st.sampled_from(LETTERS), max_size=6))
    def filter(self, words: list[str]) -> None:
        while len(self.app.screen_stack) > 1:
            self.press_key("escape")
        self.press_key("slash")
        for word in words:
            self.app.front.prompt.edit.insert_text_at_cursor(word)
            self.press_key("space")
        self.press_key("enter")
        self.choose()

    @rule(size=st.sampled_from([(1, 1), (40, 10), (80, 24), (200, 60), (20, 40)]))
    def resize(self, size: tuple[int, int]) -> None:
        before = self.selected
        self.run(lambda pilot: pilot.resize_terminal(*size))
        assert self.selected == before or self.is_given_up

    @rule(x=st.integers(0, 99), y=st.integers(0, 29))
    def click(self, x: int, y: int) -> None:
        width, height = self.app.size
        if y < height - 1:
            self.run(lambda pilot: pilot.click(offset=(min(x, width - 1), y)))
            self.choose()

    @invariant()
    def runs(self) -> None:
        assert self.app.is_running
        assert self.app._exception is None
        assert len(self.on.lines) == self.app.size.height

    @invariant()
    def the_cursor_is_in_the_list(self) -> None:
        listing = self.on.listing
        assert listing.cursor == 0 or listing.cursor < len(listing.rows)
        assert {row.process.key for row in listing.tagged_rows} <= listing.tagged

    @invariant()
    def no_forbidden_byte_is_sent(self) -> None:
        rest = ALLOWED.sub("", self.on.driver.take())
        assert not FORBIDDEN.search(rest), repr(rest)
        assert "\x1b" not in rest, repr(rest)


Dashboard.TestCase.settings = settings(
    max_examples=3, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDashboard = Dashboard.TestCase
