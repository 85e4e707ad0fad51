from __future__ import annotations

import re
from typing import Any

import pytest

from tests.tui.actions.kill.stage import host_of, process_for, stage
from tests.tui.stage import process_of

HOSTILE = "\x1b]0;owned\x07\x1b[31m\u202e[/x][@click=app.bell]\n"


async def test_the_question_says_all_that_is_known(victim: Any) -> None:
    async with stage() as on:
        line = ("python", "train.py", "--token", "hunter2")
        process = process_for(victim.pid, command_line=line)
        await on.ask(process)
        for text in ("Kill this process?", str(victim.pid), "alice", "2.0 GiB on GPU 0-1"):
            assert text in on.text
        assert "GPU 0 1.0 GiB" in on.text
        place = on.app.screen.query_one("#question").region
        lines = on.text.splitlines()[place.y : place.bottom]
        box = "\n".join(line[place.x : place.right] for line in lines)
        assert "--token '***'" in box
        assert "hunter2" not in box
        await on.shows("children  none")


async def test_the_dialog_stays_with_its_process_when_the_list_changes(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        on.feed.give(host_of(process_of(1)))
        assert str(victim.pid) in on.text
        await on.pilot.press("y")
        assert victim.wait(5) == -9


async def test_a_long_command_scrolls_to_its_end_by_keys_and_wheel(victim: Any) -> None:
    line = ("python", *(f"--option-{n}" for n in range(400)))
    async with stage((80, 24)) as on:
        await on.ask(process_for(victim.pid, command_line=line))
        assert re.search(r"▼ \d+ more", on.text)
        assert "--option-399" not in on.text
        for _ in range(30):
            await on.pilot.press("pagedown")
        assert "--option-399" in on.text
        assert re.search(r"▲ \d+ more", on.text)
        assert "Kill  y" in on.text
        await on.pilot.press("up", "k")
        assert "--option-399" not in on.text
        box = on.app.screen.query_one("#question")
        await on.pilot._post_mouse_events([_wheel()], box)
        await on.shows("--option-399")


def _wheel() -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_a_hostile_command_is_harmless_text(victim: Any) -> None:
    from gpudash.model.text import clean

    async with stage() as on:
        await on.ask(process_for(victim.pid, command_line=("python", clean(HOSTILE))))
        assert r"\x1b]0;owned" in on.text
        assert "[@click=app.bell]" in on.text
        assert "\x1b" not in on.text


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 6), (10, 3), (3, 2), (1, 1)])
async def test_any_size_asks_and_takes_an_answer(victim: Any, size: tuple[int, int]) -> None:
    line = ("python", "x" * 4000)
    async with stage(size) as on:
        screen = await on.ask(process_for(victim.pid, command_line=line))
        await on.pilot.resize_terminal(200, 60)
        await on.shows("Kill this process?")
        await on.pilot.resize_terminal(*size)
        await on.pilot.press("down", "right", "n")
        await on.until(lambda: on.app.screen is not screen)
        assert victim.poll() is None


@pytest.mark.parametrize("size", [(20, 12), (24, 24), (60, 3), (10, 3), (3, 2), (1, 1)])
async def test_what_cannot_be_read_is_not_answered(victim: Any, size: tuple[int, int]) -> None:
    async with stage() as on:
        screen = await on.ask(process_for(victim.pid))
        await on.pilot.press("tab")
        await on.pilot.resize_terminal(*size)
        await on.until(lambda: on.app.size == size and "Kill" not in on.text)
        await on.pilot.press("y", "y", "right", "s", "t", "tab", "y")
        await on.pilot.pause()
        assert on.app.screen is screen
        if size[0] > 8 and size[1] > 1:
            assert "too small" in " ".join(on.text.split())
        await on.pilot.resize_terminal(120, 36)
        await on.shows("Kill this process?")
        assert victim.poll() is None
        await on.pilot.resize_terminal(*size)
        await on.until(lambda: "Kill" not in on.text)
        await on.pilot.press("n")
        await on.closed()
        assert victim.poll() is None


async def test_enter_cancels_what_cannot_be_read(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.pilot.press("tab")
        await on.pilot.resize_terminal(10, 3)
        await on.until(lambda: "too small" in on.text)
        await on.pilot.press("enter")
        await on.closed()
        assert victim.poll() is None


@pytest.mark.parametrize("size", [(25, 4), (40, 6), (80, 24)])
async def test_what_just_fits_is_answered(victim: Any, size: tuple[int, int]) -> None:
    async with stage(size) as on:
        await on.ask(process_for(victim.pid, command_line=("python", "x" * 4000)))
        for text in ("Kill this process?", str(victim.pid), "Kill  y"):
            assert text in on.text
        await on.pilot.press("pagedown", "y")
        assert victim.wait(5) == -9
