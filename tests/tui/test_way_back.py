from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from gpudash.tui.app import GpudashApp
from gpudash.tui.overview import Overview
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.links import LinksView
from gpudash.tui.views.process import ProcessView
from tests.tui.stage import HandFeed, busy_snapshot, host_app, listing_of


@asynccontextmanager
async def shown(rows: int = 24) -> AsyncIterator[tuple[GpudashApp, Pilot[int]]]:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, rows)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        yield app, pilot


@pytest.mark.parametrize("key", ["q", "escape"])
async def test_back_leads_to_the_view_that_another_was_opened_from(key: str) -> None:
    async with shown() as (app, pilot):
        await pilot.press("d", "m")
        await pilot.pause()
        assert isinstance(app.screen, LinksView)
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, DeviceView)
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, Overview)


async def test_going_round_in_views_keeps_one_of_each() -> None:
    async with shown() as (app, pilot):
        await pilot.press("d", "m", "d", "m", "w", "m", "d")
        await pilot.pause()
        assert isinstance(app.screen, DeviceView)
        assert len(app.screen_stack) <= 4
        await pilot.press(*("q" for _ in app.screen_stack[1:]))
        await pilot.pause()
        assert isinstance(app.screen, Overview)


async def test_back_leads_from_a_section_to_where_it_was_asked_for() -> None:
    async with shown(rows=12) as (app, pilot):
        await pilot.press("enter")
        await pilot.pause()
        view = app.screen
        assert isinstance(view, ProcessView)
        await pilot.press("e")
        assert view.first > 0
        await pilot.press("q")
        await pilot.pause()
        assert view.is_current
        assert view.first == 0
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, Overview)


@pytest.mark.parametrize(("rows", "keys"), [(60, ["e"]), (60, ["t", "e"]), (12, ["e", "home"])])
async def test_back_is_one_key_where_it_has_no_section_to_leave(rows: int, keys: list[str]) -> None:
    async with shown(rows) as (app, pilot):
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press(*keys)
        view = app.screen
        assert isinstance(view, ProcessView)
        assert view.first == 0
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, Overview)


async def test_a_filter_chosen_in_a_view_shows_the_overview() -> None:
    async with shown() as (app, pilot):
        await pilot.press("d", "u", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Overview)
        assert listing_of(app).filter.clauses
