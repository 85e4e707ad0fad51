import pytest

from gpudash.tui.overview import Overview
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.links import LinksView
from gpudash.tui.views.process import ProcessView
from tests.tui.stage import busy_snapshot, on_screen


async def test_back_leads_to_the_view_that_another_was_opened_from() -> None:
    async with on_screen(busy_snapshot()) as on:
        for key in ("q", "escape"):
            await on.press("d", "m")
            assert isinstance(on.app.screen, LinksView)
            await on.press(key)
            assert isinstance(on.app.screen, DeviceView)
            await on.press(key)
            assert isinstance(on.app.screen, Overview)


async def test_going_round_in_views_keeps_one_of_each() -> None:
    async with on_screen(busy_snapshot(), "d", "m", "d", "m", "w", "m", "d") as on:
        assert isinstance(on.app.screen, DeviceView)
        assert len(on.app.screen_stack) <= 4
        await on.press(*("q" for _ in on.app.screen_stack[1:]))
        assert isinstance(on.app.screen, Overview)


async def test_back_leads_from_a_section_to_where_it_was_asked_for() -> None:
    async with on_screen(busy_snapshot(), "enter", size=(80, 12)) as on:
        view = on.app.screen
        assert isinstance(view, ProcessView)
        await on.press("e")
        assert view.first > 0
        await on.press("q")
        assert view.is_current
        assert view.first == 0
        await on.press("q")
        assert isinstance(on.app.screen, Overview)


@pytest.mark.parametrize(("rows", "keys"), [(60, ["e"]), (60, ["t", "e"]), (12, ["e", "home"])])
async def test_back_is_one_key_where_it_has_no_section_to_leave(rows: int, keys: list[str]) -> None:
    async with on_screen(busy_snapshot(), "enter", *keys, size=(80, rows)) as on:
        view = on.app.screen
        assert isinstance(view, ProcessView)
        assert view.first == 0
        await on.press("q")
        assert isinstance(on.app.screen, Overview)


async def test_a_filter_chosen_in_a_view_shows_the_overview() -> None:
    async with on_screen(busy_snapshot(), "d", "u", "enter") as on:
        assert isinstance(on.app.screen, Overview)
        assert on.listing.filter.clauses
