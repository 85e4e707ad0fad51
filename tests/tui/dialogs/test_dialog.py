"""What all dialogs share, on terminals of every kind."""

import pytest
from textual.events import Click, Resize
from textual.message import Message

from gpudash.tui.app import GpudashApp
from gpudash.tui.overview import Overview
from tests.feed.hand import HandFeed
from tests.tui.stage import busy_snapshot, on_screen

DIALOGS = ("colon", "h", "K")
"""A list, a text and a question."""


@pytest.mark.parametrize("look", ["16", "none", "ascii"])
async def test_dialogs_have_an_edge_whatever_the_terminal_shows(
    look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if look == "16":
        monkeypatch.setenv("TERM", "linux")
        monkeypatch.delenv("COLORTERM", raising=False)
    async with on_screen(busy_snapshot(), no_color=look == "none", ascii=look == "ascii") as on:
        for key in DIALOGS:
            await on.press(key)
            (box,) = on.app.screen.children
            lines = [line[box.region.x : box.region.right] for line in on.lines]
            lines = lines[box.region.y : box.region.bottom]
            corners = "++++" if look == "ascii" else "╭╮╰╯"
            assert lines[0][0] + lines[0][-1] + lines[-1][0] + lines[-1][-1] == corners
            assert {line[0] for line in lines[1:-1]} == {"|" if look == "ascii" else "│"}
            assert look != "ascii" or on.text.isascii()
            await on.press("escape")


@pytest.mark.parametrize(("look", "few"), [("colors", None), ("16", "16"), ("none", "no")])
async def test_the_themes_say_where_they_change_nothing(
    look: str, few: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "linux")
    monkeypatch.setenv("COLORTERM", "" if look == "16" else "truecolor")
    async with on_screen(busy_snapshot(), "f2", no_color=look == "none") as on:
        text = on.text
    assert ("themes show on other terminals" in text) == (few is not None)
    assert few is None or f"{few} colours here" in text


async def test_dialogs_fit_terminals_of_every_size_and_show_nothing_of_a_larger_one() -> None:
    async with on_screen(busy_snapshot(), captured=True, guard_seconds=0.0) as on:
        for key in DIALOGS:
            await on.press(key)
            for columns, rows in ((40, 12), (20, 5), (6, 2)):
                on.terminal.screen.resize(rows, columns)
                await on.pilot.resize_terminal(columns, rows)
                await on.sent()
                assert on.terminal.lines == on.lines, (key, columns)
                (box,) = on.app.screen.children
                assert on.app.screen.region.contains_region(box.region), (key, columns)
            await on.press("escape")
            assert not on.app.screen.is_modal, key


@pytest.mark.parametrize("keys", [(*"freeze", "enter"), ("down", "up", *"freeze", "enter")])
async def test_keys_typed_ahead_of_a_list_are_taken_in_their_order(keys: tuple[str, ...]) -> None:
    async with on_screen(busy_snapshot(), "colon", *keys) as on:
        assert not on.dashboard.time.is_live


async def test_dialogs_are_fitted_before_they_are_drawn() -> None:
    widths: list[int] = []
    feed = HandFeed()
    app = GpudashApp(Overview(feed))

    def note(message: Message) -> None:
        if isinstance(message, Resize) and app.screen.is_modal:
            widths.append(message.size.width)

    async with app.run_test(size=(200, 40), message_hook=note) as pilot:
        feed.give(busy_snapshot())
        for key in DIALOGS:
            widths.clear()
            await pilot.press(key)
            await pilot.pause()
            (box,) = app.screen.children
            assert widths, key
            assert all(width <= box.region.width for width in widths if width != 200), key
            await pilot.press("escape")
            await pilot.pause()


async def test_a_click_that_meets_a_resize_ends_nothing() -> None:
    async with on_screen(busy_snapshot(), guard_seconds=0.0) as on:
        for key in DIALOGS:
            await on.resize(80, 24)
            await on.press(key)
            await on.pilot.resize_terminal(40, 12)
            # On its way through the widgets of the dialog while the terminal became smaller.
            on.app.screen.post_message(Click(None, 70, 20, 0, 0, 1, False, False, False))
            await on.pilot.pause()
            assert not on.app.screen.is_modal, key
