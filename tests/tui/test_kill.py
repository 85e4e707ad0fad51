import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from gpudash.actions import pin
from gpudash.rows import ProcessRow
from gpudash.snapshot import Host, Process
from gpudash.text import clean
from gpudash.tui.app import GpudashApp
from gpudash.tui.screens.kill import KillScreen, describe
from tests.factories import GIB, make_host, make_process_device, make_snapshot
from tests.tui.stage import HandFeed, process_of, screen_lines


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def here() -> Host:
    return make_host(hostname=clean(os.uname().nodename))


def process_for(child: subprocess.Popen[bytes], **overrides: Any) -> Process:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=GIB) for i in range(2))
    fields: dict[str, Any] = {
        "pid": child.pid,
        "create_time": psutil.Process(child.pid).create_time(),
        "devices": shares,
        "command_line": ("sleep", "600"),
    }
    process: Process = process_of(0, **{**fields, **overrides})
    return process


async def until(pilot: Any, condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await pilot.pause(0.02)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def open_dialog(app: GpudashApp, pilot: Any, feed: HandFeed, process: Process) -> KillScreen:
    feed.give(make_snapshot(2, host=here(), processes=(process,)))
    await pilot.press("K")
    await until(pilot, lambda: isinstance(app.screen, KillScreen))
    screen = app.screen
    assert isinstance(screen, KillScreen)
    screen._opened_at -= 1
    return screen


async def test_confirmed_kill_ends_the_process_and_says_what_it_freed(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        text = "\n".join(screen_lines(app))
        assert str(victim.pid) in text
        assert "alice" in text
        assert "sleep 600" in text
        assert "2.0 GiB on GPU 0-1" in text
        await pilot.press("y")
        await until(pilot, lambda: "killed" in screen_lines(app)[-1])
        assert f"killed {victim.pid} (alice): 2.0 GiB freed on GPU 0-1" in screen_lines(app)[-1]
        assert victim.wait(5) == -9


@pytest.mark.parametrize("key", ["escape", "n", "enter"])
async def test_cancel_is_the_default_and_has_keys(victim: Any, key: str) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        await pilot.press(key)
        await until(pilot, lambda: not isinstance(app.screen, KillScreen))
        assert victim.poll() is None


async def test_enter_kills_only_from_the_kill_button(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "killed" in screen_lines(app)[-1])
        assert victim.wait(5) == -9


async def test_keys_that_are_still_held_do_not_answer(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        screen = await open_dialog(app, pilot, feed, process_for(victim))
        clock = Clock()
        screen._clock, screen._opened_at = clock, 0.0
        clock.now = 0.29
        await pilot.press("y", "y")
        assert app.screen is screen
        assert victim.poll() is None
        clock.now = 0.31
        await pilot.press("n")
        await until(pilot, lambda: app.screen is not screen)


async def test_dialog_stays_with_its_process_when_the_list_changes(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        feed.give(make_snapshot(2, host=here(), processes=(process_of(1),)))
        await pilot.press("y")
        assert victim.wait(5) == -9


async def test_process_that_ends_by_itself_closes_the_dialog(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        victim.kill()
        await until(pilot, lambda: not isinstance(app.screen, KillScreen))
        await until(pilot, lambda: "exited by itself" in screen_lines(app)[-1])


async def test_reused_pid_is_refused(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        feed.give(
            make_snapshot(2, host=here(), processes=(process_for(victim, create_time=1_000_000.0),))
        )
        await pilot.press("K")
        await until(pilot, lambda: "refused" in screen_lines(app)[-1])
        assert victim.poll() is None


async def test_buttons_can_be_clicked(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_dialog(app, pilot, feed, process_for(victim))
        lines = screen_lines(app)
        y = next(number for number, line in enumerate(lines) if "Kill  y" in line)
        await pilot.click(offset=(lines[y].index("Kill  y"), y))
        assert victim.wait(5) == -9


def test_long_command_is_wrapped_and_bounded(victim: Any) -> None:
    process = process_for(victim, command_line=("python", *(f"--option-{n}" for n in range(200))))
    lines = describe(ProcessRow(process, "0-1", 12.0), 50)
    assert len(lines) < 16
    assert all(len(text) <= 50 for _label, text in lines)


async def test_dialog_fits_a_tiny_terminal(victim: Any) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(20, 6)) as pilot:
        screen = await open_dialog(app, pilot, feed, process_for(victim))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is not screen)


def test_target_is_pinned_before_the_question(victim: Any) -> None:
    with pin(process_for(victim), here()) as target:
        assert target.alive()
