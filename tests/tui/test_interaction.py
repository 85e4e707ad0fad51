import base64

import msgspec
import pytest

from gpudash.model.snapshot import Finding, FindingLevel
from gpudash.tui.dialogs.choose import ChooseScreen
from gpudash.tui.overview import Overview
from gpudash.tui.views.view import View
from tests.factories import make_snapshot
from tests.tui.stage import busy_snapshot, on_screen, process_of


async def test_space_tags_and_goes_on() -> None:
    async with on_screen(busy_snapshot(6), "space", "space", size=(100, 30)) as on:
        assert [row.process.pid for row in on.listing.tagged_rows] == [1000, 1001]
        assert on.selected == 1002
        lines = on.lines
        assert sum(line.startswith("●") for line in lines) == 2
        assert any("2 tagged" in line for line in lines)
        await on.press("k", "space")
        assert [row.process.pid for row in on.listing.tagged_rows] == [1000]


async def test_escape_drops_the_filter_at_once_where_all_that_was_tagged_is_gone() -> None:
    async with on_screen(busy_snapshot(6), size=(100, 30)) as on:
        await on.press("space", "slash", *"alice", "enter")
        on.feed.give(make_snapshot(8, processes=(process_of(1),)))
        await on.press("escape")
        assert not on.listing.filter.clauses


async def test_columns_are_hidden_shown_and_remembered() -> None:
    async with on_screen(busy_snapshot(6), size=(160, 40)) as on:
        heading = next(line for line in on.lines if "PID" in line)
        assert "USER" in heading
        await on.press("C", "home", "down", "space", "escape")
        heading = next(line for line in on.lines if "PID" in line)
        assert "USER" not in heading
        assert "user" not in on.app.preferences.current.columns
        await on.press("C", "home", "down", "space", "escape")
        assert on.app.preferences.current.columns == ()


async def test_a_list_is_clicked() -> None:
    async with on_screen(busy_snapshot(6), "s") as on:
        lines = on.lines
        y = next(y for y, line in enumerate(lines) if " user " in line and "USER" in line)
        await on.click(offset=(lines[y].index(" user ") + 2, y))
        assert on.listing.sort_key == "user"
        await on.press("s")
        await on.click(offset=(0, 23))
        assert not isinstance(on.app.screen, ChooseScreen)


async def test_gpus_are_hidden_with_their_processes() -> None:
    marks = "home", "down", "down", "space", "down", "down", "space", "escape"
    async with on_screen(busy_snapshot(8), "g", *marks, size=(120, 40)) as on:
        lines = on.lines
        assert "GPU 0,2,4-7 of 8" in lines[0]
        assert "6 GPUs: 6 busy" in lines[0]
        assert {row.gpus for row in on.listing.rows} == {"0", "2"}
        assert sum("H100" in line for line in lines) == 6
        await on.press("g", *marks)
        assert "of 8 " not in on.lines[0]


async def test_one_of_many_gpus_is_chosen_from_a_list() -> None:
    async with on_screen(busy_snapshot(8, devices=16), size=(120, 40)) as on:
        await on.press("g", "end", "up", "enter")
        assert "GPU 14 of 16" in on.lines[0]
        await on.press("g", "home", "down", "space", "down", "down", "space", "escape")
        assert "GPU 0,2,14 of 16" in on.lines[0]
        await on.press("g", "home", "enter")
        assert not on.dashboard.devices.hidden


@pytest.mark.parametrize("keys", [(), ("slash", *"nobody-at-all"), ("enter",)])
async def test_what_is_cut_off_in_ascii_ends_in_ascii(keys: tuple[str, ...]) -> None:
    async with on_screen(busy_snapshot(8), *keys, ascii=True, size=(30, 10)) as on:
        on.app.show_message("told at a length that leaves " + "no room for all of it " * 9)
        await on.pilot.pause()
        assert on.text.isascii()


async def test_gpus_to_choose_from_keep_their_numbers_on_few_cells() -> None:
    async with on_screen(busy_snapshot(8)) as on:
        for columns in (12, 28, 31):
            await on.resize(columns, 12)
            await on.press("g")
            lines = on.lines
            assert all(any(f" GPU {number}" in line for line in lines) for number in range(6))
            await on.press("escape")


async def test_enter_keeps_the_gpus_that_were_marked() -> None:
    async with on_screen(busy_snapshot(8), "g", "home", "down", "space") as on:
        assert "Enter chooses" not in on.text
        y = next(y for y, line in enumerate(on.lines) if " GPU 3 " in line)
        await on.pilot.click(offset=(20, y))
        await on.press("enter")
        assert on.dashboard.devices.hidden == {0, 3}
        assert isinstance(on.app.screen, Overview)


async def test_a_click_on_the_foot_of_a_list_chooses_nothing_below_it() -> None:
    async with on_screen(busy_snapshot(8, devices=16), "g", "home", size=(80, 12)) as on:
        y = next(y for y, line in enumerate(on.lines) if "Enter chooses" in line)
        await on.click(offset=(20, y))
        assert isinstance(on.app.screen, ChooseScreen)
        assert not on.dashboard.devices.hidden


async def test_typing_narrows_every_list_down() -> None:
    async with on_screen(busy_snapshot(8, devices=64), "g", "1", "3", size=(120, 40)) as on:
        assert "Space on or off" in on.text
        await on.press("space")
        assert on.dashboard.devices.hidden == {13}
        await on.press("escape", "g", "1", "3", "enter")
        assert len(on.dashboard.devices.hidden) == 63
        assert 13 not in on.dashboard.devices.hidden
        await on.press("f2", *"light", "enter")
        assert on.app.preferences.current.theme == "light"
        await on.press("s", *"rss", "enter")
        assert on.listing.sort_key == "resident_memory"


async def test_letters_behind_o_sort_and_capitals_turn_around() -> None:
    async with on_screen(busy_snapshot(6), size=(120, 30)) as on:
        listing = on.listing
        for keys, order in (
            ("oc", ("cpu", True)),
            ("oc", ("cpu", True)),
            ("oC", ("cpu", False)),
            ("of", ("tree", False)),
        ):
            await on.press(*keys)
            assert (listing.sort_key, listing.descending) == order
            assert not on.app.screen.is_modal
        await on.press("o", "x", "escape")
        assert listing.sort_key == "tree"


async def test_plus_and_minus_change_the_interval() -> None:
    async with on_screen(busy_snapshot(6), "plus") as on:
        assert on.feed.interval == 2.0
        assert "every 2s" in on.lines[0]
        await on.press(*["minus"] * 12)
        assert on.feed.interval == 0.1
        assert "shortest" in on.lines[-1]
        await on.press("plus")
        assert "a sample every 0.2 s" in on.lines[-1]


async def test_copies_through_the_terminal() -> None:
    line = ("python", "a b", "job.py")
    async with on_screen(
        make_snapshot(2, processes=(process_of(0, command_line=line),)),
        captured=True,
        size=(120, 24),
    ) as on:
        for key, copied in (("y", "1000"), ("Y", "python 'a b' job.py")):
            on.driver.take()
            await on.press(key)
            sent = on.driver.take()
            assert f"\x1b]52;c;{base64.b64encode(copied.encode()).decode()}\x07" in sent
            assert "sent to the clipboard" in on.lines[-1]


async def test_there_may_be_nothing_to_copy_tag_or_open() -> None:
    async with on_screen(size=(120, 24)) as on:
        await on.press("y", "Y", "space", "enter", "s", "escape", "g", "escape", "left", "right")
        on.feed.give(make_snapshot(0))
        await on.press("y", "Y", "space", "enter", "right", "dollar_sign", "1", "g", "enter")
        assert on.app.is_running
        hidden = process_of(0, command_line=None, hidden_reason="another user's")
        on.feed.give(make_snapshot(1, processes=(hidden,)))
        await on.press("Y")
        assert "there is no command line to copy" in on.lines[-1]


async def test_a_second_click_opens_the_process_however_late_it_comes() -> None:
    async with on_screen(busy_snapshot(), size=(120, 40)) as on:
        await on.pilot.click("#processes", offset=(10, 3))
        assert not isinstance(on.app.screen, View)
        await on.press("down", "up")
        await on.click("#processes", offset=(10, 3))
        assert isinstance(on.app.screen, View)
        assert "1002" in on.text


async def test_help_begins_with_the_keys_of_what_is_in_front() -> None:
    async with on_screen(busy_snapshot(), guard_seconds=0.0) as on:
        for pressed, first in (
            ("d", "show the next GPU"),
            ("K", "send the signal"),
            ("slash", "filter the processes"),
        ):
            await on.press(pressed, "f1")
            assert first in "".join(on.lines[:3])
            await on.press("escape")
            assert first not in on.text
            await on.press("escape")


async def test_help_is_searched() -> None:
    async with on_screen(busy_snapshot(), "h", *"/idle since") as on:
        assert "idle>10m" in on.text
        assert "switch between GPUs" not in on.text
        await on.press("enter", "j", "escape")
        assert "switch between GPUs" not in on.text
        assert "choose the colour theme" in on.text
        await on.press(*"/qqq")
        assert "no matches" in on.text
        await on.press("escape", "escape")
        assert not on.app.screen.is_modal


async def test_the_footer_of_users_names_the_key_that_sorts() -> None:
    async with on_screen(busy_snapshot(), "u") as on:
        assert "> sort" in on.lines[-1]


async def test_nothing_unseen_changes_beneath_a_view() -> None:
    async with on_screen(busy_snapshot(), "m", size=(100, 30)) as on:
        await on.press("s", "slash", "f", "y", "space", "j")
        listing = on.listing
        assert isinstance(on.app.screen, View)
        assert not listing.tagged
        assert listing.cursor == 0
        await on.press("q")
        assert not on.app.front.prompt.is_open


@pytest.mark.parametrize("rings", [True, False])
async def test_a_critical_finding_rings_the_terminal_once(rings: bool) -> None:
    async with on_screen(bell=rings, captured=True, size=(120, 24)) as on:
        levels: tuple[FindingLevel, ...] = ("warn", "critical", "critical")
        for level in levels:
            finding = Finding(rule="lost", level=level, sentence="GPU 0 is\x1b lost")
            await on.give(msgspec.structs.replace(busy_snapshot(2), findings=(finding,)))
        sent = on.driver.take()
        assert sent.count("\a\x1b]9;") == rings
        assert ("GPU 0 is\\x1b lost\x1b\\" in sent) is rings
