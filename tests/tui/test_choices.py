import pytest

from gpudash.tui.app import palette_entries
from gpudash.tui.bindings import live_keys
from gpudash.tui.dialogs.choose import ranked
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.views.view import View
from tests.tui.stage import (
    HandFeed,
    busy_snapshot,
    host_app,
    listing_of,
    screen_lines,
    text_of,
)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("interval", "time.longer"),
        ("theme", "screen.theme"),
        ("them", "screen.theme"),
        ("colo", "screen.theme"),
        ("refresh", "screen.redraw"),
        ("history", "time.back"),
        ("topology", "view.links"),
        ("search", "filter.open"),
        ("terminate", "process.terminate"),
        ("sigterm", "process.terminate"),
        ("signal", "process.kill"),
        ("process.kill", "process.kill"),
        ("quit", "screen.quit"),
    ],
)
def test_actions_are_found_by_the_words_people_know_them_by(typed: str, first: str) -> None:
    choices = [entry.choice for entry in palette_entries(live_keys(OVERVIEW_KEYS)).values()]
    assert ranked(choices, typed)[0].value == first


async def test_the_palette_calls_any_action() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("colon", *"freeze", "enter")
        await pilot.pause()
        assert not app.front.dashboard.time.is_live
        await pilot.press("ctrl+p", *"zzzz")
        await pilot.pause()
        assert "no matches" in text_of(app)
        await pilot.press("enter", "escape")
        assert not app.front.dashboard.time.is_live


async def test_the_palette_lists_every_action_of_the_overview() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 70)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("colon")
        seen = ""
        for _page in range(8):
            await pilot.pause()
            seen += text_of(app)
            await pilot.press("pagedown")
        wanted = [entry.choice.text for entry in palette_entries(live_keys(OVERVIEW_KEYS)).values()]
        assert [text for text in wanted if text not in seen] == []


async def test_the_palette_of_a_view_has_its_actions() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("m")
        await pilot.pause()
        assert isinstance(app.screen, View)
        await pilot.press("colon", *"overview", "enter")
        await pilot.pause()
        assert not isinstance(app.screen, View)


async def test_a_letter_twice_orders_a_tree_as_once() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        for letter, descending in (("f", True), ("f", True), ("F", False), ("F", False)):
            await pilot.press("o", letter)
            await pilot.pause()
            assert listing_of(app).sort_key == "tree"
            assert listing_of(app).leading == ("gpu_memory", descending)


async def test_marks_on_gpus_count_behind_the_list() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(140, 30)) as pilot:
        feed.give(busy_snapshot(devices=64))
        await pilot.press("tab", "end", "g", "home", "down")
        for _index in range(20):
            await pilot.press("space", "down")
        await pilot.pause()
        assert app.screen.is_modal
        assert any(line.startswith("  20 ") for line in screen_lines(app))
        assert "No process matches the filter" in text_of(app)
