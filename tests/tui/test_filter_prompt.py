import pytest
from textual.events import Paste

from tests.factories import make_snapshot
from tests.tui.stage import OnScreen, busy_snapshot, on_screen, process_of


async def type_in(on: OnScreen, text: str) -> None:
    names = {" ": "space", ":": "colon", ">": "greater_than_sign", "<": "less_than_sign"}
    await on.press(*(names.get(letter, letter) for letter in text))


def pids(on: OnScreen) -> list[int]:
    return [row.process.pid for row in on.listing.rows]


async def test_filters_as_it_is_typed_and_stays_in_sight() -> None:
    async with on_screen(busy_snapshot(20), "slash", size=(100, 30)) as on:
        await type_in(on, "user:bob gp")
        assert len(pids(on)) == 0
        await on.press("backspace", "backspace", "backspace")
        assert pids(on) == [1000 + number for number in range(1, 20, 2)]
        lines = on.lines
        assert "/ user:bob" in lines[-2]
        assert "10 of 20" in lines[-2]
        assert "Enter apply" in lines[-1]
        await on.press("enter")
        lines = on.lines
        assert "quit" in lines[-1]
        heading = next(line for line in lines if "PID" in line)
        assert "/user:bob" in heading
        assert "10 of 20" in heading
        on.feed.give(busy_snapshot(10))
        assert len(pids(on)) == 5


async def test_a_wrong_term_is_reported_right_below_it() -> None:
    async with on_screen(busy_snapshot(20), "slash", size=(120, 30)) as on:
        await type_in(on, "alice ")
        on.app.post_message(Paste("gpu:x"))
        await on.pilot.pause()
        top, bottom = on.lines[-2:]
        assert bottom.index("^") == top.index("gpu:x")
        assert bottom.count("^") == len("gpu:x")
        assert "cannot be compared" in bottom
        assert "Esc discard" in bottom
        assert len(pids(on)) == 10
        await on.press("enter")
        assert on.app.front.prompt.is_open
        assert len(pids(on)) == 10


async def test_the_prompt_moves_nothing_above_the_processes() -> None:
    async with on_screen(busy_snapshot(8), size=(100, 34)) as on:
        lines = on.lines
        above = next(n for n, line in enumerate(lines) if "COMMAND" in line)
        await on.press("slash")
        assert on.lines[1:above] == lines[1:above]
        await type_in(on, "nothing:3")
        assert on.lines[1:above] == lines[1:above]


async def test_escape_takes_the_typing_back() -> None:
    async with on_screen(busy_snapshot(20), "j", "j", "j", "slash", size=(100, 30)) as on:
        await type_in(on, "nobody at all")
        assert pids(on) == []
        await on.press("escape")
        assert not on.app.front.prompt.is_open
        assert len(pids(on)) == 20
        assert on.selected == 1003


async def test_no_letter_of_a_filter_starts_an_action() -> None:
    async with on_screen(busy_snapshot(20), "slash", size=(100, 30)) as on:
        await type_in(on, "qpKrs hd")
        assert on.app.is_running
        assert on.dashboard.time.is_live
        assert len(on.app.screen_stack) == 1
        await on.press("ctrl+c")
        assert on.app.is_running
        assert not on.app.front.prompt.is_open


async def test_the_cursor_can_be_moved_while_typing() -> None:
    async with on_screen(busy_snapshot(20), "slash", size=(100, 30)) as on:
        await type_in(on, "bob")
        await on.press("down", "down", "enter")
        assert on.selected == 1005


async def test_escape_takes_back_tags_then_the_filter_then_the_gpus() -> None:
    async with on_screen(busy_snapshot(20), size=(100, 30)) as on:
        on.app.front.filter_by("bob")
        await on.press("space", "g", "home", "down", "space", "escape")
        listing = on.listing
        assert listing.tagged
        assert on.dashboard.devices.hidden
        await on.press("escape")
        assert not listing.tagged
        assert listing.filter.clauses
        await on.press("escape")
        assert not listing.filter.clauses
        await on.press("escape")
        assert not on.dashboard.devices.hidden
        assert len(pids(on)) == 20


async def test_a_selected_process_that_no_longer_fits_stays_under_the_cursor() -> None:
    async with on_screen(busy_snapshot(6), size=(100, 30)) as on:
        on.app.front.filter_by("cpu>50")
        await on.press("j", "j")
        assert on.selected == 1002
        idle = tuple(process_of(number, cpu_percent=number * 1.0) for number in range(5))
        on.feed.give(make_snapshot(8, processes=(*idle, process_of(5))))
        assert on.selected == 1002
        assert on.listing.matching == 1
        assert pids(on) == [1002, 1005]
        await on.press("j")
        on.feed.give(make_snapshot(8, processes=(*idle, process_of(5))))
        assert pids(on) == [1005]


async def test_a_prompt_is_shown_at_any_size() -> None:
    async with on_screen(busy_snapshot(20), "slash") as on:
        await type_in(on, "gpu:x alice")
        for size in [(1, 1), (10, 4), (80, 24)]:
            await on.resize(*size)
            assert len(on.lines) == size[1]
        assert "/ gpu:x alice" in on.lines[-3]


async def test_a_long_complaint_is_reported_in_whole_and_gives_its_lines_back() -> None:
    async with on_screen(busy_snapshot(40), "slash") as on:
        await type_in(on, "nothing:3")
        text = " ".join(line.strip() for line in on.lines[-4:])
        assert "is not a filter term" in text
        assert "Esc discard" in on.lines[-1]
        assert "rss>1G time>2h idle>10m" in text
        for _letter in "nothing:3":
            await on.press("backspace")
        assert on.lines[-2].startswith(" / ")
        assert "Enter apply" in on.lines[-1]


@pytest.mark.parametrize(("before", "bad"), [("", "pid:abc"), (f"{'x' * 40} ", "gpu:all")])
async def test_a_complaint_too_long_for_its_line_still_points_at_the_word(
    before: str, bad: str
) -> None:
    async with on_screen(busy_snapshot(20), "slash") as on:
        on.app.post_message(Paste(before + bad))
        await on.pilot.pause()
        lines = on.lines
        place = next(n for n, line in enumerate(lines) if line.startswith(" / "))
        assert lines[place + 1].index("^" * len(bad)) == lines[place].index(bad)
        assert "expected" in " ".join(lines[place + 1 :])


async def test_a_filter_without_a_match_says_why() -> None:
    async with on_screen(busy_snapshot(20), size=(100, 30)) as on:
        for text, told in (
            ("gpu:9", "there is no GPU 9: choose from 0-7"),
            ("mem:10G", "mem:10G means about equal; mem>10G means more"),
            ("util>5 alice (bob|carol)", "all words must match"),
        ):
            await on.press("slash")
            on.app.post_message(Paste(text))
            await on.pilot.pause()
            assert "0 of 20" in on.text
            assert told in on.text
            assert "Enter apply  Esc discard" in on.text
            await on.press("enter")
            assert not on.app.front.prompt.is_open
            assert told in on.lines[-1]
            await on.press("escape")


@pytest.mark.parametrize(("keys", "shown"), [({}, "Esc"), ({"filter.clear": ["f7"]}, "F7")])
async def test_a_filter_that_nothing_fits_names_the_way_back(
    keys: dict[str, list[str]], shown: str
) -> None:
    async with on_screen(busy_snapshot(20), "slash", *"zzz", "enter", keys=keys) as on:
        assert f"No process matches the filter; {shown} shows all" in on.lines[-1]
        await on.press("f7" if keys else "escape")
        assert len(pids(on)) == 20
