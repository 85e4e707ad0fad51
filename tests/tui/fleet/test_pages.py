from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from gpudash.feed.protocol import FeedState
from gpudash.model.fleet import (
    ChartRequest,
    FleetChart,
    FleetLine,
    FleetSnapshot,
    FleetSource,
    FleetUser,
)
from gpudash.model.snapshot import Evidence, Finding
from gpudash.model.text import SafeText
from gpudash.model.units import Unit
from gpudash.tui.app import GpudashApp
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import METRICS, FleetModel
from gpudash.tui.fleet.paint import PAINTINGS
from gpudash.tui.overview import Overview
from gpudash.tui.preferences import Preferences
from tests.fleet.many import INSTANT, HandFleetFeed, device, fleet, host, some_hosts
from tests.tui.stage import HandFeed, busy_snapshot, ended, screen_lines, text_of

NOON = datetime(2026, 11, 23, 12).astimezone()
PAGES = ("MapPage", "HostsPage", "GpusPage", "UsersPage", "JobsPage", "FindingsPage")
SIZES = [(80, 24), (120, 40), (200, 60)]


def fleet_app(feed: HandFleetFeed, *model: Any, **options: Any) -> GpudashApp:
    """The app whose first page is the map of many hosts."""
    return GpudashApp(MapPage(FleetModel(feed, *model)), **options)


def page_of(app: GpudashApp) -> str:
    """What is in front."""
    return type(app.front).__name__


@asynccontextmanager
async def shown(
    snapshot: FleetSnapshot,
    size: tuple[int, int] = (80, 24),
    page: str = "MapPage",
    **settings: Any,
) -> AsyncIterator[tuple[GpudashApp, Pilot[int]]]:
    """A page with a snapshot on it."""
    feed = HandFleetFeed()
    app = fleet_app(feed, preferences=Preferences(None, **settings))
    async with app.run_test(size=size) as pilot:
        feed.give(snapshot)
        await pilot.press(str(1 + PAGES.index(page)))
        await pilot.pause()
        yield app, pilot


@asynccontextmanager
async def entering(
    snapshot: FleetSnapshot,
) -> AsyncIterator[tuple[GpudashApp, Pilot[int], HandFleetFeed, HandFeed]]:
    """Many hosts, of which one may be entered, with both feeds."""
    feed, inner = HandFleetFeed(), HandFeed()
    app = fleet_app(feed, lambda _host, _interval: inner, lambda _host: True)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(snapshot)
        await pilot.pause()
        yield app, pilot, feed, inner


@pytest.mark.parametrize("size", SIZES)
async def test_each_page_has_its_digit_and_no_value_is_cut(size: tuple[int, int]) -> None:
    async with shown(fleet(some_hosts(1000)), size) as (app, pilot):
        for key, page in zip("123456", PAGES, strict=True):
            await pilot.press(key)
            await pilot.pause()
            assert page == page_of(app)
            lines = screen_lines(app)
            assert all(len(line) == size[0] for line in lines)
            # The list of hosts that are free is the one that may go on.
            assert not [line for line in lines if "…" in line and "all 8 on" not in line]


@pytest.mark.parametrize(
    ("count", "size"),
    [(0, (1, 1)), (0, (80, 24)), (1, (20, 5)), (70, (1, 1)), (70, (40, 10)), (70, (300, 90))],
)
async def test_every_page_is_drawn_at_every_size(count: int, size: tuple[int, int]) -> None:
    async with shown(fleet(some_hosts(count)), size) as (app, pilot):
        for key in ("1", "down", "2", "enter", "escape", "3", "4", "5", "6", "down", "c"):
            await pilot.press(key)
        assert app.is_running


@pytest.mark.parametrize(
    ("count", "size"), [(8, (60, 16)), (100, (40, 16)), (1000, (60, 16)), (1000, (40, 10))]
)
async def test_a_small_screen_has_a_map_under_a_heading_that_fits(
    count: int, size: tuple[int, int]
) -> None:
    async with shown(fleet(some_hosts(count)), size) as (app, _):
        lines = screen_lines(app)
    heading = next(n for n, line in enumerate(lines) if "a cell is" in line)
    assert "█" in lines[heading + 1] or "▇" in lines[heading + 1] or "X" in lines[heading + 1]
    assert re.match(r" utilization  a cell is (a|\d+) (GPU|hosts?)( |$)", lines[heading])


async def test_a_screen_without_room_for_the_map_names_the_page_that_has_the_hosts() -> None:
    async with shown(fleet(some_hosts(100)), (40, 7)) as (app, _):
        assert "no room for the map; 2 lists the hosts" in text_of(app)


async def test_the_header_counts_what_answers_of_what_is_expected() -> None:
    hosts = some_hosts(40)
    silent = sum(each.state != "ok" for each in hosts)
    async with shown(fleet(hosts)) as (app, _pilot):
        assert f"{40 - silent} of 40 hosts" in screen_lines(app)[0]


async def test_time_stands_apart_in_the_narrowest_header() -> None:
    async with shown(fleet(some_hosts(1000)), (20, 5)) as (app, _pilot):
        assert re.search(r"\d \d\d:\d\d:\d\d$", screen_lines(app)[0])


async def test_a_source_that_fails_is_shown_on_every_page_whatever_the_filter() -> None:
    failed = FleetSource(
        kind="prometheus",
        name=SafeText("http://prom:9090"),
        state="failed",
        message=SafeText("401 Unauthorized"),
    )
    async with shown(fleet(some_hosts(40), sources=(failed,))) as (app, pilot):
        for key in "123456":
            await pilot.press(key)
            assert "401 Unauthorized" in text_of(app)
        await pilot.press("slash", *"nothing-fits", "enter")
        assert not app.front.model.rows
        assert "401 Unauthorized" in text_of(app)


async def test_how_old_the_last_answer_is_stands_before_a_long_reason() -> None:
    stale = FleetSource(
        kind="prometheus",
        name=SafeText("http://prom:9090"),
        state="stale",
        age_seconds=75.0,
        message=SafeText("the query would load too many samples into the memory " * 3),
    )
    async with shown(fleet(some_hosts(40), sources=(stale,))) as (app, _):
        assert "http://prom:9090, last answer 1m15s ago: the query would" in text_of(app)


async def test_a_table_that_is_sorted_anew_shows_its_top_unless_a_row_was_chosen() -> None:
    async with shown(fleet(some_hosts(100)), (120, 24)) as (app, pilot):
        await pilot.press("2", "s", *"util", "enter")
        assert "1-20 of 100" in text_of(app)
        await pilot.press("r")
        assert "1-20 of 100" in text_of(app)
        await pilot.press("down", "r")
        assert "1-20 of 100" not in text_of(app)


async def test_arrows_move_over_the_map_and_enter_shows_the_gpus_of_the_host() -> None:
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        await pilot.press("right", "right")
        assert app.front.model.cursor == (None, "gpu0002")
        await pilot.press("enter")
        assert app.front.host == (None, "gpu0002")
        assert "no ssh" in text_of(app)
        await pilot.press("escape")
        assert page_of(app) == "MapPage"


async def test_a_click_selects_a_host_and_a_second_opens_it() -> None:
    async with shown(fleet(some_hosts(40)), (120, 40)) as (app, pilot):
        lines = screen_lines(app)
        y = next(n for n, line in enumerate(lines) if "gpu0003 " in line)
        x = lines[y].index("gpu0003 ") + 9
        await pilot.click(offset=(x, y))
        assert app.front.model.cursor == (None, "gpu0003")
        await pilot.click(offset=(x, y))
        assert app.front.host == (None, "gpu0003")


@pytest.mark.parametrize("key", ["escape", "q", "ctrl+c"])
async def test_a_host_is_entered_and_left_for_the_page_it_was_entered_from(key: str) -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, feed, inner):
        await pilot.press("2", "enter")
        inner.give(busy_snapshot())
        await pilot.pause()
        assert "node7" in screen_lines(app)[0]
        # The outer feed goes on, and what it brings is there at the end.
        feed.give(fleet(some_hosts(3), seconds=10))
        await pilot.pause()
        assert "node7" in screen_lines(app)[0]
        await pilot.press(key)
        await pilot.pause()
        assert (page_of(app), app.return_code, inner.stopped) == (
            "HostsPage",
            None,
            True,
        )
        assert app.front.model.totals.hosts == 3
        assert not feed.stopped


async def test_a_host_that_gives_nothing_is_left_for_what_is_known_of_it() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, _feed, inner):
        inner.state = FeedState.STARTING
        await pilot.press("enter")
        assert isinstance(app.front, Overview)
        inner.exit_status, inner.error = 255, "Connection refused"
        inner.change(FeedState.RESTARTING)
        await pilot.pause()
        assert app.front.host == (None, "gpu0000")
        assert "gpu0000: Connection refused" in text_of(app)
        assert app.is_running


async def test_a_host_that_was_left_ends_nothing() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, _feed, inner):
        await pilot.press("enter", "escape")
        await pilot.pause()
        inner.exit_status, inner.error = 255, "no route"
        inner.change(FeedState.RESTARTING)
        await pilot.pause()
        assert (page_of(app), app.return_code) == ("MapPage", None)


async def test_a_theme_that_is_only_tried_goes_with_its_dialog_when_a_host_ends() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, _feed, inner):
        inner.state = FeedState.STARTING
        await pilot.press("enter")
        before = app.preferences.current.theme
        await pilot.press("f2", "down")
        assert app.preferences.current.theme != before
        inner.exit_status, inner.error = 255, "no route"
        inner.change(FeedState.RESTARTING)
        await pilot.pause()
        assert (page_of(app), app.preferences.current.theme) == ("HostGpusPage", before)


async def test_the_footer_of_an_entered_host_leads_back() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, _feed, inner):
        await pilot.press("enter")
        inner.give(busy_snapshot())
        await pilot.pause()
        assert "q back" in screen_lines(app)[-1]


async def test_the_views_of_a_host_close_with_it() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, _feed, inner):
        await pilot.press("enter")
        inner.give(busy_snapshot())
        await pilot.press("d", "ctrl+c")
        await pilot.pause()
        assert page_of(app) == "MapPage"


async def test_a_host_is_entered_as_it_was_while_the_past_is_shown() -> None:
    async with entering(fleet(some_hosts(40))) as (app, pilot, feed, _inner):
        feed.give(fleet(some_hosts(40), seconds=10))
        await pilot.press("left_square_bracket", "2", "enter")
        assert app.front.host == (None, "gpu0009")
        assert "no ssh" not in text_of(app)


async def test_a_key_asks_to_connect_again_where_ssh_failed() -> None:
    ssh = FleetSource(kind="ssh", name=SafeText("gpu0000"))
    async with shown(fleet((host(0, state="auth"),), sources=(ssh,))) as (app, pilot):
        assert isinstance(app.front.feed, HandFleetFeed)
        await pilot.press("R", "2", "R")
        assert app.front.feed.asked[-1].retries == 2
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        assert isinstance(app.front.feed, HandFleetFeed)
        await pilot.press("R")
        assert not any(asked.retries for asked in app.front.feed.asked)


async def test_the_page_of_a_host_begins_with_what_is_wrong_with_it() -> None:
    reason = "ssh: connect to host gpu0000 port 22: Connection refused"
    async with shown(fleet((host(0, state="down", message=reason),))) as (app, pilot):
        await pilot.press("2", "enter")
        lines = screen_lines(app)
        assert lines[2].startswith(f" gpu0000  cannot be reached: {reason}"[:70])
        assert "…" in lines[2]


async def test_the_line_of_the_selected_host_says_each_state_once() -> None:
    async with shown(fleet((host(1, "hot", "hot", "busy"),))) as (app, _):
        assert text_of(app).count("2 hot") == 2  # of all GPUs, and of the host


async def test_the_worst_host_comes_first() -> None:
    hosts = (host(0), host(1, "busy", "lost"), host(2, state="down"), host(3, "held-idle"))
    async with shown(fleet(hosts)) as (app, pilot):
        await pilot.press("2")
        ranked = [row.host.name for row in app.front.model.ranked_hosts().rows]
    assert ranked[0] == "gpu0002"
    assert ranked[-1] == "gpu0000"


async def test_c_goes_through_all_that_can_be_painted() -> None:
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        seen = []
        for _ in PAINTINGS:
            seen.append(app.front.model.painting)
            await pilot.press("c")
        assert tuple(seen) == PAINTINGS
        assert app.front.model.painting is PAINTINGS[0]


async def test_the_filter_recounts_and_escape_drops_it() -> None:
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        await pilot.press("slash", *"gpu0003")
        assert "8 of 320 GPUs on 1 host " in text_of(app)
        await pilot.press("enter")
        assert (app.front.model.totals.hosts, app.front.model.totals.gpus) == (1, 8)
        assert app.front.model.everything.hosts == 40
        await pilot.press("escape")
        assert app.front.model.totals.hosts == 40


async def test_time_can_be_stepped_back_and_the_present_goes_on_meanwhile() -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        feed.give(fleet(some_hosts(4), seconds=10))
        await pilot.press("left_square_bracket")
        assert (app.front.model.snapshot.taken_at, app.front.model.totals.hosts) == (INSTANT, 3)
        assert "AGO" in screen_lines(app)[0]
        feed.give(fleet(some_hosts(5), seconds=20))
        assert app.front.model.totals.hosts == 3
        await pilot.press("escape")
        assert (app.front.model.time.is_live, app.front.model.totals.hosts) == (True, 5)


async def test_a_collector_that_is_silent_makes_it_stale() -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        assert isinstance(app.front.feed, HandFleetFeed)
        app.front.feed.change(FeedState.STALE, 42.0)
        await pilot.pause()
        assert "STALE 42s" in screen_lines(app)[0]


async def test_a_collector_that_ends_at_once_ends_the_screen_with_its_words() -> None:
    feed = HandFleetFeed()
    app = fleet_app(feed)
    async with app.run_test():
        feed.error, feed.exit_status = "no such host", 3
        feed.change(FeedState.RESTARTING)
        await ended(app)
    assert (app.failure, app.return_code) == ("no such host", 3)
    assert feed.stopped


@pytest.mark.parametrize("ascii", [False, True])
async def test_hostile_text_is_shown_as_it_is(ascii: bool) -> None:
    names = ("[bold]x[/]", "[@click=app.leave]y", "z[/z]", "]", "界" * 30)
    hosts = tuple(
        host(number, "busy", "held-idle", name=SafeText(name), group=SafeText(name))
        for number, name in enumerate(names)
    )
    findings = tuple(
        Finding(rule="x", level="warn", sentence=SafeText(name), hosts=(SafeText(name),))
        for name in names
    )
    async with shown(fleet(hosts, findings=findings), (120, 40), ascii=ascii) as (app, pilot):
        for key in "123456":
            await pilot.press(key)
            text = text_of(app)
            if key in "26":
                assert "[@click=app.leave]y" in text
            assert all(char.isprintable() for line in screen_lines(app) for char in line)
        assert app.is_running


async def test_ascii_has_nothing_else() -> None:
    hot = Finding(
        rule="hot-outlier",
        level="warn",
        sentence=SafeText("1 GPU is far hotter than the others"),
        evidence=(Evidence(name="temperature_celsius", value=89, unit=Unit.CELSIUS.suffix),),
    )
    snapshot = fleet(some_hosts(300), findings=(hot,))
    async with shown(snapshot, (120, 40), ascii=True) as (app, pilot):
        for key in "1ccccc23456":
            await pilot.press(key)
            await pilot.pause()
            assert text_of(app).isascii()
        assert "Temperature 89 C" in text_of(app)


async def test_help_names_every_key_of_this_screen() -> None:
    async with shown(fleet(some_hosts(3)), (140, 70)) as (app, pilot):
        await pilot.press("h")
        text = text_of(app)
        assert all(key.help.split(" (")[0][:20] in text for key in app.front.model.keys)


async def test_help_speaks_of_what_this_screen_has() -> None:
    async with shown(fleet(some_hosts(3)), (140, 70)) as (app, pilot):
        await pilot.press("h")
        text = text_of(app)
    assert "sort by a column" in text
    assert not [word for word in ("as a tree", "process or GPU") if word in text]


async def test_mistakes_in_the_settings_are_said_and_listed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("intervall = 2\ntheme = 'purple'\n")
    feed = HandFleetFeed()
    app = fleet_app(feed, preferences=Preferences(str(file)))
    async with app.run_test(size=(100, 24)) as pilot:
        feed.give(fleet(some_hosts(3)))
        await pilot.pause()
        assert "2 mistakes in the settings: ! lists them" in text_of(app)
        await pilot.press("exclamation_mark")
        text = text_of(app)
        assert "intervall" in text
        assert "purple" in text


async def test_the_palette_carries_out_an_action_of_this_screen() -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        await pilot.press("colon", *"list the jobs", "enter")
        assert page_of(app) == "JobsPage"


async def test_the_theme_can_be_chosen() -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        before = app.front.model.theme
        await pilot.press("f2", "down", "enter")
        assert app.front.model.theme is not before


async def test_a_picture_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        await pilot.press("S")
        end = asyncio.get_running_loop().time() + 20
        while "saved" not in text_of(app) and asyncio.get_running_loop().time() < end:
            await pilot.pause(0.01)
    assert [path.suffix for path in tmp_path.iterdir()] == [".svg"]


def answer_to(asked: ChartRequest, seconds: float, **fields: Any) -> FleetChart:
    """The chart of one GPU, which ends so many seconds after the first sample."""
    values: dict[str, Any] = {
        "metric": asked.metric,
        "span_seconds": asked.span_seconds,
        "by_device": asked.by_device,
        "cluster": asked.cluster,
        "hosts": asked.hosts,
        "end": INSTANT + timedelta(seconds=seconds),
        "step_seconds": 1800.0,
        "lines": tuple(FleetLine(host=name, index=0, values=(1e9, 2e9)) for name in asked.hosts),
    }
    return FleetChart(**{**values, **fields})


async def test_the_gpus_of_a_host_are_charted_where_a_source_has_a_past() -> None:
    hosts = some_hosts(3)
    async with shown(fleet(hosts), (120, 40)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("2", "home", "enter", "minus", "tab")
        (asked,) = feed.asked[-1].charts
        assert (asked.hosts, asked.span_seconds) == ((hosts[0].name,), 86400.0)
        assert (asked.metric, asked.by_device) == (METRICS[1], True)
        lines = tuple(
            FleetLine(host=hosts[0].name, index=index, values=(1e9, None, 2e9)) for index in (0, 1)
        )
        answer = answer_to(asked, 0, step_seconds=43200.0, lines=lines)
        feed.give(fleet(hosts, seconds=10, charts=(answer,)))
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "GPU 1" in text_of(app)
        await pilot.press("escape")
        assert feed.asked[-1].charts == ()


async def test_a_chart_that_is_asked_for_while_time_stands_still_is_drawn_up_to_its_end() -> None:
    hosts = some_hosts(3)
    async with shown(fleet(hosts), (120, 40)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("2", "home", "enter", "p", "tab")
        assert "asking" in text_of(app)
        answer = answer_to(feed.asked[-1].charts[0], 10)
        feed.give(fleet(hosts, seconds=10, charts=(answer,)))
        await app.workers.wait_for_complete()
        await pilot.pause()
        text = text_of(app)
        assert "asking" not in text
        assert f"{answer.end.astimezone():%T}" in text
        # That of the present is not what an instant of the past is charted by.
        await pilot.press("at", *"-2h", "enter")
        feed.give(fleet(hosts, seconds=10 - 7200))
        await pilot.pause()
        assert "asking" in text_of(app)


@pytest.mark.parametrize("known", [True, False])
async def test_a_host_is_not_charted_by_the_answer_for_another(known: bool) -> None:
    hosts = (host(1, cluster="east"), host(1, cluster="west"), host(2, cluster="west"))
    async with shown(fleet(hosts), (120, 40)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("2", "home", "enter")
        (asked,) = feed.asked[-1].charts
        fields = {} if known else {"lines": (), "message": SafeText("no such metric")}
        feed.give(fleet(hosts, seconds=10, charts=(answer_to(asked, 10, **fields),)))
        await pilot.pause()
        assert "asking" not in text_of(app)
        for _ in hosts[1:]:
            await pilot.press("escape", "down", "enter")
            assert "asking" in text_of(app)


async def test_a_host_is_charted_by_the_one_of_two_servers_that_knows_it() -> None:
    hosts = some_hosts(1)
    async with shown(fleet(hosts), (120, 40)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("2", "enter")
        (asked,) = feed.asked[-1].charts
        nothing = answer_to(asked, 10, lines=(), message=SafeText("no such metric"))
        feed.give(fleet(hosts, seconds=10, charts=(nothing, answer_to(asked, 10))))
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "no such metric" not in text_of(app)


async def test_the_chart_of_many_gpus_shows_those_at_the_cursor_and_says_which() -> None:
    one = host(0, *["busy"] * 16, expected_devices=16)
    async with shown(fleet((one,)), (120, 50)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("2", "enter", "home")
        (asked,) = feed.asked[-1].charts
        lines = tuple(FleetLine(host=one.name, index=n, values=(10.0, n * 5.0)) for n in range(16))
        answer = answer_to(asked, 0, lines=lines)
        feed.give(fleet((one,), seconds=10, charts=(answer,)))
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "GPU 0-7, 8 of 16" in text_of(app)
        await pilot.press("end")
        await pilot.pause()
        assert "GPU 8-15, 8 of 16" in text_of(app)


async def test_an_instant_from_before_is_asked_for_and_shown_when_it_comes() -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        feed, model = app.front.feed, app.front.model
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("at", *"-2h", "enter")
        wanted = INSTANT - timedelta(hours=2)
        assert feed.asked[-1].at == wanted
        assert " ASKING FOR 2h00m AGO " in screen_lines(app)[0]
        assert "p live" in screen_lines(app)[-1]
        # The present goes on to arrive until the collector has changed over.
        feed.give(fleet(some_hosts(4), seconds=10))
        assert model.totals.hosts == 3
        feed.give(fleet(some_hosts(5), seconds=-7200))
        assert (model.totals.hosts, model.snapshot.taken_at) == (5, wanted)
        await pilot.pause()
        assert " ASKING" not in screen_lines(app)[0]
        assert " 2h00m AGO " in screen_lines(app)[0]
        # A step further back is asked for as well.
        await pilot.press("left_square_bracket")
        assert " ASKING FOR 2h01m AGO " in screen_lines(app)[0]
        assert feed.asked[-1].at == wanted - timedelta(minutes=1)
        await pilot.press("escape")
        assert (model.time.is_live, feed.asked[-1].at) == (True, None)
        assert " ASKING FOR NOW " in screen_lines(app)[0]
        feed.change(FeedState.STALE, 42.0)
        await pilot.pause()
        assert " STALE 42s " in screen_lines(app)[0]
        # Of what was asked for the rest comes late.
        feed.give(fleet(some_hosts(6), seconds=-7200))
        feed.give(fleet(some_hosts(7), seconds=20))
        assert model.totals.hosts == 7


@pytest.mark.parametrize("text", ["-999999d", "9999-12-31 23:59"])
async def test_a_time_that_cannot_be_shown_is_refused_with_the_span_that_there_is(
    text: str,
) -> None:
    async with shown(fleet(some_hosts(3))) as (app, pilot):
        await pilot.press("at", *text, "enter")
        assert app.screen.is_modal
        span = re.sub(r"\s+", " ", text_of(app).replace("\u2502", " "))
        assert "is outside of what is there: " in span or "is not a time" in span


@pytest.mark.parametrize(
    ("page", "filtered"),
    [("4", 'user="bob"'), ("5", 'job="4242"'), ("6", 'host="gpu0008,gpu0009"')],
)
async def test_enter_leaves_the_gpus_of_what_is_under_the_cursor(page: str, filtered: str) -> None:
    finding = Finding(
        rule="x",
        level="warn",
        sentence=SafeText("y"),
        hosts=(SafeText("gpu0008"), SafeText("gpu0009")),
    )
    async with shown(fleet(some_hosts(40), findings=(finding,))) as (app, pilot):
        await pilot.press(page, "enter")
        assert (page_of(app), app.front.model.filter_text) == ("GpusPage", filtered)
        assert 0 < app.front.model.totals.gpus < 320


def test_the_cursor_stays_on_its_finding_while_others_come() -> None:
    found = [
        Finding(rule=rule, level="warn", sentence=SafeText(rule), hosts=(SafeText("gpu0000"),))
        for rule in "abc"
    ]
    feed = HandFleetFeed()
    model = FleetModel(feed)
    feed.attach(None, model.time.receive, lambda: None)
    feed.give(fleet(some_hosts(1), findings=tuple(found[1:])))
    model.finding = 1
    feed.give(fleet(some_hosts(1), findings=tuple(found), seconds=10))
    assert model.findings[model.finding].rule == "c"
    # At the top a worse one is to be seen at once.
    model.finding = 0
    feed.give(fleet(some_hosts(1), findings=(found[2], found[0]), seconds=20))
    assert model.findings[model.finding].rule == "c"


async def test_a_finding_about_one_host_leads_to_its_gpus() -> None:
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        await pilot.press("w", "enter")
        assert app.front.host == (None, "gpu0008")


async def test_a_long_filter_is_cut_to_the_room_beside_what_it_leaves() -> None:
    names = ",".join(f"gpu{number:04}" for number in range(10))
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        await pilot.press("slash")
        app.post_message(Paste(f"host:{names}"))
        await pilot.press("enter")
        for cells in (20, 40, 80, 120):
            await pilot.resize_terminal(cells, 24)
            await pilot.pause()
            line = screen_lines(app)[2]
            assert line.startswith(" / host:gpu")
            assert "…" in line or names in line
            assert ("80 of 320 GPUs on 10 of 40 hosts" in line) == (cells >= 80)


async def test_hosts_of_a_finding_that_no_filter_can_name_are_counted() -> None:
    names = tuple(each.name for each in some_hosts(60))
    found = Finding(rule="x", level="warn", sentence=SafeText("y"), hosts=names)
    async with shown(fleet(some_hosts(60), findings=(found,))) as (app, pilot):
        await pilot.press("6", "enter")
        assert "20 hosts left out" in text_of(app)
        assert app.front.model.totals.hosts == 40
        await pilot.press("escape", "escape", "slash", *"rack:r03", "enter", "6", "enter")
        assert "left out" not in text_of(app)
        assert app.front.model.totals.hosts == 20


def finding_about(number: int) -> Finding:
    """A finding about one host."""
    name = SafeText(f"gpu{number:04}")
    return Finding(rule=name, level="warn", sentence=SafeText("is odd"), hosts=(name,))


async def test_a_click_beside_the_findings_is_on_none() -> None:
    found = (finding_about(0), finding_about(1))
    async with shown(fleet(some_hosts(3), findings=found)) as (app, pilot):
        await pilot.press("6")
        for number in (0, 1):
            last = max(y for y, line in enumerate(screen_lines(app)) if "is odd" in line)
            # The line of sums, those between and below the findings, the last above the footer.
            for y in (1, last - 1, last + 4, 22):
                await pilot.click(offset=(3, y))
                assert (page_of(app), app.front.model.finding) == (
                    "FindingsPage",
                    number,
                )
            await pilot.click(offset=(3, last))
            assert app.front.model.finding == 1


async def test_a_click_where_there_were_findings_is_on_none() -> None:
    async with shown(fleet(some_hosts(3), findings=(finding_about(0), finding_about(1)))) as (
        app,
        pilot,
    ):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        await pilot.press("6")
        feed.give(fleet(some_hosts(3), seconds=10, findings=()))
        await pilot.pause()
        await pilot.click(offset=(3, 5))
        feed.give(fleet(some_hosts(3), seconds=20, findings=(finding_about(0),)))
        await pilot.pause()
        assert (page_of(app), app.front.model.finding) == ("FindingsPage", 0)


async def test_a_wrong_word_of_the_filter_is_named_and_the_others_hold() -> None:
    async with shown(fleet(some_hosts(40))) as (app, pilot):
        await pilot.press("slash", *"gpu0003 idle>x")
        assert app.front.prompt.error is not None
        assert app.front.model.totals.hosts == 1
        await pilot.press("enter")
        assert app.front.prompt.is_open
        await pilot.press("escape")
        assert (app.front.prompt.is_open, app.front.model.totals.hosts) == (False, 40)


async def test_pause_before_the_first_snapshot_holds_nothing_up() -> None:
    feed = HandFleetFeed()
    app = fleet_app(feed, preferences=Preferences(None))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("p", "left_square_bracket")
        feed.give(fleet(some_hosts(2)))
        await pilot.pause()
        assert "gpu0001" in text_of(app)
        assert "AGO" not in screen_lines(app)[0]


async def test_the_key_that_pauses_is_named_by_what_it_does_next() -> None:
    async with shown(fleet(some_hosts(2))) as (app, pilot):
        assert "p live" not in screen_lines(app)[-1]
        await pilot.press("p")
        assert "p live" in screen_lines(app)[-1]
        await pilot.press("p")
        assert "p live" not in screen_lines(app)[-1]


async def test_a_list_longer_than_the_window_shows_which_part_is_in_view() -> None:
    found = tuple(
        Finding(rule=f"r{n}", level="warn", sentence=SafeText("is wrong")) for n in range(1000)
    )
    async with shown(fleet(some_hosts(1000), findings=found)) as (app, pilot):
        for key, count in (("2", "1,000"), ("3", "8,000"), ("6", "1,000")):
            await pilot.press(key)
            await pilot.pause()
            line = screen_lines(app)[1].rstrip()
            assert line.endswith(f" of {count}")
            assert line.split()[-3].startswith("1-")
            await pilot.press("end")
            await pilot.pause()
            assert screen_lines(app)[1].rstrip().endswith(f"-{count} of {count}")


async def test_every_count_above_a_list_has_its_word() -> None:
    words = ["lost", "hot", "busy", "held-idle", "in-use", "leased", "free", "unknown"]
    async with shown(fleet(tuple(host(n, *words) for n in range(40)))) as (app, pilot):
        await pilot.press("2")
        await pilot.pause()
        line = screen_lines(app)[1]
    counts = line[: line.index("1-")].replace(",", "")
    assert re.fullmatch(r"( \d+ [a-zA-Z ]+?)+ *", counts.rstrip() + " ")
    assert not counts.rstrip()[-1].isdigit()


async def test_letters_without_room_beside_the_title_are_explained_below_the_map() -> None:
    hosts = tuple(
        host(n, state=state)
        for n, state in enumerate(("down", "stale", "auth", "lost-contact", "host-key"))
    )
    async with shown(fleet((*hosts, host(5, *["held-idle"] * 8)))) as (app, _pilot):
        text = text_of(app)
    for state in ("DOWN", "STALE", "held idle"):
        assert re.search(rf"\b[A-Zh] {state}\b", text)


@pytest.mark.parametrize(("count", "size"), [(40, SIZES[2]), *((1000, size) for size in SIZES)])
async def test_lines_to_spare_show_more_findings(count: int, size: tuple[int, int]) -> None:
    found = tuple(
        Finding(rule=f"r{n}", level="warn", sentence=SafeText(f"number {n} is wrong"))
        for n in range(60)
    )
    async with shown(fleet(some_hosts(count), findings=found), size) as (app, _pilot):
        lines = [line.strip() for line in screen_lines(app)]
    seen = [line for line in lines if "is wrong" in line]
    assert len(seen) >= 3
    assert seen[-1].endswith(f"+{60 - len(seen)} more: w")
    assert lines[-2] == seen[-1]
    assert lines[2:].count("") <= 3


async def test_who_wastes_most_gpu_hours_comes_first() -> None:
    users = (
        FleetUser(name=SafeText("walter"), devices=8, held_idle=8, idle_gpu_hours=64.0),
        FleetUser(name=SafeText("alice"), devices=9, held_idle=9, idle_gpu_hours=16.0),
    )
    async with shown(fleet(some_hosts(40), users=users)) as (app, pilot):
        line = next(line for line in screen_lines(app) if line.startswith(" held idle"))
        assert line.split()[2:] == [
            "walter",
            "8",
            "(64.0",
            "GPU-h)",
            "alice",
            "9",
            "(16.0",
            "GPU-h)",
        ]
        await pilot.press("4")
        await pilot.pause()
        text = "\n".join(screen_lines(app))
        assert text.index("walter") < text.index("alice")


async def test_gpus_held_idle_by_unknown_users_are_named_by_their_hosts() -> None:
    async with shown(fleet((host(1, *["held-idle"] * 8), host(2)), users=())) as (app, _pilot):
        line = next(line for line in screen_lines(app) if line.startswith(" held idle"))
    assert line.rstrip() == " held idle  by unknown users on: gpu0001 8"


async def test_a_free_host_that_is_drained_is_named() -> None:
    hosts = (host(1, *["free"] * 8, drain_reason="firmware"), host(2, *["busy"] * 7, "free"))
    async with shown(fleet(hosts, users=())) as (app, _pilot):
        line = next(line for line in screen_lines(app) if line.startswith(" free "))
    assert line.split(maxsplit=1)[1].rstrip() == (
        "no host with all its GPUs free but drained gpu0001; 1 free on others"
    )


async def test_a_mig_instance_is_named_after_its_gpu() -> None:
    devices = (device(0), device(7, parent_uuid="GPU-0"), device(1))
    async with shown(fleet((host(1, devices=devices),))) as (app, pilot):
        await pilot.press("3")
        await pilot.pause()
        rows = [line.split()[1] for line in screen_lines(app) if line.startswith(" gpu0001")]
    assert sorted(rows) == ["0", "0:7", "1"]


async def test_the_same_name_in_two_clusters_shows_both_clusters() -> None:
    hosts = (host(1, cluster="east"), host(1, cluster="west"))
    async with shown(fleet(hosts)) as (app, pilot):
        await pilot.press("2")
        await pilot.pause()
        rows = [line.split()[:2] for line in screen_lines(app) if line.startswith(" gpu0001")]
    assert sorted(rows) == [["gpu0001", "east"], ["gpu0001", "west"]]


async def test_the_map_names_the_cluster_of_hosts_that_share_a_name() -> None:
    hosts = (host(1, cluster="east"), host(1, *["free"] * 8, cluster="west"), host(2))
    found = Finding(
        rule="held-idle",
        level="warn",
        sentence=SafeText("west is idle"),
        hosts=(SafeText("west/gpu0001"),),
    )
    async with shown(fleet(hosts, findings=(found,))) as (app, pilot):
        text = text_of(app)
        assert "all 8 on 1 host: west/gpu0001" in text
        assert " gpu0002 " in text
        await pilot.press("slash", *"cluster:east", "enter")
        assert "west is idle" not in text_of(app)
        # Alone it has no need of its cluster, and the finding names it as it did.
        await pilot.press("escape")
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        feed.give(fleet(hosts[1:], findings=(found,), seconds=10))
        await pilot.pause()
        assert "west is idle" in text_of(app)
        await pilot.press("escape", "escape", "6", "enter")
        assert app.front.host == ("west", "gpu0001")


async def test_the_map_is_followed_by_the_past_of_all_gpus_where_there_is_room() -> None:
    async with shown(fleet(some_hosts(40)), (200, 60)) as (app, pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        (asked,) = feed.asked[-1].charts
        assert (asked.hosts, asked.by_device, asked.metric) == ((), False, METRICS[0])
        lines = (FleetLine(values=(10.0, None, 20.0)),)
        answer = answer_to(asked, 0, step_seconds=60.0, lines=lines)
        feed.give(fleet(some_hosts(40), seconds=10.0, charts=(answer,)))
        await app.workers.wait_for_complete()
        await pilot.pause()
        text = text_of(app)
        assert "mean of all GPUs" in text
        assert "now" in text
        await pilot.press("2")
        await pilot.pause()
        assert feed.asked[-1].charts == ()


async def test_the_mean_of_one_of_two_servers_is_not_charted_as_that_of_all() -> None:
    sources = tuple(FleetSource(kind="prometheus", name=SafeText(name)) for name in ("a", "b"))
    async with shown(fleet(some_hosts(40), sources=sources), (200, 60)) as (app, _pilot):
        feed = app.front.feed
        assert isinstance(feed, HandFleetFeed)
        assert not feed.asked or feed.asked[-1].charts == ()
        assert "mean of all GPUs" not in text_of(app)


async def test_nothing_is_claimed_of_gpus_while_no_host_answers() -> None:
    async with shown(fleet((host(0, *["free"] * 8, state="down"),), users=())) as (app, _pilot):
        lines = [line.rstrip() for line in screen_lines(app)]
    assert " held idle  not known" in lines
    assert " free       not known" in lines


async def test_the_page_of_a_host_lists_its_own_gpus_though_time_stands_still() -> None:
    hosts = tuple(
        host(n, devices=(device(0, users=(user,)),)) for n, user in ((1, "ann"), (2, "ben"))
    )
    async with shown(fleet(hosts, users=())) as (app, pilot):
        await pilot.press("p", "2", "home")
        for keys, user in (((), "ann"), (("2", "down"), "ben"), (("2", "up"), "ann")):
            await pilot.press(*keys, "enter")
            text = text_of(app)
            assert [name for name in ("ann", "ben") if name in text] == [user]


async def test_texts_name_the_keys_in_force() -> None:
    keys = {"fleet.metric": ("f7",), "fleet.back": ("f8",), "fleet.findings": ("f9",)}
    several = fleet(some_hosts(40)).findings * 20
    async with shown(fleet(some_hosts(40), findings=several), (140, 40), keys=keys) as (app, pilot):
        assert "more: F9" in text_of(app)
        await pilot.press("enter")
        assert "F7 metric  + - time" in text_of(app)
        await pilot.press("slash", *"host:nowhere", "enter")
        assert "No GPU fits; F8 shows all" in text_of(app)
