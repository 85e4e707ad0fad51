import pytest
from textual.events import Paste
from textual.pilot import Pilot

from gpudash.tui.app import GpudashApp
from gpudash.tui.preferences import Preferences
from tests.factories import make_snapshot
from tests.tui.stage import (
    HandFeed,
    busy_snapshot,
    host_app,
    listing_of,
    process_of,
    screen_lines,
    selected,
)


async def type_in(pilot: Pilot[int], text: str) -> None:
    names = {" ": "space", ":": "colon", ">": "greater_than_sign", "<": "less_than_sign"}
    await pilot.press(*(names.get(letter, letter) for letter in text))
    await pilot.pause()


def pids(app: GpudashApp) -> list[int]:
    return [row.process.pid for row in listing_of(app).rows]


async def test_filters_as_it_is_typed_and_stays_in_sight() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        await type_in(pilot, "user:bob gp")
        assert len(pids(app)) == 0
        await pilot.press("backspace", "backspace", "backspace")
        await pilot.pause()
        assert pids(app) == [1000 + number for number in range(1, 20, 2)]
        lines = screen_lines(app)
        assert "/ user:bob" in lines[-2]
        assert "10 of 20" in lines[-2]
        assert "Enter apply" in lines[-1]
        await pilot.press("enter")
        await pilot.pause()
        await pilot.pause()
        lines = screen_lines(app)
        assert "quit" in lines[-1]
        heading = next(line for line in lines if "PID" in line)
        assert "/user:bob" in heading
        assert "10 of 20" in heading
        feed.give(busy_snapshot(10))
        assert len(pids(app)) == 5


async def test_a_wrong_term_is_reported_right_below_it() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        await type_in(pilot, "alice ")
        app.post_message(Paste("gpu:x"))
        await pilot.pause()
        top, bottom = screen_lines(app)[-2:]
        assert bottom.index("^") == top.index("gpu:x")
        assert bottom.count("^") == len("gpu:x")
        assert "cannot be compared" in bottom
        assert len(pids(app)) == 10
        await pilot.press("enter")
        assert app.front.prompt.is_open
        assert len(pids(app)) == 10


async def test_escape_takes_the_typing_back() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("j", "j", "j", "slash")
        await type_in(pilot, "nobody at all")
        assert pids(app) == []
        await pilot.press("escape")
        await pilot.pause()
        assert not app.front.prompt.is_open
        assert len(pids(app)) == 20
        assert selected(app) == 1003


async def test_no_letter_of_a_filter_starts_an_action() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        await type_in(pilot, "qpKrs hd")
        assert app.is_running
        assert app.front.dashboard.time.is_live
        assert len(app.screen_stack) == 1
        await pilot.press("ctrl+c")
        assert app.is_running
        assert not app.front.prompt.is_open


async def test_the_cursor_can_be_moved_while_typing() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        await type_in(pilot, "bob")
        await pilot.press("down", "down", "enter")
        assert selected(app) == 1005


async def test_escape_takes_back_tags_then_the_filter_then_the_gpus() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        app.front.filter_by("bob")
        await pilot.press("space", "1")
        listing = listing_of(app)
        assert listing.tagged
        assert app.front.dashboard.devices.hidden
        await pilot.press("escape")
        assert not listing.tagged
        assert listing.filter.clauses
        await pilot.press("escape")
        assert not listing.filter.clauses
        await pilot.press("escape")
        assert not app.front.dashboard.devices.hidden
        assert len(pids(app)) == 20


async def test_a_selected_process_that_no_longer_fits_stays_under_the_cursor() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(6))
        app.front.filter_by("cpu>50")
        await pilot.press("j", "j")
        assert selected(app) == 1002
        idle = tuple(process_of(number, cpu_percent=number * 1.0) for number in range(5))
        feed.give(make_snapshot(8, processes=(*idle, process_of(5))))
        assert selected(app) == 1002
        assert listing_of(app).matching == 1
        assert pids(app) == [1002, 1005]
        await pilot.press("j")
        feed.give(make_snapshot(8, processes=(*idle, process_of(5))))
        assert pids(app) == [1005]


async def test_pasted_text_is_filtered_by() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        app.post_message(Paste("job7.py\nq\n"))
        await pilot.pause()
        assert pids(app) == [1007]


async def test_a_prompt_is_shown_at_any_size() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        await type_in(pilot, "gpu:x alice")
        for size in [(1, 1), (3, 2), (10, 4), (200, 60), (80, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert len(screen_lines(app)) == size[1]
        assert "/ gpu:x alice" in screen_lines(app)[-3]


async def test_a_long_complaint_is_reported_in_whole_and_gives_its_lines_back() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(40))
        await pilot.press("slash")
        await type_in(pilot, "nothing:3")
        await pilot.pause()
        text = " ".join(line.strip() for line in screen_lines(app)[-4:])
        assert "is not a filter term" in text
        assert "rss>1G age>2h idle>10m" in text
        for _letter in "nothing:3":
            await pilot.press("backspace")
        await pilot.pause()
        assert screen_lines(app)[-2].startswith(" / ")
        assert "Enter apply" in screen_lines(app)[-1]


@pytest.mark.parametrize(("before", "bad"), [("", "pid:abc"), (f"{'x' * 40} ", "gpu:all")])
async def test_a_complaint_too_long_for_its_line_still_points_at_the_word(
    before: str, bad: str
) -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        app.post_message(Paste(before + bad))
        await pilot.pause()
        await pilot.pause()
        lines = screen_lines(app)
        place = next(n for n, line in enumerate(lines) if line.startswith(" / "))
        assert lines[place + 1].index("^" * len(bad)) == lines[place].index(bad)
        assert "expected" in " ".join(lines[place + 1 :])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu:9", "there is no GPU 9: choose from 0-7"),
        ("mem:10G", "mem:10G means about equal; mem>10G means more"),
        ("util>5 alice (bob|carol)", "all words must match"),
    ],
)
async def test_a_filter_without_a_match_says_why(text: str, told: str) -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash")
        app.post_message(Paste(text))
        await pilot.pause()
        assert "0 of 20" in screen_lines(app)[-2]
        assert told in screen_lines(app)[-1]
        await pilot.press("enter")
        await pilot.pause()
        await pilot.pause()
        assert not app.front.prompt.is_open
        assert told in screen_lines(app)[-1]


@pytest.mark.parametrize(("keys", "shown"), [({}, "Esc"), ({"filter.clear": ["f7"]}, "F7")])
async def test_a_filter_that_nothing_fits_names_the_way_back(
    keys: dict[str, list[str]], shown: str
) -> None:
    feed = HandFeed()
    app = host_app(feed, preferences=Preferences(keys=keys))
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(20))
        await pilot.press("slash", *"zzz", "enter")
        await pilot.pause()
        await pilot.pause()
        assert f"No process matches the filter; {shown} shows all" in screen_lines(app)[-1]
        await pilot.press("f7" if keys else "escape")
        assert len(pids(app)) == 20
