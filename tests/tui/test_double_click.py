"""A click that comes once more before the first is dealt with opens and closes nothing else."""

from typing import Any

import pytest
from textual.events import Click

from gpudash.tui.dialogs.choose import ChooseScreen
from tests.tui.kill_stage import process_for, stage
from tests.tui.stage import OnScreen, busy_snapshot, on_screen
from tests.waiting import LIMIT_SECONDS

_BESIDE = (1, 38)


def _place(on: OnScreen, text: str) -> tuple[int, int]:
    lines = on.lines
    y = next(y for y, line in enumerate(lines) if text in line)
    return lines[y].index(text) + 1, y


async def _click_twice(on: OnScreen, place: tuple[int, int]) -> None:
    """Let both clicks be there before the first is dealt with, as from a quick hand."""
    x, y = place
    widget = on.app.screen.get_widget_at(x, y)[0]
    region = widget.region
    told: dict[str, Any] = {
        "delta_x": 0,
        "delta_y": 0,
        "button": 1,
        "shift": False,
        "meta": False,
        "ctrl": False,
        "screen_x": x,
        "screen_y": y,
    }
    for _ in range(2):
        click = Click(widget, x - region.x, y - region.y, **told)
        click.style = on.app.screen.get_style_at(x, y)
        click._set_forwarded()
        widget.post_message(click)
    for _ in range(4):
        await on.pilot.pause()


async def test_beside_a_list_closes_the_list_alone() -> None:
    async with on_screen(busy_snapshot(6), size=(120, 40)) as on:
        for key in ("s", "h", "g"):
            await on.press(key)
            assert on.app.screen.is_modal
            await _click_twice(on, _BESIDE)
            assert on.app.is_running
            assert on.app.screen is on.app.screen_stack[0], key


@pytest.mark.parametrize(("button", "status"), [("Kill  y", -9), ("Cancel", None)])
async def test_on_a_button_answers_once(victim: Any, button: str, status: int | None) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await _click_twice(on, _place(on, button))
        assert on.app.is_running
        assert on.app.screen is on.app.screen_stack[0]
        if status is not None:
            await on.reports("killed")
            assert victim.wait(LIMIT_SECONDS) == status
        assert victim.poll() == status


async def test_on_a_key_of_the_footer_opens_one_dialog() -> None:
    async with on_screen(busy_snapshot(6), size=(120, 40)) as on:
        for key in ("h help", "s sort", "K kill"):
            await _click_twice(on, _place(on, key))
            assert len(on.app.screen_stack) == 2, key
            await on.press("escape")


async def test_on_a_chart_opens_one_list() -> None:
    async with on_screen(busy_snapshot(6), "d", size=(120, 40)) as on:
        view = on.app.screen
        await _click_twice(on, (60, 10))
        assert on.app.screen_stack[-2] is view
        assert isinstance(on.app.screen, ChooseScreen)
