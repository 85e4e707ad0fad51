from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.tui.app import GpudashApp
from gpudash.tui.preferences import Preferences
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.process import ProcessView
from gpudash.tui.views.view import View
from gpudash.tui.widgets.lines import WHEEL_LINES
from tests.factories import gpu_uuid, make_device
from tests.tui.stage import HandFeed, busy_snapshot, host_app, listing_of, screen_lines, selected

REASON = "GPU 2 fell off the bus; " + "a reboot may bring it back, " * 4 + "sudo dmesg tells more"


@asynccontextmanager
async def shown(
    *size: int, preferences: Preferences | None = None, **fields: Any
) -> AsyncIterator[tuple[GpudashApp, Pilot[int], HandFeed]]:
    feed = HandFeed()
    app = host_app(feed, preferences=preferences)
    async with app.run_test(size=(size[0], size[1]) if size else (100, 30)) as pilot:
        feed.give(busy_snapshot(**fields))
        await pilot.pause()
        yield app, pilot, feed


def device(app: GpudashApp) -> int:
    row = app.front.dashboard.devices.selected
    assert row is not None
    return row.device.index


def line_of(app: GpudashApp, text: str) -> int:
    return next(y for y, line in enumerate(screen_lines(app)) if text in line)


async def test_tab_leads_to_the_gpus_and_enter_opens_one() -> None:
    async with shown() as (app, pilot, _feed):
        process = selected(app)
        await pilot.press("tab", "down", "down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, DeviceView)
        assert app.screen.key == gpu_uuid(2)
        await pilot.press("q", "tab", "down", "up", "enter")
        await pilot.pause()
        assert isinstance(app.screen, ProcessView)
        assert selected(app) == process


async def test_cursor_stays_on_its_gpu_when_another_one_goes() -> None:
    async with shown() as (app, pilot, feed):
        await pilot.press("tab", "end", "up")
        assert device(app) == 6
        left = tuple(make_device(index=n, uuid=gpu_uuid(n)) for n in (0, 3, 6, 7))
        feed.give(replace(busy_snapshot(), devices=left))
        assert device(app) == 6


@pytest.mark.parametrize("key", ["K", "T", "space"])
async def test_no_process_is_aimed_at_while_the_gpus_have_the_focus(key: str) -> None:
    async with shown() as (app, pilot, _feed):
        await pilot.press("tab", key)
        await pilot.pause()
        assert not app.screen.is_modal
        assert not listing_of(app).tagged
        assert "Tab goes back to the processes" in screen_lines(app)[-1]


async def test_keys_that_are_told_of_the_focus_are_those_in_force() -> None:
    keys = {"move.turn": ("f7",), "move.page_down": ("f8",)}
    preferences = Preferences(keys=keys)
    async with shown(40, 24, preferences=preferences, processes=40, devices=64) as (app, pilot, _):
        await pilot.press("f7", "space")
        await pilot.pause()
        assert any("F7, F8 for the others" in line for line in screen_lines(app))
        assert "F7 goes back to the" in "".join(screen_lines(app)[-2:])


async def test_first_click_selects_a_gpu_and_the_second_opens_it() -> None:
    async with shown() as (app, pilot, _feed):
        y = line_of(app, " 5   ")
        await pilot.click(offset=(10, y))
        assert app.front.dashboard.focus == "devices"
        assert device(app) == 5
        await pilot.click(offset=(40, y))
        await pilot.pause()
        assert isinstance(app.screen, DeviceView)
        assert app.screen.key == gpu_uuid(5)


async def test_click_on_a_process_takes_the_focus_back() -> None:
    async with shown() as (app, pilot, _feed):
        await pilot.press("tab")
        await pilot.click("#processes", offset=(10, 3))
        await pilot.pause()
        assert app.front.dashboard.focus == "processes"
        assert selected(app) == 1002


async def test_wheel_over_the_processes_moves_them_whatever_has_the_focus() -> None:
    async with shown() as (app, pilot, _feed):
        await pilot.press("tab")
        await pilot._post_mouse_events([MouseScrollDown] * 5, "#processes")
        await pilot.pause()
        assert app.front.dashboard.focus == "devices"
        assert device(app) == 0
        assert selected(app) == 1000 + 5 * WHEEL_LINES
        assert f"job{5 * WHEEL_LINES}.py" in "\n".join(screen_lines(app))


async def test_cells_are_gone_through_in_both_directions() -> None:
    async with shown(80, 24, processes=40, devices=64) as (app, pilot, _feed):
        await pilot.press("tab", "right", "down")
        assert device(app) == app.front.dashboard.layout.device_lines + 1
        await pilot.press("left", "up")
        assert device(app) == 0


async def test_cursor_is_in_view_where_not_all_gpus_are() -> None:
    async with shown(40, 24, processes=40, devices=64) as (app, pilot, _feed):
        await pilot.press("tab", "end")
        text = "\n".join(screen_lines(app))
        assert device(app) == 63
        assert "of 64" in text
        assert " 63 " in text


async def test_part_in_focus_can_have_all_the_room() -> None:
    async with shown(80, 24, processes=40) as (app, pilot, _feed):
        await pilot.press("z")
        await pilot.pause()
        assert sum("job" in line for line in screen_lines(app)) == 21
        await pilot.press("tab")
        await pilot.pause()
        assert sum("job" in line for line in screen_lines(app)) < 21
        await pilot.press("z", "tab")
        await pilot.pause()
        assert line_of(app, "STATUS") < line_of(app, "PID")


async def test_whole_reason_of_a_lost_gpu_is_reported_below_it() -> None:
    lost = Device(index=2, state="lost", fault=Fault(source="nvml", message=clean(REASON)))
    async with shown(80, 24) as (app, pilot, feed):
        feed.give(replace(busy_snapshot(2), devices=(make_device(), lost)))
        await pilot.press("tab", "down")
        await pilot.pause()
        text = " ".join(line.strip() for line in screen_lines(app)[-4:])
        assert REASON in text
        await pilot.press("up")
        await pilot.pause()
        assert "filter" in screen_lines(app)[-1]


@pytest.mark.parametrize("view", ["u", "m", "d"])
@pytest.mark.parametrize("key", ["K", "f9", "y", "space"])
async def test_nothing_reaches_a_process_that_is_not_shown(view: str, key: str) -> None:
    async with shown() as (app, pilot, _feed):
        await pilot.press(view)
        await pilot.pause()
        assert isinstance(app.screen, View)
        assert not app.screen.may_signal
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, View)
        assert not listing_of(app).tagged
        assert app.clipboard == ""
