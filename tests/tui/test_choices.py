import pytest

from gpudash.tui.app import palette_entries
from gpudash.tui.bindings import live_keys
from gpudash.tui.dialogs.choose import ranked
from gpudash.tui.keymap import OVERVIEW_KEYS
from tests.tui.stage import busy_snapshot, on_screen


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
    async with on_screen(busy_snapshot(), "colon", *"freeze", "enter", size=(100, 30)) as on:
        assert not on.dashboard.time.is_live
        await on.press("ctrl+p", *"zzzz")
        assert "no matches" in on.text
        await on.press("enter", "escape")
        assert not on.dashboard.time.is_live


async def test_the_palette_lists_every_action_of_the_overview() -> None:
    async with on_screen(busy_snapshot(), "colon", size=(100, 70)) as on:
        seen = ""
        for _page in range(8):
            await on.pilot.pause()
            seen += on.text
            await on.press("pagedown")
        wanted = [entry.choice.text for entry in palette_entries(live_keys(OVERVIEW_KEYS)).values()]
        assert [text for text in wanted if text not in seen] == []


async def test_a_letter_twice_orders_a_tree_as_once() -> None:
    async with on_screen(busy_snapshot(), size=(100, 30)) as on:
        for letter, descending in (("f", True), ("f", True), ("F", False), ("F", False)):
            await on.press("o", letter)
            assert on.listing.sort_key == "tree"
            assert on.listing.leading == ("gpu_memory", descending)


async def test_marks_on_gpus_count_behind_the_list() -> None:
    async with on_screen(busy_snapshot(devices=64), size=(140, 30)) as on:
        await on.press("tab", "end", "g", "home", "down")
        for _index in range(8):
            await on.press("space", "down")
        await on.pilot.pause()
        assert on.app.screen.is_modal
        assert any(line.startswith("   8 ") for line in on.lines)
        assert "No process matches the filter" in on.text
