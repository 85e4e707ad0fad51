import base64

import msgspec
import pytest

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.model.snapshot import Finding, FindingLevel
from gpudash.tui.bindings import live_keys
from gpudash.tui.dialogs.choose import ChooseScreen
from gpudash.tui.keymap import KEYS
from gpudash.tui.overview import Overview
from gpudash.tui.preferences import Preferences
from gpudash.tui.views.view import View
from tests.factories import make_snapshot
from tests.tui.stage import (
    CaptureDriver,
    HandFeed,
    busy_snapshot,
    host_app,
    listing_of,
    process_of,
    screen_lines,
    selected,
    text_of,
)


async def test_space_tags_and_goes_on() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("space", "space")
        await pilot.pause()
        assert [row.process.pid for row in listing_of(app).tagged_rows] == [1000, 1001]
        assert selected(app) == 1002
        lines = screen_lines(app)
        assert sum(line.startswith("●") for line in lines) == 2
        assert any("2 tagged" in line for line in lines)
        await pilot.press("k", "space")
        assert [row.process.pid for row in listing_of(app).tagged_rows] == [1000]


async def test_tags_of_processes_that_are_gone_vanish() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("space", "space")
        reused = process_of(0, create_time=5.0)
        feed.give(make_snapshot(8, processes=(reused, process_of(1))))
        assert [row.process.key for row in listing_of(app).tagged_rows] == [process_of(1).key]


async def test_escape_drops_the_filter_at_once_where_all_that_was_tagged_is_gone() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("space", "slash", *"alice", "enter")
        feed.give(make_snapshot(8, processes=(process_of(1),)))
        await pilot.press("escape")
        assert not listing_of(app).filter.clauses


async def test_columns_are_chosen_from_a_list() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("f6")
        await pilot.pause()
        assert "Sort by" in text_of(app)
        await pilot.press("home", "down", "enter")
        assert listing_of(app).sort_key == "user"
        await pilot.press("s", "escape")
        assert listing_of(app).sort_key == "user"


async def test_columns_are_hidden_shown_and_remembered() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(160, 40)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.pause()
        heading = next(line for line in screen_lines(app) if "PID" in line)
        assert "USER" in heading
        await pilot.press("C", "home", "down", "space", "escape")
        await pilot.pause()
        await pilot.pause()
        heading = next(line for line in screen_lines(app) if "PID" in line)
        assert "USER" not in heading
        assert "user" not in app.preferences.current.columns
        await pilot.press("C", "home", "down", "space", "escape")
        assert app.preferences.current.columns == ()


async def test_a_list_is_clicked() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("s")
        await pilot.pause()
        lines = screen_lines(app)
        y = next(y for y, line in enumerate(lines) if " user " in line and "USER" in line)
        await pilot.click(offset=(lines[y].index(" user ") + 2, y))
        await pilot.pause()
        assert listing_of(app).sort_key == "user"
        await pilot.press("s")
        await pilot.pause()
        await pilot.click(offset=(0, 23))
        await pilot.pause()
        assert not isinstance(app.screen, ChooseScreen)


async def test_digits_hide_gpus_and_their_processes() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot(8))
        await pilot.press("1", "3")
        await pilot.pause()
        lines = screen_lines(app)
        assert "GPU 0,2,4-7 of 8" in lines[0]
        assert "6 GPUs: 6 busy" in lines[0]
        assert {row.gpus for row in listing_of(app).rows} == {"0", "2"}
        assert sum("H100" in line for line in lines) == 6
        await pilot.press("9")
        await pilot.pause()
        assert "there is no GPU 9" in screen_lines(app)[-1]
        await pilot.press("3", "1")
        await pilot.pause()
        assert "of 8 " not in screen_lines(app)[0]


async def test_one_of_many_gpus_is_chosen_from_a_list() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot(8, devices=16))
        await pilot.press("g", "end", "up", "enter")
        await pilot.pause()
        assert "GPU 14 of 16" in screen_lines(app)[0]
        await pilot.press("g", "home", "down", "space", "down", "down", "space", "escape")
        await pilot.pause()
        assert "GPU 0,2,14 of 16" in screen_lines(app)[0]
        await pilot.press("g", "home", "enter")
        assert not app.front.dashboard.devices.hidden


@pytest.mark.parametrize("keys", [(), ("slash", *"nobody-at-all"), ("enter",)])
async def test_what_is_cut_off_in_ascii_ends_in_ascii(keys: tuple[str, ...]) -> None:
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(None, ascii=True))
    async with app.run_test(size=(30, 10)) as pilot:
        feed.give(busy_snapshot(8))
        await pilot.press(*keys)
        app.show_message("told at a length that leaves " + "no room for all of it " * 9)
        await pilot.pause()
        assert text_of(app).isascii()


@pytest.mark.parametrize("columns", [12, 28, 31])
async def test_gpus_to_choose_from_keep_their_numbers_on_few_cells(columns: int) -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(columns, 12)) as pilot:
        feed.give(busy_snapshot(8))
        await pilot.press("g")
        await pilot.pause()
        lines = screen_lines(app)
        assert all(any(f" GPU {number}" in line for line in lines) for number in range(6))


async def test_enter_keeps_the_gpus_that_were_marked() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(8))
        await pilot.press("g", "home", "down", "space")
        await pilot.pause()
        assert "Enter chooses" not in text_of(app)
        y = next(y for y, line in enumerate(screen_lines(app)) if " GPU 3 " in line)
        await pilot.click(offset=(20, y))
        await pilot.press("enter")
        await pilot.pause()
        assert app.front.dashboard.devices.hidden == {0, 3}
        assert isinstance(app.screen, Overview)


async def test_a_click_on_the_foot_of_a_list_chooses_nothing_below_it() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 12)) as pilot:
        feed.give(busy_snapshot(8, devices=16))
        await pilot.press("g", "home")
        await pilot.pause()
        y = next(y for y, line in enumerate(screen_lines(app)) if "Enter chooses" in line)
        await pilot.click(offset=(20, y))
        await pilot.pause()
        assert isinstance(app.screen, ChooseScreen)
        assert not app.front.dashboard.devices.hidden


async def test_a_click_hides_a_column_and_enter_closes_their_list() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(160, 40)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("C")
        await pilot.pause()
        y = next(y for y, line in enumerate(screen_lines(app)) if " user " in line)
        await pilot.click(offset=(80, y))
        assert "user" not in app.preferences.current.columns
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, Overview)
        assert len(app.preferences.current.columns) == len(PROCESS_COLUMNS) - 1


async def test_typing_narrows_every_list_down() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot(8, devices=64))
        await pilot.press("g", "1", "3")
        await pilot.pause()
        assert "Space on or off" in text_of(app)
        await pilot.press("space")
        assert app.front.dashboard.devices.hidden == {13}
        await pilot.press("escape", "g", "1", "3", "enter")
        assert len(app.front.dashboard.devices.hidden) == 63
        assert 13 not in app.front.dashboard.devices.hidden
        await pilot.press("f2", *"light", "enter")
        assert app.preferences.current.theme == "light"
        for typed, key in (("cpu", "cpu"), ("mem", "gpu_memory"), ("rss", "resident_memory")):
            await pilot.press("s", *typed, "enter")
            assert listing_of(app).sort_key == key


async def test_letters_behind_o_sort_and_capitals_turn_around() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        feed.give(busy_snapshot(6))
        listing = listing_of(app)
        for keys, order in (
            ("oc", ("cpu", True)),
            ("oc", ("cpu", True)),
            ("oC", ("cpu", False)),
            ("ou", ("user", False)),
            ("of", ("tree", False)),
            ("og", ("gpu_memory", True)),
        ):
            await pilot.press(*keys)
            await pilot.pause()
            assert (listing.sort_key, listing.descending) == order
            assert not app.screen.is_modal
        await pilot.press("o", "x", "escape")
        await pilot.pause()
        assert listing.sort_key == "gpu_memory"


async def test_plus_and_minus_change_the_interval() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(6))
        await pilot.press("plus")
        await pilot.pause()
        assert feed.interval == 2.0
        assert "every 2s" in screen_lines(app)[0]
        await pilot.press(*["minus"] * 12)
        await pilot.pause()
        assert feed.interval == 0.1
        assert "shortest" in screen_lines(app)[-1]
        await pilot.press("plus")
        await pilot.pause()
        assert "a sample every 0.2 s" in screen_lines(app)[-1]


@pytest.mark.parametrize(("key", "copied"), [("y", "1000"), ("Y", "python 'a b' job.py")])
async def test_copies_through_the_terminal(key: str, copied: str) -> None:
    feed = HandFeed()
    app = host_app(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(120, 24)) as pilot:
        line = ("python", "a b", "job.py")
        feed.give(make_snapshot(2, processes=(process_of(0, command_line=line),)))
        await pilot.pause()
        driver = app._driver
        assert isinstance(driver, CaptureDriver)
        driver.take()
        await pilot.press(key)
        await pilot.pause()
        sent = driver.take()
        assert f"\x1b]52;c;{base64.b64encode(copied.encode()).decode()}\x07" in sent
        assert "sent to the clipboard" in screen_lines(app)[-1]


async def test_there_may_be_nothing_to_copy_tag_or_open() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("y", "Y", "space", "enter", "s", "escape", "g", "escape", "left", "right")
        feed.give(make_snapshot(0))
        await pilot.press("y", "Y", "space", "enter", "right", "dollar_sign", "1", "g", "enter")
        await pilot.pause()
        assert app.is_running
        hidden = process_of(0, command_line=None, hidden_reason="another user's")
        feed.give(make_snapshot(1, processes=(hidden,)))
        await pilot.press("Y")
        await pilot.pause()
        assert "there is no command line to copy" in screen_lines(app)[-1]


async def test_command_lines_scroll() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        line = ("python", *(f"argument{number}" for number in range(40)), "last")
        feed.give(make_snapshot(2, processes=(process_of(0, command_line=line),)))
        await pilot.press("dollar_sign")
        await pilot.pause()
        assert "last" in text_of(app)
        await pilot.press("circumflex_accent", "right", "left")
        await pilot.pause()
        assert "python argument0" in text_of(app)


async def test_a_second_click_opens_the_process_however_late_it_comes() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        await pilot.pause()
        await pilot.click("#processes", offset=(10, 3))
        assert not isinstance(app.screen, View)
        await pilot.press("down", "up")
        await pilot.click("#processes", offset=(10, 3))
        await pilot.pause()
        assert isinstance(app.screen, View)
        assert "1002" in text_of(app)


@pytest.mark.parametrize("size", [(80, 24), (140, 40), (200, 60)])
async def test_help_shows_every_key_and_every_term(size: tuple[int, int]) -> None:
    app = host_app(HandFeed())
    async with app.run_test(size=size) as pilot:
        await pilot.press("h")
        seen = ""
        for _page in range(12):
            await pilot.pause()
            seen += text_of(app)
            await pilot.press("pagedown")
        assert [key.help for key in live_keys(KEYS) if key.help[:40] not in seen] == []
        assert "user:alice" in seen
        assert "idle>10m" in seen
        await pilot.press("home", "q")
        assert len(app.screen_stack) == 1


async def test_a_theme_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        before = app.front.dashboard.theme
        await pilot.press("f2", "down", "enter")
        await pilot.pause()
        assert app.front.dashboard.theme != before
        assert app.preferences.current.theme != "dark"


async def test_nothing_unseen_changes_beneath_a_view() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("m")
        await pilot.press("s", "slash", "f", "y", "space", "j")
        await pilot.pause()
        listing = listing_of(app)
        assert isinstance(app.screen, View)
        assert not listing.tagged
        assert listing.cursor == 0
        await pilot.press("q")
        await pilot.pause()
        assert not app.front.prompt.is_open


async def test_a_view_can_hand_a_filter_over() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("m")
        app.front.filter_by('user="bob"')
        await pilot.pause()
        assert not isinstance(app.screen, View)
        assert {row.process.username for row in listing_of(app).rows} == {"bob"}


@pytest.mark.parametrize("rings", [True, False])
async def test_a_critical_finding_rings_the_terminal_once(rings: bool) -> None:
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(bell=rings), driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(120, 24)) as pilot:
        levels: tuple[FindingLevel, ...] = ("warn", "critical", "critical")
        for level in levels:
            finding = Finding(rule="lost", level=level, sentence="GPU 0 is\x1b lost")
            feed.give(msgspec.structs.replace(busy_snapshot(2), findings=(finding,)))
            await pilot.pause()
        driver = app._driver
        assert isinstance(driver, CaptureDriver)
        sent = driver.take()
        assert sent.count("\a\x1b]9;") == rings
        assert ("GPU 0 is\\x1b lost\x1b\\" in sent) is rings
