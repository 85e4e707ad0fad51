import re
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from textual.events import Paste

from gpudash.analysis.health.acknowledged import Acknowledged, Place
from gpudash.analysis.health.engine import Diagnosis
from gpudash.feed.protocol import FeedState
from gpudash.fleet.event_log import MAX_KEPT
from gpudash.fleet.reduce import Reducer
from gpudash.model.device import AnyDevice
from gpudash.model.fleet import (
    ChartRequest,
    Event,
    FleetChart,
    FleetHost,
    FleetLine,
    FleetSnapshot,
    FleetSource,
    FleetUser,
    mark_of,
)
from gpudash.model.snapshot import Evidence, Finding
from gpudash.model.state import FREE
from gpudash.model.text import SafeText
from gpudash.model.units import Unit
from gpudash.tui.fleet.filtering import apply as filter_by
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import METRICS, FleetModel
from gpudash.tui.fleet.paint import PAINTINGS
from gpudash.tui.overview import Overview
from tests.factories import make_device, make_snapshot
from tests.feed.hand import HandFeed, HandFleetFeed, PlayedFeed
from tests.fleet.many import INSTANT, device, fleet, host, some_hosts
from tests.tui.stage import OnScreen, busy_snapshot, on_screen

PAGES = {
    "MapPage": "",
    "HostsPage": "Hosts  ",
    "GpusPage": "GPUs  ",
    "UsersPage": "Users  ",
    "JobsPage": "Jobs  ",
    "FindingsPage": "Findings  ",
    "GroupsPage": "Hosts by ",
}
"""Each with its title."""
SIZES = [(80, 24), (120, 40), (200, 60)]


def page_of(on: OnScreen) -> str:
    return type(on.app.front).__name__


def entering(inner: HandFeed) -> MapPage:
    """The map of many hosts, of which each is entered over a feed."""
    return MapPage(FleetModel(HandFleetFeed(), lambda _host, _interval: inner, lambda _host: True))


async def test_each_page_has_its_digit_and_its_title_and_no_value_is_cut() -> None:
    async with on_screen(fleet(some_hosts(1000))) as on:
        for key, page in zip("1234567", PAGES, strict=True):
            await on.press(key)
            assert page == page_of(on)
            for size in SIZES:
                await on.resize(*size)
                assert on.lines[1].startswith(f" {PAGES[page]}")
                # The list of hosts that are free is the one that may go on.
                lines = [line for line in on.lines if "all 8 on" not in line]
                assert not [line for line in lines if "…" in line.replace("asking…", "")]


@pytest.mark.parametrize(("key", "last"), [("2", "FREE"), ("4", "GPU-HOURS IDLE"), ("7", "FREE")])
async def test_few_cells_have_fewer_columns_of_which_none_is_cut(key: str, last: str) -> None:
    users = (FleetUser(name=SafeText("mallory"), devices=8, held_idle=1, idle_gpu_hours=64.0),)
    hosts = host(1, "unusable", "free"), *some_hosts(100)[1:]
    async with on_screen(fleet(hosts, users=users), key, size=(40, 12)) as on:
        headings = on.lines[2].split()
        assert " ".join(headings[-len(last.split()) :]).lstrip("▲▼") == last


async def test_a_small_screen_has_a_map_under_a_heading_that_fits() -> None:
    for count, *sizes in ((8, (60, 16)), (100, (40, 16)), (1000, (60, 16), (40, 10))):
        async with on_screen(fleet(some_hosts(count))) as on:
            for size in sizes:
                await on.resize(*size)
                lines = on.lines
                heading = next(n for n, line in enumerate(lines) if "a cell is" in line)
                assert re.search("[█▇X]", lines[heading + 1])
                text = r" utilization  a cell is (a|\d+) (GPU|hosts?)( |$)"
                assert re.match(text, lines[heading])


async def test_a_screen_without_room_for_the_map_names_the_page_that_has_the_hosts() -> None:
    async with on_screen(fleet(some_hosts(100)), size=(40, 7)) as on:
        assert "no room for the map; 2 lists the hosts" in on.text


async def test_time_stands_apart_in_the_narrowest_header() -> None:
    async with on_screen(fleet(some_hosts(1000)), size=(20, 5)) as on:
        assert re.search(r"\d \d\d:\d\d:\d\d$", on.lines[0])


async def test_a_source_that_fails_is_shown_on_every_page_whatever_the_filter() -> None:
    failed = FleetSource(
        kind="prometheus",
        name=SafeText("http://prom:9090"),
        state="failed",
        message=SafeText("401 Unauthorized"),
    )
    async with on_screen(fleet(some_hosts(40), sources=(failed,))) as on:
        for key in "126":
            await on.press(key)
            assert "401 Unauthorized" in on.text
        await on.press("slash", *"nothing-fits", "enter")
        assert not on.model.rows
        assert "401 Unauthorized" in on.text


async def test_how_old_the_last_answer_is_stands_before_a_long_reason() -> None:
    stale = FleetSource(
        kind="prometheus",
        name=SafeText("http://prom:9090"),
        state="stale",
        age_seconds=75.0,
        message=SafeText("the query would load too many samples into the memory " * 3),
    )
    async with on_screen(fleet(some_hosts(40), sources=(stale,))) as on:
        assert "http://prom:9090, last answer 1m15s ago: the query would" in on.text


async def test_hosts_are_added_up_by_what_they_stand_in_or_are() -> None:
    def of(number: int, rack: str, model: str, *words: str, **fields: Any) -> FleetHost:
        gpus = tuple(device(n, word, name=SafeText(model)) for n, word in enumerate(words))
        return host(number, group=rack, devices=gpus, expected_devices=2, **fields)

    hosts = (
        of(1, "r1", "H100", "busy", "busy"),
        of(2, "r1", "H100", "free", "free"),
        of(3, "r2", "H100", "held-idle", "free"),
        of(4, "r2", "L40S", "free", "free", state="down"),
    )
    reduced = Reducer().reduce(fleet(hosts, users=(), jobs=()))
    async with on_screen(reduced, "7", size=(140, 24)) as on:
        assert on.lines[1].startswith(" Hosts by rack ")
        groups = {row.name: row for row in on.model.ranked_groups().rows}
        assert [*groups] == ["r2", "r1"]
        assert (groups["r1"].sums.gpus, groups["r1"].count(FREE), groups["r1"].whole) == (4, 2, 1)
        assert groups["r1"].sums.power_mw == 2 * 600_000 + 2 * 90_000
        assert on.lines[3].split()[:6] == ["r2", "1/2", "DOWN", "+1", "host", "4"]
        await on.press("b")
        assert on.lines[1].startswith(" Hosts by model ")
        assert [row.name for row in on.model.ranked_groups().rows] == ["L40S", "H100"]
        await on.press("end", "enter")
        assert page_of(on) == "HostsPage"
        assert on.model.filter.text == 'model="H100"'
        assert {row.host.name for row in on.model.rows} == {"gpu0001", "gpu0002", "gpu0003"}
        await on.press("7", "b", "enter")
        assert "no cluster is known" in on.lines[-1]


async def test_the_column_that_orders_a_table_is_ticked_in_the_list_of_all() -> None:
    async with on_screen(fleet(some_hosts(3)), "2", "s") as on:
        assert [line.split()[-2] for line in on.lines if "\u2713" in line] == ["STATUS"]


async def test_a_column_without_room_can_be_sorted_by() -> None:
    async with on_screen(fleet(some_hosts(40)), "2") as on:
        assert "TEMP" not in on.lines[2]
        await on.press("s", *"TEMP", "enter")
        assert on.model.hosts.sort_key == "temperature"
        assert "▼TEMP" in on.lines[2]


async def test_arrows_move_over_the_map_and_enter_shows_the_gpus_of_the_host() -> None:
    async with on_screen(fleet(some_hosts(40)), "right", "right") as on:
        assert on.model.cursor == (None, "gpu0002")
        await on.press("enter")
        assert on.app.front.host == (None, "gpu0002")
        assert "no ssh" in on.text
        await on.press("escape")
        assert page_of(on) == "MapPage"


async def test_a_click_selects_a_host_and_a_second_opens_it() -> None:
    async with on_screen(fleet(some_hosts(40)), size=(120, 40)) as on:
        lines = on.lines
        y = next(n for n, line in enumerate(lines) if "gpu0003 " in line)
        x = lines[y].index("gpu0003 ") + 9
        await on.pilot.click(offset=(x, y))
        assert on.model.cursor == (None, "gpu0003")
        await on.pilot.click(offset=(x, y))
        assert on.app.front.host == (None, "gpu0003")


@pytest.mark.parametrize("key", ["escape", "q", "ctrl+c"])
async def test_a_host_is_entered_and_left_for_the_page_it_was_entered_from(key: str) -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), "2", "enter", page=entering(inner)) as on:
        inner.give(busy_snapshot())
        await on.pilot.pause()
        assert "node7" in on.lines[0]
        assert "q back" in on.lines[-1]
        # The outer feed goes on, and what it brings is there at the end.
        await on.give(fleet(some_hosts(3), seconds=10))
        assert "node7" in on.lines[0]
        await on.press(key)
        assert (page_of(on), on.app.return_code, inner.stopped) == ("HostsPage", None, True)
        assert on.model.totals.hosts == 3
        assert not on.feed.stopped


async def test_a_host_that_gives_nothing_is_left_for_what_is_known_of_it() -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), page=entering(inner)) as on:
        inner.state = FeedState.STARTING
        await on.press("enter")
        assert isinstance(on.app.front, Overview)
        inner.exit_status, inner.error = 255, "Connection refused"
        inner.change(FeedState.RESTARTING)
        await on.pilot.pause()
        assert on.app.front.host == (None, "gpu0000")
        assert "gpu0000: Connection refused" in on.text
        assert on.app.is_running


async def test_a_host_that_was_left_ends_nothing() -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), "enter", "escape", page=entering(inner)) as on:
        inner.exit_status, inner.error = 255, "no route"
        inner.change(FeedState.RESTARTING)
        await on.pilot.pause()
        assert (page_of(on), on.app.return_code) == ("MapPage", None)


async def test_a_theme_that_is_only_tried_goes_with_its_dialog_when_a_host_ends() -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), page=entering(inner)) as on:
        inner.state = FeedState.STARTING
        await on.press("enter")
        before = on.app.preferences.current.theme
        await on.press("f2", "down")
        assert on.app.preferences.current.theme != before
        inner.exit_status, inner.error = 255, "no route"
        inner.change(FeedState.RESTARTING)
        await on.pilot.pause()
        assert (page_of(on), on.app.preferences.current.theme) == ("HostGpusPage", before)


async def test_the_views_of_a_host_close_with_it() -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), "enter", page=entering(inner)) as on:
        inner.give(busy_snapshot())
        await on.press("d", "ctrl+c")
        assert page_of(on) == "MapPage"


async def test_a_host_is_entered_as_it_was_while_the_past_is_shown() -> None:
    inner = HandFeed()
    async with on_screen(fleet(some_hosts(40)), page=entering(inner)) as on:
        on.feed.give(fleet(some_hosts(40), seconds=10))
        await on.press("left_square_bracket", "2", "enter")
        assert on.app.front.host == (None, "gpu0008")
        assert "no ssh" not in on.text


async def test_a_key_asks_to_connect_again_where_ssh_failed() -> None:
    ssh = FleetSource(kind="ssh", name=SafeText("gpu0000"))
    async with on_screen(fleet((host(0, state="auth"),), sources=(ssh,)), "R", "2", "R") as on:
        assert on.feed.asked[-1].retries == 2
    async with on_screen(fleet(some_hosts(3)), "R") as on:
        assert not any(asked.retries for asked in on.feed.asked)


async def test_the_page_of_a_host_begins_with_what_is_wrong_with_it() -> None:
    reason = "ssh: connect to host gpu0000 port 22: Connection refused"
    async with on_screen(fleet((host(0, state="down", message=reason),)), "2", "enter") as on:
        lines = on.lines
        assert lines[2].startswith(f" gpu0000  cannot be reached: {reason}"[:70])
        assert "…" in lines[2]


async def test_the_page_of_a_silent_host_says_how_old_its_values_are() -> None:
    down = host(0, state="down", message="No route to host", age_seconds=7200.0)
    async with on_screen(fleet((down,)), "2", "enter") as on:
        assert "cannot be reached: No route to host   last answer 2h00m ago" in on.lines[2]
    async with on_screen(fleet((host(0),)), "2", "enter") as on:
        assert "last answer" not in on.text


async def test_the_line_of_the_selected_host_says_each_state_once() -> None:
    async with on_screen(fleet((host(1, "hot", "hot", "busy"),))) as on:
        assert on.text.count("2 hot") == 2  # of all GPUs, and of the host


async def test_a_long_table_stands_in_two_parts_where_it_is_wide() -> None:
    async with on_screen(fleet(some_hosts(40)), "2", size=(200, 30)) as on:
        heading = next(y for y, line in enumerate(on.lines) if "HOST " in line)
        first, second = on.lines[heading].index("HOST"), on.lines[heading].rindex("HOST")
        names = [row.host.name for row in on.model.ranked_hosts().rows]
        # Header, sums and footer are above and below the heading and its rows.
        rows = len(on.lines) - heading - 2
        assert [line[first:].split()[0] for line in on.lines[heading + 1 : -1]] == names[:rows]
        assert on.lines[heading + 1][second:].split()[0] == names[rows]
        await on.pilot.click(offset=(second + 1, heading + 3))
        assert on.model.ranked_hosts().selected.host.name == names[rows + 2]
        await on.pilot.click(offset=(second + 1, heading + rows))
        assert on.model.ranked_hosts().selected.host.name == names[rows + 2]
        await on.pilot.click(offset=(second + 1, heading))
        assert on.model.ranked_hosts().sort_key == "host"
    async with on_screen(fleet(some_hosts(9)), "2", size=(200, 30)) as on:
        assert on.text.count("HOST ") == 1


async def test_c_goes_through_all_that_can_be_painted() -> None:
    async with on_screen(fleet(some_hosts(40))) as on:
        seen = []
        for _ in PAINTINGS:
            seen.append(on.model.painting)
            await on.press("c")
        assert tuple(seen) == PAINTINGS
        assert on.model.painting is PAINTINGS[0]


async def test_the_filter_recounts_and_escape_drops_it() -> None:
    async with on_screen(fleet(some_hosts(40)), "slash", *"gpu0003") as on:
        assert "8 of 320 GPUs on 1 host " in on.text
        await on.press("enter")
        assert (on.model.totals.hosts, on.model.totals.gpus) == (1, 8)
        assert on.model.everything.hosts == 40
        await on.press("escape")
        assert on.model.totals.hosts == 40


async def test_ascii_has_nothing_else() -> None:
    hot = Finding(
        rule="hot-outlier",
        level="warn",
        sentence=SafeText("1 GPU is far hotter than the others"),
        evidence=(Evidence(name="temperature_celsius", value=89, unit=Unit.CELSIUS.suffix),),
    )
    snapshot = fleet(some_hosts(300), findings=(hot,))
    async with on_screen(snapshot, size=(120, 40), ascii=True) as on:
        for key in "1ccccc6":
            await on.press(key)
            assert on.text.isascii()
        assert "Temperature 89 C" in on.text


async def test_help_speaks_of_what_this_screen_has() -> None:
    async with on_screen(fleet(some_hosts(3)), "h", size=(140, 70)) as on:
        text = on.text
    assert "sort by a column" in text
    assert not [word for word in ("as a tree", "process or GPU") if word in text]


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


async def give_chart(on: OnScreen, snapshot: FleetSnapshot) -> None:
    """Let a snapshot with a chart arrive, and wait until that is drawn."""
    on.feed.give(snapshot)
    await on.app.workers.wait_for_complete()
    await on.pilot.pause()


async def test_the_gpus_of_a_host_are_charted_where_a_source_has_a_past() -> None:
    hosts = some_hosts(3)
    async with on_screen(fleet(hosts), "2", "home", "enter", "minus", "tab", size=(120, 40)) as on:
        (asked,) = on.feed.asked[-1].charts
        assert (asked.hosts, asked.span_seconds) == ((hosts[0].name,), 86400.0)
        assert (asked.metric, asked.by_device) == (METRICS[1], True)
        lines = tuple(
            FleetLine(host=hosts[0].name, index=index, values=(1e9, None, 2e9)) for index in (0, 1)
        )
        answer = answer_to(asked, 0, step_seconds=43200.0, lines=lines)
        await give_chart(on, fleet(hosts, seconds=10, charts=(answer,)))
        assert "GPU 1" in on.text
        await on.press("escape")
        assert on.feed.asked[-1].charts == ()


async def test_a_chart_is_asked_for_while_the_terminal_takes_no_picture() -> None:
    async with on_screen(fleet(some_hosts(3)), "2", "home", size=(120, 40), captured=True) as on:
        assert on.feed.asked[-1].charts == ()
        assert on.driver.output is not None
        on.driver.output.busy = True
        await on.press("enter")
        assert [each.hosts for each in on.feed.asked[-1].charts] == [("gpu0000",)]
        on.driver.output.busy = False


def test_what_is_charted_is_known_of_hosts_of_every_source() -> None:
    assert set(METRICS) <= set(AnyDevice.__struct_fields__)


async def test_a_chart_that_is_asked_for_while_time_stands_still_is_drawn_up_to_its_end() -> None:
    hosts = some_hosts(3)
    async with on_screen(fleet(hosts), "2", "home", "enter", "p", "tab", size=(120, 40)) as on:
        assert "asking" in on.text
        (asked,) = on.feed.asked[-1].charts
        assert asked.end is not None
        assert 0 <= (INSTANT - asked.end).total_seconds() < asked.span_seconds / 100
        # Not by what ends at another time than that which is shown.
        await on.give(fleet(hosts, seconds=10, charts=(answer_to(asked, 10),)))
        assert "asking" in on.text
        answer = answer_to(asked, 0, end=asked.end)
        await give_chart(on, fleet(hosts, seconds=20, charts=(answer,)))
        text = on.text
        assert "asking" not in text
        assert f"{answer.end.astimezone():%H:%M}" in text
        # That of the present is not what an instant of the past is charted by.
        await on.press("at", *"-2h", "enter")
        await on.give(fleet(hosts, seconds=10 - 7200))
        assert "asking" in on.text


async def test_a_host_is_not_charted_by_the_answer_for_another() -> None:
    hosts = (host(1, cluster="east"), host(1, cluster="west"), host(2, cluster="west"))
    async with on_screen(fleet(hosts), "2", "home", "enter", size=(120, 40)) as on:
        (asked,) = on.feed.asked[-1].charts
        unknown = {"lines": (), "message": SafeText("no such metric")}
        for seconds, fields in ((10, {}), (20, unknown)):
            answer = answer_to(asked, seconds, **fields)
            await on.give(fleet(hosts, seconds=seconds, charts=(answer,)))
            assert "asking" not in on.text
            for _ in hosts[1:]:
                await on.press("escape", "down", "enter")
                assert "asking" in on.text
            await on.press("escape", "home", "enter")


async def test_a_host_is_charted_by_the_one_of_two_servers_that_knows_it() -> None:
    hosts = some_hosts(1)
    async with on_screen(fleet(hosts), "2", "enter", size=(120, 40)) as on:
        (asked,) = on.feed.asked[-1].charts
        nothing = answer_to(asked, 10, lines=(), message=SafeText("no such metric"))
        await give_chart(on, fleet(hosts, seconds=10, charts=(nothing, answer_to(asked, 10))))
        assert "no such metric" not in on.text


async def test_the_chart_of_many_gpus_shows_those_at_the_cursor_and_says_which() -> None:
    one = host(0, *["busy"] * 16, expected_devices=16)
    async with on_screen(fleet((one,)), "2", "enter", "home", size=(120, 50)) as on:
        (asked,) = on.feed.asked[-1].charts
        lines = tuple(FleetLine(host=one.name, index=n, values=(10.0, n * 5.0)) for n in range(16))
        answer = answer_to(asked, 0, lines=lines)
        await give_chart(on, fleet((one,), seconds=10, charts=(answer,)))
        assert "GPU 0-7, 8 of 16" in on.text
        await on.press("end")
        assert "GPU 8-15, 8 of 16" in on.text


async def test_an_instant_from_before_is_asked_for_and_shown_when_it_comes() -> None:
    async with on_screen(fleet(some_hosts(3))) as on:
        model = on.model
        await on.press("at", *"-2h", "enter")
        wanted = INSTANT - timedelta(hours=2)
        assert on.feed.asked[-1].at == wanted
        assert " ASKING FOR 2h00m AGO " in on.lines[0]
        assert "p live" in on.lines[-1]
        # The present goes on to arrive until the collector has changed over.
        on.feed.give(fleet(some_hosts(4), seconds=10))
        assert model.totals.hosts == 3
        on.feed.give(fleet(some_hosts(5), seconds=-7200))
        assert (model.totals.hosts, model.snapshot.taken_at) == (5, wanted)
        await on.pilot.pause()
        assert " ASKING" not in on.lines[0]
        assert " 2h00m AGO " in on.lines[0]
        assert "old" not in on.lines[0]
        # A step further back is asked for as well.
        await on.press("left_square_bracket")
        assert " ASKING FOR 2h01m AGO " in on.lines[0]
        assert on.feed.asked[-1].at == wanted - timedelta(minutes=1)
        await on.press("escape")
        assert (model.time.is_live, on.feed.asked[-1].at) == (True, None)
        assert " ASKING FOR NOW " in on.lines[0]
        on.feed.change(FeedState.STALE, 42.0)
        await on.pilot.pause()
        assert " STALE 42s " in on.lines[0]
        # Of what was asked for the rest comes late.
        on.feed.give(fleet(some_hosts(6), seconds=-7200))
        on.feed.give(fleet(some_hosts(7), seconds=20))
        assert model.totals.hosts == 7


async def test_a_time_that_cannot_be_shown_is_refused_with_the_span_that_there_is() -> None:
    async with on_screen(fleet(some_hosts(3))) as on:
        for text in ("-999999d", "9999-12-31 23:59"):
            await on.press("at", *text, "enter")
            assert on.app.screen.is_modal
            span = re.sub(r"\s+", " ", on.text.replace("\u2502", " "))
            assert "is outside of what is there: " in span or "is not a time" in span
            await on.press("escape")


@pytest.mark.parametrize(
    ("page", "filtered"), [("4", 'user="bob"'), ("6", 'host="gpu0008,gpu0009"')]
)
async def test_enter_leaves_the_gpus_of_what_is_under_the_cursor(page: str, filtered: str) -> None:
    finding = Finding(
        rule="x",
        level="warn",
        sentence=SafeText("y"),
        hosts=(SafeText("gpu0008"), SafeText("gpu0009")),
    )
    async with on_screen(fleet(some_hosts(40), findings=(finding,)), page, "enter") as on:
        assert (page_of(on), on.model.filter.text) == ("GpusPage", filtered)
        assert 0 < on.model.totals.gpus < 320


async def test_the_number_of_a_job_leads_from_the_map_to_its_gpus_and_back() -> None:
    hosts = (
        host(1, devices=tuple([device(n, job="slurm:489781") for n in range(8)])),
        host(2, devices=tuple([device(n, job="slurm:4897") for n in range(8)])),
    )
    reduced = Reducer().reduce(fleet(hosts, users=(), jobs=(), findings=()))
    async with on_screen(reduced, "slash", *"48978", "enter") as on:
        assert (page_of(on), on.model.totals.gpus) == ("MapPage", 8)
        await on.press("slash", "1", "enter")
        assert (page_of(on), on.model.filter.text) == ("JobPage", "489781")
        await on.press("escape")
        assert (page_of(on), on.model.filter.text) == ("MapPage", "")


async def test_a_number_that_two_clusters_have_leads_to_both_jobs_and_from_there_to_one() -> None:
    def of(cluster: str, *statuses: str) -> FleetHost:
        gpus = [device(n, word, job="4897") for n, word in enumerate(statuses)]
        devices = tuple(replace(each, uuid=f"GPU-{cluster}-{each.index}") for each in gpus)
        return host(1, cluster=cluster, devices=devices)

    hosts = of("east", "busy", "busy", "busy"), of("west", "busy"), host(2, "free", cluster="west")
    reduced = Reducer().reduce(fleet(hosts, users=(), jobs=(), findings=()))
    async with on_screen(reduced, "slash", *"4897", "enter", size=(140, 30)) as on:
        assert (page_of(on), on.model.totals.gpus) == ("JobsPage", 4)
        assert [each.key for each in on.model.ranked_jobs().rows] == [
            ("east", "4897"),
            ("west", "4897"),
        ]
        assert [line.split()[:3] for line in on.lines if line.startswith(" 4897 ")] == [
            ["4897", "east", "alice"],
            ["4897", "west", "alice"],
        ]
        await on.press("down", "enter")
        assert (page_of(on), on.model.job_totals.gpus) == ("JobPage", 1)
        assert "Job 4897 in west" in on.text


async def test_a_job_shows_its_gpus_beside_their_medians_the_slowest_first() -> None:
    own = {"sm_clock_mhz": 1980, "users": ("alice",)}
    gpus = [device(n, **own) for n in range(6)]
    slow = device(6, **{**own, "sm_clock_mhz": 1200, "power_usage_mw": 400_000})
    shared = device(7, **{**own, "users": ("alice", "mallory")})
    hosts = (host(1, devices=(*gpus, slow, shared)), host(2, "free", "held-idle"))
    reduced = Reducer().reduce(fleet(hosts, users=(), findings=()))
    async with on_screen(reduced, "5", "enter", size=(140, 30)) as on:
        assert page_of(on) == "JobPage"
        lines = on.lines
        assert "median of its GPUs: 90%  1980MHz  600W  66C" in lines[2]
        assert len([line for line in lines if line.startswith(" gpu0001 ")]) == 8
        assert not any("gpu0002" in line for line in lines)
        assert [line.split()[1] for line in lines[5:] if " mallory " in line] == ["7"]
        assert lines[3].rstrip() == " not its own: mallory on gpu0001:7"
        assert lines[5].split()[:2] == ["gpu0001", "6"]
        weak = replace(
            hosts[0],
            name="gpu0003",
            devices=tuple(replace(each, name="NVIDIA L40S", sm_clock_mhz=1200) for each in gpus),
        )
        await on.give(Reducer().reduce(fleet((*hosts, weak), seconds=10, users=(), findings=())))
        assert "median of its H100: 90%  1980MHz  600W  66C, L40S: 90%  1200MHz" in on.lines[2]
        await on.press("escape")
        assert page_of(on) == "JobsPage"


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
    async with on_screen(fleet(some_hosts(40)), "w", "enter") as on:
        assert on.app.front.host == (None, "gpu0008")


async def test_a_long_filter_is_cut_to_the_room_beside_what_it_leaves() -> None:
    names = ",".join(f"gpu{number:04}" for number in range(10))
    async with on_screen(fleet(some_hosts(40)), "slash") as on:
        on.app.post_message(Paste(f"host:{names}"))
        await on.press("enter")
        for cells in (20, 40, 80, 120):
            await on.resize(cells, 24)
            line = on.lines[2]
            assert line.startswith(" / host:gpu")
            assert "…" in line or names in line
            assert ("80 of 320 GPUs on 10 of 40 hosts" in line) == (cells >= 80)


async def test_hosts_of_a_finding_that_no_filter_can_name_are_counted() -> None:
    names = tuple(each.name for each in some_hosts(60))
    found = Finding(rule="x", level="warn", sentence=SafeText("y"), hosts=names)
    async with on_screen(fleet(some_hosts(60), findings=(found,)), "6", "enter") as on:
        assert "20 hosts left out" in on.text
        assert on.model.totals.hosts == 40
        await on.press("escape", "escape", "slash", *"rack:r03", "enter", "6", "enter")
        assert "left out" not in on.text
        assert on.model.totals.hosts == 20


def finding_about(number: int) -> Finding:
    name = SafeText(f"gpu{number:04}")
    return Finding(rule=name, level="warn", sentence=SafeText("is odd"), hosts=(name,))


async def test_a_finding_takes_all_the_room_before_since_when_it_is() -> None:
    text = SafeText("a" * 60)
    found = Finding(rule="a", level="critical", sentence=text, held_seconds=60.0)
    async with on_screen(fleet(some_hosts(8), findings=(found,))) as on:
        # Four cells before it, and those of `  since 02:13 `.
        for cells, shown in ((78, f"{text}  since"), (77, f"{text[:-2]}…  since")):
            await on.resize(cells, 24)
            assert shown in on.text


async def test_a_click_beside_the_findings_is_on_none() -> None:
    found = (finding_about(0), finding_about(1))
    async with on_screen(fleet(some_hosts(3), findings=found), "6") as on:
        for number in (0, 1):
            last = max(y for y, line in enumerate(on.lines) if "is odd" in line)
            # The line of sums, those between and below the findings, the last above the footer.
            for y in (1, last - 1, last + 4, 22):
                await on.pilot.click(offset=(3, y))
                assert (page_of(on), on.model.finding) == ("FindingsPage", number)
            await on.pilot.click(offset=(3, last))
            assert on.model.finding == 1


async def test_a_click_where_there_were_findings_is_on_none() -> None:
    async with on_screen(fleet(some_hosts(3), findings=(finding_about(0), finding_about(1)))) as on:
        await on.press("6")
        await on.give(fleet(some_hosts(3), seconds=10, findings=()))
        await on.pilot.click(offset=(3, 5))
        await on.give(fleet(some_hosts(3), seconds=20, findings=(finding_about(0),)))
        assert (page_of(on), on.model.finding) == ("FindingsPage", 0)


async def test_pause_before_the_first_snapshot_holds_nothing_up() -> None:
    page = MapPage(FleetModel(HandFleetFeed()))
    async with on_screen(None, "p", "left_square_bracket", page=page) as on:
        await on.give(fleet(some_hosts(2)))
        assert "gpu0001" in on.text
        assert "AGO" not in on.lines[0]


async def test_a_list_longer_than_the_window_shows_which_part_is_in_view() -> None:
    found = tuple(
        Finding(rule=f"r{n}", level="warn", sentence=SafeText("is wrong")) for n in range(1000)
    )
    async with on_screen(fleet(some_hosts(1000), findings=found)) as on:
        for key, count in (("2", "1,000"), ("3", "8,000"), ("6", "1,000")):
            await on.press(key)
            line = on.lines[1].rstrip()
            assert line.endswith(f" of {count}")
            assert line.split()[-3].startswith("1-")
            await on.press("end")
            assert on.lines[1].rstrip().endswith(f"-{count} of {count}")


async def test_every_count_above_a_list_has_its_word() -> None:
    words = ["lost", "hot", "busy", "held-idle", "in-use", "leased", "free", "unknown"]
    async with on_screen(fleet(tuple(host(n, *words) for n in range(40))), "2") as on:
        line = on.lines[1]
    counts = line[: line.index("1-")].replace(",", "").removeprefix(" Hosts ")
    assert re.fullmatch(r"( \d+ [a-zA-Z ]+?)+ … *", counts.rstrip() + " ")


async def test_letters_without_room_beside_the_title_are_explained_below_the_map() -> None:
    hosts = tuple(
        host(n, state=state)
        for n, state in enumerate(("down", "stale", "auth", "lost-contact", "host-key"))
    )
    async with on_screen(fleet((*hosts, host(5, *["held-idle"] * 8)))) as on:
        text = on.text
    for state in ("DOWN", "STALE", "held idle"):
        assert re.search(rf"\b[A-Zh] {state}\b", text)


async def test_lines_to_spare_show_more_findings() -> None:
    found = tuple(
        Finding(rule=f"r{n}", level="warn", sentence=SafeText(f"number {n} is wrong"))
        for n in range(60)
    )
    for count, sizes in ((40, SIZES[2:]), (1000, SIZES)):
        async with on_screen(fleet(some_hosts(count), findings=found)) as on:
            for size in sizes:
                await on.resize(*size)
                lines = [line.strip() for line in on.lines]
                seen = [line for line in lines if "is wrong" in line]
                assert len(seen) >= 3
                assert seen[-1].endswith(f"+{60 - len(seen)} more: w")
                assert lines[-2] == seen[-1]
                assert lines[2:].count("") <= 3


async def test_map_and_findings_say_whether_all_can_be_left_alone() -> None:
    wrong: dict[str, Any] = {"rule": "host-down", "level": "critical", "sentence": SafeText("x")}
    found = (
        Finding(**wrong, held_seconds=9 * 3600.0, newest_seconds=85 * 60.0),
        Finding(**wrong, held_seconds=60.0, acknowledged="known"),
        Finding(**{**wrong, "level": "info"}, held_seconds=60.0),
    )
    newest = (INSTANT - timedelta(minutes=85)).astimezone()
    words = f"1 critical, none new since {newest:%H:%M}"
    long = host(0, "hot", "slow", "held-idle", *["busy"] * 5, message="a long message of it")
    async with on_screen(fleet((long, *some_hosts(40)[1:]), findings=found)) as on:
        for cells in (140, 80):
            await on.resize(cells, 24)
            (line,) = (line for line in on.lines if line.startswith(" gpu0000  a long message"))
            assert line.endswith(f"  {words} ")
            assert ("old" in line) is (cells == 140)
        await on.resize(60, 24)
        assert "1 critical" in on.text
        assert "none new" not in on.text
        await on.resize(50, 24)
        assert "1 critical" not in on.text
        await on.resize(80, 24)
        await on.press("w")
        assert on.lines[2].rstrip() == f" {words}"
        await on.pilot.click(offset=(5, 7))
        assert on.model.finding == 1
    async with on_screen(fleet(some_hosts(40), findings=()), "w") as on:
        assert on.lines[2].rstrip() == " nothing critical on 39 of 40 hosts, no warning"


async def test_who_wastes_most_gpu_hours_comes_first() -> None:
    users = (
        FleetUser(name=SafeText("walter"), devices=8, held_idle=8, idle_gpu_hours=64.0),
        FleetUser(name=SafeText("alice"), devices=9, held_idle=9, idle_gpu_hours=16.0),
    )
    async with on_screen(fleet(some_hosts(40), users=users)) as on:
        line = next(line for line in on.lines if line.startswith(" held idle"))
        assert " ".join(line.split()[2:]) == "walter 8 (64.0 GPU-h) alice 9 (16.0 GPU-h)"
        await on.press("4")
        text = on.text
        assert text.index("walter") < text.index("alice")


async def test_the_users_of_a_filtered_cluster_are_those_of_the_gpus_that_are_left() -> None:
    hosts = (host(1, *["held-idle"] * 4), host(2, *["held-idle"] * 3), host(3))
    async with on_screen(fleet(hosts), "slash", *"host:gpu0001", "enter") as on:
        line = next(line for line in on.lines if line.startswith(" held idle"))
        assert line.split()[2:] == ["bob", "4", "(8.0", "GPU-h)"]
        await on.press("4")
        (row,) = [line for line in on.lines if line.startswith(" bob ")]
        assert re.findall(r"\d+", row)[:3] == ["4", "0", "4"]
        assert "alice" not in on.text
        await on.press("escape", "escape")
        assert " bob 36 " in on.text


async def test_gpus_held_idle_by_unknown_users_are_named_by_their_hosts() -> None:
    async with on_screen(fleet((host(1, *["held-idle"] * 8), host(2)), users=())) as on:
        line = next(line for line in on.lines if line.startswith(" held idle"))
    assert line.rstrip() == " held idle  by unknown users on: gpu0001 8"


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (80, "8 H100 on 2 hosts: gpu[0001,0003]   8 A100 on 1 host: gpu0002"),
        (70, "8 H100 on 2 hosts: gpu0001 +1   8 A100 on 1 host: gpu0002"),
        (50, "8 H100 on 2 hosts: gpu[0001,0003]   …"),
        (40, "8 H100 on 2 hosts   …"),
    ],
)
async def test_the_models_of_free_hosts_are_named_where_there_are_several(
    cells: int, text: str
) -> None:
    a100 = [device(n, "free", name="NVIDIA A100-SXM4-80GB") for n in range(8)]
    hosts = (host(1, *["free"] * 8), host(2, devices=tuple(a100)), host(3, *["free"] * 8))
    async with on_screen(fleet(hosts, users=()), size=(cells, 24)) as on:
        (line,) = [line for line in on.lines if line.startswith(" free ")]
        assert line.removeprefix(" free").strip() == text


async def test_a_small_screen_names_the_worst_and_counts_the_others() -> None:
    found = [
        Finding(rule="gpu-lost", level="critical", sentence=SafeText(f"GPU {n} fell off"), hosts=())
        for n in range(3)
    ]
    snapshot = fleet(some_hosts(60), findings=tuple(found))
    async with on_screen(snapshot, size=(40, 12)) as on:
        assert on.lines[-2].rstrip() == " !! GPU 0 fell off           +2 more: w"


@pytest.mark.parametrize(
    ("cells", "began"), [(20, ""), (44, "since {}"), (90, "since {}, newest 40 s ago")]
)
async def test_since_when_a_finding_is_leaves_its_sentence_half_of_the_line(
    cells: int, began: str
) -> None:
    known = {"rule": "gpu-lost", "level": "critical", "sentence": SafeText("GPU 0 is lost")}
    finding = Finding(**known, hosts=(), held_seconds=120.0, newest_seconds=40.0)  # type: ignore[arg-type]
    at = (INSTANT - timedelta(minutes=2)).astimezone()
    async with on_screen(fleet(some_hosts(60), findings=(finding,)), size=(cells, 12)) as on:
        (line,) = (line for line in on.lines if line.startswith(" !! GPU 0 is lo"))
    assert line.partition("  ")[2].strip() == began.format(f"{at:%H:%M}")


async def test_rows_of_mig_instances_are_not_counted_as_gpus_of_a_job() -> None:
    devices = [device(n, job=SafeText("4242")) for n in range(40)]
    mig = {"name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "parent_uuid": "GPU-0"}
    parts = [device(n, job=SafeText("4242"), **mig) for n in (41, 42)]
    hosts = (host(1, devices=(*devices, *parts)),)
    async with on_screen(Reducer().reduce(fleet(hosts)), "5", "enter", size=(80, 24)) as on:
        assert on.lines[1].rstrip().endswith("of 42 rows")
        assert "median of its GPUs: " in on.text


async def test_a_free_host_that_is_drained_is_named() -> None:
    hosts = (host(1, *["drained"] * 8, drain_reason="firmware"), host(2, *["busy"] * 7, "free"))
    async with on_screen(fleet(hosts, users=())) as on:
        line = next(line for line in on.lines if line.startswith(" free "))
    assert line.split(maxsplit=1)[1].rstrip() == (
        "no host with all its GPUs free but drained gpu0001; 1 free on others"
    )


async def test_why_hosts_are_drained_is_two_keys_away() -> None:
    hosts = (*some_hosts(60), host(99, *["drained"] * 8, drain_reason="bad fan (root)"))
    async with on_screen(Reducer().reduce(fleet(hosts)), "w", "end", size=(80, 24)) as on:
        assert "1 host is drained: gpu0099: bad fan (root)" in on.text


async def test_a_mig_instance_is_named_after_its_gpu() -> None:
    devices = (device(0), device(7, parent_uuid="GPU-0"), device(1))
    async with on_screen(fleet((host(1, devices=devices),)), "3") as on:
        rows = [line.split()[1] for line in on.lines if line.startswith(" gpu0001")]
    assert sorted(rows) == ["0", "0:7", "1"]


async def test_the_map_names_the_cluster_of_hosts_that_share_a_name() -> None:
    hosts = (host(1, cluster="east"), host(1, *["free"] * 8, cluster="west"), host(2))
    found = Finding(
        rule="held-idle",
        level="warn",
        sentence=SafeText("west is idle"),
        hosts=(SafeText("west/gpu0001"),),
    )
    async with on_screen(fleet(hosts, findings=(found,))) as on:
        text = on.text
        assert "all 8 on 1 host: west/gpu0001" in text
        assert " gpu0002 " in text
        await on.press("slash", *"cluster:east", "enter")
        assert "west is idle" not in on.text
        # Alone it has no need of its cluster, and the finding names it as it did.
        await on.press("escape")
        await on.give(fleet(hosts[1:], findings=(found,), seconds=10))
        assert "west is idle" in on.text
        await on.press("escape", "escape", "6", "enter")
        assert on.app.front.host == ("west", "gpu0001")


async def test_the_map_is_followed_by_the_past_of_all_gpus_where_there_is_room() -> None:
    async with on_screen(fleet(some_hosts(40)), size=(200, 60)) as on:
        (asked,) = on.feed.asked[-1].charts
        assert (asked.hosts, asked.by_device, asked.metric) == ((), False, METRICS[0])
        lines = (FleetLine(values=(10.0, None, 20.0)),)
        answer = answer_to(asked, 0, step_seconds=60.0, lines=lines)
        await give_chart(on, fleet(some_hosts(40), seconds=10.0, charts=(answer,)))
        text = on.text
        assert "mean of all GPUs" in text
        assert "now" in text
        await on.press("2")
        assert on.feed.asked[-1].charts == ()


async def test_the_mean_under_a_filter_is_that_of_the_gpus_that_pass_it() -> None:
    hosts = (
        host(1, "busy", "free", expected_devices=2),
        host(2, "busy", expected_devices=1),
        host(3, "free", expected_devices=1),
    )
    async with on_screen(fleet(hosts, users=()), size=(200, 60)) as on:
        await on.press("slash", *"user:alice")
        assert on.feed.asked[-1].charts[0].hosts == ()
        await on.press("enter")
        (asked,) = on.feed.asked[-1].charts
        assert (asked.hosts, asked.by_device) == (("gpu0001", "gpu0002"), True)
        lines = [
            FleetLine(host=name, index=index, uuid=SafeText(f"GPU-{index}"), values=(used, used))
            for name, index, used in ((hosts[0].name, 0, 40.0), (hosts[0].name, 1, 1.0))
        ]
        answer = answer_to(asked, 10, lines=(*lines, replace(lines[0], values=(60.0, 60.0))))
        await give_chart(on, fleet(hosts, users=(), seconds=10, charts=(answer,)))
        assert "mean of 2 GPUs" in on.text
        await on.press("at", *"-2h", "enter")
        await on.give(fleet(hosts, users=(), seconds=-7200))
        (asked,) = on.feed.asked[-1].charts
        assert asked.end is not None
        assert 7200 <= (INSTANT - asked.end).total_seconds() < 7200 + 3600 / 59


async def test_a_filter_that_leaves_more_than_a_question_can_name_leaves_the_mean_of_all() -> None:
    async with on_screen(fleet(some_hosts(130)), size=(200, 60)) as on:
        await on.press("slash", *"state:busy", "enter")
        (asked,) = on.feed.asked[-1].charts
        assert asked.hosts == ()
        answer = answer_to(asked, 10, lines=(FleetLine(values=(10.0, 20.0)),))
        await give_chart(on, fleet(some_hosts(130), seconds=10, charts=(answer,)))
        assert "mean of all GPUs, whatever the filter" in on.text


async def test_a_filter_of_gpus_does_not_make_a_host_free_as_a_whole() -> None:
    hosts = (host(1, "free", "busy"), host(2, *["free"] * 8))
    async with on_screen(fleet(hosts, users=())) as on:
        await on.press("slash", *"state:free", "enter")
        (line,) = [line for line in on.lines if line.startswith(" free ")]
        assert line.split(maxsplit=1)[1].strip() == "all 8 on 1 host: gpu0002"


async def test_the_mean_of_one_of_two_servers_is_not_charted_as_that_of_all() -> None:
    sources = tuple(FleetSource(kind="prometheus", name=SafeText(name)) for name in ("a", "b"))
    async with on_screen(fleet(some_hosts(40), sources=sources), size=(200, 60)) as on:
        assert not on.feed.asked or on.feed.asked[-1].charts == ()
        assert "mean of all GPUs" not in on.text


async def test_nothing_is_claimed_of_gpus_while_no_host_answers() -> None:
    async with on_screen(fleet((host(0, *["free"] * 8, state="down"),), users=())) as on:
        lines = [line.rstrip() for line in on.lines]
    assert " held idle  not known" in lines
    assert " free       not known" in lines


async def test_what_a_filter_leaves_is_not_said_of_all_hosts() -> None:
    hosts = (host(1, "busy", "free"), host(2, *["free"] * 8))
    async with on_screen(fleet(hosts, users=())) as on:
        await on.press("slash", *"host:gpu0001", "enter")
        assert "no host shown with all its GPUs free; 1 free on others" in on.text
        await on.press("slash", *["backspace"] * 12, *"host:none", "enter")
        lines = [line.rstrip() for line in on.lines]
        assert " held idle  no GPU passes the filter" in lines
        assert " free       no GPU passes the filter" in lines


async def test_the_page_of_a_host_lists_its_own_gpus_though_time_stands_still() -> None:
    hosts = tuple(
        host(n, devices=(device(0, users=(user,)),)) for n, user in ((1, "ann"), (2, "ben"))
    )
    async with on_screen(fleet(hosts, users=()), "p", "2", "home") as on:
        for keys, user in (((), "ann"), (("2", "down"), "ben"), (("2", "up"), "ann")):
            await on.press(*keys, "enter")
            text = on.text
            assert [name for name in ("ann", "ben") if name in text] == [user]


async def test_texts_name_the_keys_in_force() -> None:
    keys = {"fleet.metric": ("f7",), "fleet.back": ("f8",), "fleet.findings": ("f9",)}
    several = fleet(some_hosts(40)).findings * 40
    async with on_screen(fleet(some_hosts(40), findings=several), size=(140, 40), keys=keys) as on:
        assert "more: F9" in on.text
        await on.press("enter")
        assert "F7 metric  + - time" in on.text
        await on.press("slash", *"host:nowhere", "enter")
        assert "No GPU fits; F8 shows all" in on.text


async def test_a_gpu_is_acknowledged_by_a_key_and_taken_back() -> None:
    hosts = host(1, "lost", *["busy"] * 7), host(2)
    async with on_screen(Reducer().reduce(fleet(hosts)), "3", "a", size=(120, 30)) as on:
        await on.shows("Acknowledge gpu0001:0", "until taken back")
        await on.press(*"4h RMA", "enter")
        await on.shows("gpu0001:0: acknowledged: RMA, ")
        acknowledged = Acknowledged().now()
        assert [each.place for each in acknowledged.found.values()] == [
            Place("gpu0001", 0, "GPU-0")
        ]
        await on.press("a")
        await on.shows("take back")
        await on.press("enter")
        await on.shows("gpu0001:0: new again")
    assert not Acknowledged().now().found


async def test_a_known_finding_stands_last_with_its_reason_and_is_not_counted() -> None:
    hosts = host(1, "lost", *["busy"] * 7), host(2, state="down"), host(3, "lost")
    async with on_screen(Reducer().reduce(fleet(hosts)), "w", "a", size=(120, 30)) as on:
        await on.shows("Acknowledge gpu0001:0 and 1 more", "2 LOST")
        await on.press(*"4h RMA", "enter")
        await on.give(Reducer(acknowledged=Acknowledged().now).reduce(fleet(hosts, seconds=10)))
        await on.shows("acknowledged: RMA, ")
        assert [each.rule for each in on.model.findings] == [
            "gpus-missing",
            "host-down",
            "gpus-lost",
        ]
        assert "LOST" not in on.lines[1]
        assert "2 acknowledged" in on.lines[1]
        await on.resize(40, 24)
        assert "2 acknowledged" in on.lines[1]
        assert on.lines[1].rstrip().endswith("…")
        await on.resize(120, 30)
        new = host(1, "lost", "lost", *["busy"] * 6), *hosts[1:]
        await on.give(Reducer(acknowledged=Acknowledged().now).reduce(fleet(new, seconds=20)))
        assert "1 LOST" in on.lines[1]
        assert "2 acknowledged" in on.lines[1]


async def test_on_one_host_a_finding_is_acknowledged_on_its_gpus() -> None:
    devices = tuple(
        make_device(index=index, state="lost" if index == 2 else "ok") for index in (0, 2)
    )
    snapshot = make_snapshot(devices=devices, topology=None)
    async with on_screen(Diagnosis().examine(snapshot), "w", size=(100, 30)) as on:
        assert "1 critical" in on.text
        await on.press("a", *"RMA", "enter")
        await on.shows(":2: acknowledged: RMA, ")
        (entry,) = Acknowledged().now().found.values()
        assert (entry.gpu, entry.uuid) == (2, devices[1].uuid)
        await on.give(Diagnosis(Acknowledged().now).examine(snapshot))
        await on.shows("acknowledged: RMA, ", "Findings: 1 acknowledged")
        assert "2 GPUs: 1 acknowledged, 1 busy" in on.lines[0]


def event(seconds: float, kind: Any, **fields: Any) -> Event:
    return Event(at=INSTANT + timedelta(seconds=seconds), kind=kind, what=SafeText("x"), **fields)


async def test_the_page_of_events_asks_for_them_and_shows_the_newest_first() -> None:
    happened = (
        event(-60, "gpu-lost", host="gpu0001", gpu="5"),
        event(-5, "host-down", host="gpu0002"),
    )
    async with on_screen(fleet(some_hosts(3)), "e", size=(100, 20)) as on:
        assert "asking what happened" in on.text
        assert on.feed.asked[-1].events_since is not None
        await on.give(fleet(some_hosts(3), seconds=10, events=happened))
        rows = [line.split()[2:4] for line in on.lines[3:5]]
        assert rows == [["host-down", "gpu0002"], ["gpu-lost", "gpu0001"]]
        assert on.feed.asked[-1].events_known == mark_of(happened)
        await on.give(fleet(some_hosts(3), seconds=20))
        assert len(on.model.ranked_events().rows) == 2
        await on.press("1")
        assert on.feed.asked[-1].events_since is None


@pytest.mark.parametrize("has_past", [True, False])
async def test_enter_on_an_event_goes_to_its_time_where_the_source_has_that(has_past: bool) -> None:
    happened = tuple(event(-60, "gpu-lost", host="gpu0001", gpu=str(gpu)) for gpu in range(3))
    sources = fleet(()).sources if has_past else ()
    now = fleet(some_hosts(3), sources=sources, events=happened)
    async with on_screen(
        now, "e", "down", "enter", size=(100, 20), page=entering(HandFeed())
    ) as on:
        assert (page_of(on) == "HostGpusPage") is has_past
        if has_past:
            assert on.feed.asked[-1].at == happened[0].at
            await on.give(replace(now, taken_at=happened[0].at))
            assert "1m00s AGO" in on.lines[0]
            await on.press("escape")
            # That of several of an instant which was chosen is under the cursor still.
            assert on.model.ranked_events().cursor == 1


async def test_enter_on_an_event_goes_to_the_host_and_the_gpus_of_its_cluster() -> None:
    hosts = (
        host(1, "busy", cluster="east"),
        host(1, devices=(device(0, "free", job="4242"),), cluster="west"),
    )
    lost = event(-9, "gpu-lost", host="gpu0001", cluster="west", gpu="0")
    began = event(-5, "job-began", cluster="west", job="4242")
    async with on_screen(fleet(hosts, sources=(), events=(lost, began)), "e", "enter") as on:
        assert page_of(on) == "HostGpusPage"
        (gpu,) = (line for line in on.lines[2:] if line.split()[1:2] == ["0"])
        assert gpu.split()[:3] == ["west", "0", "free"]
        await on.press("escape", "x", "up", "enter")
        text = 'job="4242" cluster="west"'
        assert (page_of(on), on.model.filter.text, on.model.totals.gpus) == ("GpusPage", text, 1)


async def test_enter_on_an_event_between_two_samples_shows_the_first_that_has_it() -> None:
    hosts = some_hosts(3)
    async with on_screen(fleet(hosts), "e", size=(100, 20)) as on:
        broken = replace(hosts[1], state="down", message=None)
        happened = (event(7, "host-down", host="gpu0001"),)
        for seconds in (10, 20):
            now = fleet((hosts[0], broken, hosts[2]), seconds=seconds, events=happened)
            await on.give(now)
        await on.press("enter")
        assert "10s AGO" in on.lines[0]
        assert "gpu0001  cannot be reached" in on.text


async def test_above_events_stands_what_is_broken_has_begun_and_was_lost() -> None:
    happened = (
        *(event(-90 + n, "host-down", host=f"gpu000{n}") for n in (1, 2)),
        *(event(-60, "gpu-lost", host="gpu0003", gpu=f"{gpu}") for gpu in range(5)),
        event(-50, "host-up", host="gpu0001"),
        event(-50, "gpu-returned", host="gpu0003", gpu="0"),
        event(-40, "gpu-lost", host="gpu0003", gpu="0"),
        event(-40, "gpu-returned", host="gpu0003", gpu="4"),
        event(-30, "xid", host="gpu0003", gpu="4"),
    )
    gpus = tuple(device(n, "lost" if n < 4 else "busy") for n in range(8))
    hosts = (
        host(1),
        host(2, state="down"),
        host(3, devices=gpus),
        host(4, "slow", "held-idle", expected_devices=2, slow_seconds={"GPU-0": 60.0}),
        host(5, state="stale", age_seconds=600.0),
    )
    names = ["gpu0002", "gpu0005", *(f"gpu0003:{n}" for n in range(4))]
    async with on_screen(fleet(hosts), "e", size=(150, 20)) as on:
        await on.give(fleet(hosts, seconds=10))
        # What is so is known before what happened.
        assert "GPU-h" not in on.text
        since = on.feed.asked[-1].events_since
        await on.give(fleet(hosts, seconds=20, events=happened, events_since=since))
        for cells, shown in ((150, 6), (80, 6), (56, 4), (40, 2)):
            await on.resize(cells, 20)
            assert on.lines[1].startswith(" Events of 1 day, x adds jobs ")
            more = "  …" * (shown < len(names))
            assert on.lines[2].rstrip() == f" broken now  {'  '.join(names[:shown])}{more}"
        await on.resize(80, 20)
        assert on.lines[3].rstrip() == (" also began  1 STALE  1 slow  1 held idle  w shows which")
        # 8 GPUs for 40 and for 109 seconds; 20, 20, 3 of 80 and one of 10 and ten seconds.
        assert on.lines[4].rstrip() == (
            " in 1 day    0.4 GPU-h down or lost: 2 hosts 0.3, 5 GPUs 0.1  1 XID"
        )
        await on.pilot.click(offset=(3, 7))
        assert on.model.ranked_events().cursor == 1
        await on.resize(80, 8)
        assert "broken" not in on.text
        filter_by(on.model, "host:gpu0002")
        await on.resize(80, 20)
        assert [line.split()[:2] for line in on.lines[3:5]] == [["broken", "now"], ["in", "1"]]
        assert "0.2 GPU-h down or lost: 1 host" in on.lines[4]


@pytest.mark.parametrize(("processes", "is_said"), [(None, True), ((), False)])
async def test_a_job_without_known_processes_on_its_hosts_does_not_look_alone(
    processes: tuple[()] | None, is_said: bool
) -> None:
    known = host(1, devices=tuple(device(n) for n in range(2)), processes=processes)
    snapshot = Reducer().reduce(fleet((known,), users=(), findings=()))
    async with on_screen(snapshot, "5", "enter", size=(100, 20)) as on:
        assert page_of(on) == "JobPage"
        assert ("not its own: not known" in on.text) is is_said


async def test_what_was_lost_by_an_instant_in_the_past_has_nothing_of_after_it() -> None:
    happened = (
        event(-4 * 3600, "gpu-lost", host="gpu0001", gpu="0"),
        event(-3600, "gpu-lost", host="gpu0001", gpu="1"),
        event(-1800, "xid", host="gpu0001", gpu="2"),
    )
    lost = replace(device(0, "lost"), age_seconds=3600.0)
    now, then = fleet(some_hosts(3)), fleet((host(1, devices=(lost, device(1, "busy"))),))
    async with on_screen(now, "e", size=(120, 20)) as on:
        since = on.feed.asked[-1].events_since
        await on.give(fleet(some_hosts(3), seconds=1, events=happened, events_since=since))
        assert "2 GPUs  1 XID  GPU-h leave out drained, stale and after an XID" in on.text
        await on.resize(80, 20)
        assert on.lines[2].rstrip().endswith("2 GPUs  1 XID")
        await on.press("at", *"-3h", "enter")
        moment = on.feed.asked[-1].at
        assert moment is not None
        await on.give(replace(then, taken_at=moment, events=happened, events_since=since))
        assert on.lines[1].startswith(" Events of 1 day up to now ")
        (line,) = [line for line in on.lines if line.startswith(" until then ")]
        assert " ".join(line.split()[2:]) == "1.0 GPU-h down or lost: 1 GPU"
        # What came after it stands above the rule.
        assert [each.kind for each in on.model.ranked_events().rows] == [
            "xid",
            "gpu-lost",
            "gpu-lost",
        ]


async def test_what_is_broken_at_an_instant_in_the_past_is_that_of_then() -> None:
    now, then = fleet((host(1, "unusable"),)), fleet((host(1, "lost", "lost"),))
    then = replace(then, taken_at=INSTANT - timedelta(hours=3))
    async with on_screen(now, "e", size=(120, 20)) as on:
        assert " broken now  gpu0001:0 " in on.text
        await on.press("at", *"-3h", "enter")
        await on.give(then)
        assert " broken then gpu0001:0  gpu0001:1 " in on.text


async def test_a_rule_stands_where_the_instant_that_is_shown_lies_among_the_events() -> None:
    happened = tuple(event(-60 * n, "gpu-lost", host=f"gpu000{n}", gpu="0") for n in (4, 3, 1))
    now = fleet(some_hosts(5), events=happened)
    async with on_screen(now, "e", size=(100, 20)) as on:

        def rows() -> list[str]:
            found = (re.search(r"gpu000\d|─{9}", line) for line in on.lines[2:-2])
            return [each[0] for each in found if each is not None]

        assert rows() == ["gpu0001", "gpu0003", "gpu0004"]
        then = INSTANT - timedelta(seconds=120)
        await on.press("at", *f"{then.astimezone():%H:%M:%S}", "enter")
        await on.give(replace(now, taken_at=then))
        rule = "─" * 9
        assert rows() == ["gpu0001", rule, "gpu0003", "gpu0004"]
        (y,) = (y for y, line in enumerate(on.lines) if rule in line)
        assert f"{then.astimezone():%m-%d %H:%M:%S} ─" in on.lines[y]
        for offset, host in ((2, "gpu0004"), (0, "gpu0004"), (-1, "gpu0001"), (1, "gpu0003")):
            await on.pilot.click(offset=(3, y + offset))
            assert on.model.events.selected.host == host
        await on.press("r")
        assert rows() == ["gpu0004", "gpu0003", rule, "gpu0001"]
        await on.press("p")
        assert rule not in rows()


async def test_jobs_are_added_around_the_instant_that_is_shown_or_what_was_chosen() -> None:
    times = (-240, -120, -60)
    jobs = tuple(event(n, "job-began", host="gpu0001", job=f"{-n}") for n in times)
    lost = event(-5, "gpu-lost", host="gpu0002", gpu="0"), event(-1, "host-down", host="gpu0002")
    now = fleet(some_hosts(5), events=(*jobs, *lost))
    async with on_screen(now, "e", size=(100, 20)) as on:
        then = INSTANT - timedelta(seconds=100)
        await on.press("at", *f"{then.astimezone():%H:%M:%S}", "enter")
        await on.give(replace(now, taken_at=then))
        assert on.model.ranked_events().selected == jobs[1]
        await on.press("x")
        assert on.model.ranked_events().selected == lost[0]
        await on.press("x")
        assert on.model.ranked_events().selected == jobs[1]
        await on.press("p")
        assert on.model.ranked_events().is_at_home
        await on.press("at", *f"{then.astimezone():%H:%M:%S}", "enter")
        await on.give(replace(now, taken_at=then))
        assert on.model.ranked_events().selected == jobs[1]
        await on.press("home", "x", "x")
        assert on.model.ranked_events().selected == lost[1]


async def test_a_key_lists_the_events_of_a_week() -> None:
    happened = (event(-60, "gpu-lost", host="gpu0001", gpu="5"),)
    async with on_screen(fleet(some_hosts(3), events=happened), "e", size=(100, 20)) as on:
        day = on.feed.asked[-1].events_since
        assert "Events of 1 day" in on.text
        await on.press("minus", "minus")
        week = on.feed.asked[-1].events_since
        assert day is not None
        assert week is not None
        assert timedelta(days=5.9) < day - week < timedelta(days=6.1)
        assert "Events of 7 days" in on.text
        assert "asking what happened" in on.text
        # Of all of that is nothing said where there are data of a part.
        begins = INSTANT - timedelta(days=1)
        some = fleet(some_hosts(3), seconds=10, events=happened, events_since=week)
        sources = tuple(replace(each, data_since=begins) for each in some.sources)
        await on.give(replace(some, sources=sources))
        text = f"no data before {begins.astimezone():%Y-%m-%d %H:%M}"
        assert text in on.text
        await on.press("plus")
        assert "Events of 1 day" in on.text
        assert text not in on.text


async def test_each_job_has_sums_of_its_own_and_is_opened_at_its_slowest_gpu() -> None:
    hosts = (host(1), host(2, devices=tuple(device(n, job="777") for n in range(2))))
    reduced = Reducer().reduce(fleet(hosts, jobs=(), users=(), findings=()))
    async with on_screen(reduced, "5", "enter", size=(100, 20)) as on:
        assert "Job 4242  8 busy" in on.text
        await on.press("end", "escape", "down", "enter")
        assert "Job 777  2 busy" in on.text
        await on.press("escape", "slash", *"777", "enter")
        assert "Job 777  2 busy" in on.text
        await on.press("escape")
        assert len(on.model.jobs.rows) == 2
        await on.press("enter")
        assert [row.gpu.label for row in on.model.job_gpus.rows] == ["0", "1"]
        await on.press("escape", "up", "enter")
        assert "Job 4242  8 busy" in on.text
        assert on.model.job_gpus.cursor == 0


async def test_what_is_of_all_hosts_together_is_not_found_among_some() -> None:
    spread = Finding(
        rule="fragmented",
        level="info",
        sentence=SafeText("558 GPUs are free"),
        hosts=(SafeText("gpu0001"),),
    )
    torn = Finding(rule="acknowledgements", level="warn", sentence=SafeText("line 2 is torn"))
    found = (torn, spread)
    async with on_screen(fleet(some_hosts(3), findings=found), size=(100, 20)) as on:
        assert "558 GPUs are free" in on.text
        filter_by(on.model, "host:gpu0001")
        await on.give(fleet(some_hosts(3), seconds=10, findings=found))
        assert "558 GPUs are free" not in on.text
        assert "line 2 is torn" in on.text


async def test_jobs_hide_no_event_that_is_not_of_one() -> None:
    happened = (
        event(-60, "gpu-lost", host="gpu0001", gpu="5"),
        event(-5, "job-began", host="gpu0002", job="777"),
    )
    async with on_screen(fleet(some_hosts(3), events=happened), "e", size=(100, 20)) as on:

        def kinds() -> list[str]:
            return [each.kind for each in on.model.ranked_events().rows]

        assert kinds() == ["gpu-lost"]
        assert "Events of 1 day, x adds jobs" in on.text
        await on.press("x")
        assert kinds() == ["job-began", "gpu-lost"]
        assert "adds" not in on.text
        await on.press("x", "slash", *"job:777", "enter")
        assert kinds() == ["job-began"]


async def test_since_when_jobs_are_known_is_said_where_older_ones_were_too_many() -> None:
    lost = event(-9e5, "gpu-lost", host="gpu0001", gpu="5")
    jobs = [event(n - 9e4, "job-began", job="777") for n in range(MAX_KEPT - 1)]
    now = fleet(some_hosts(3), events=(lost, *jobs))
    async with on_screen(now, "e", size=(100, 12)) as on:
        assert "left out" not in on.text
        await on.press("x")
        since = f"{jobs[0].at.astimezone():%m-%d %H:%M}"
        for key in ("home", "end"):
            await on.press(key)
            assert f"jobs before {since} left out: more than {MAX_KEPT:,} events" in on.text
        await on.press("slash", *"job:99", "enter")
        assert "nothing passes the filter" in on.text
        assert f"jobs before {since} left out" in on.text


async def test_events_are_filtered_by_host_and_by_their_words() -> None:
    happened = event(-60, "gpu-lost", host="gpu0001", gpu="5"), event(-5, "xid", host="gpu0002")
    async with on_screen(fleet(some_hosts(3), events=happened), "e", size=(100, 20)) as on:
        for words, kinds in (
            ("host:gpu0001", ["gpu-lost"]),
            ("xid", ["xid"]),
            ("", ["xid", "gpu-lost"]),
        ):
            filter_by(on.model, words)
            assert [each.kind for each in on.model.ranked_events().rows] == kinds
        await on.press("slash", *"kind:lost", "enter")
        assert "kind:lost   1 of 2 events" in on.text
        assert on.lines[4].split()[2:4] == ["gpu-lost", "gpu0001"]
        await on.press("1")
        assert len(on.model.rows) == 3


async def test_a_recording_that_is_played_backwards_is_no_news() -> None:
    hosts = some_hosts(3)
    broken = replace(hosts[1], state="down", message=None)
    page = MapPage(FleetModel(PlayedFeed()))
    async with on_screen(fleet(hosts), size=(100, 20), page=page) as on:
        await on.give(fleet((hosts[0], broken, hosts[2]), seconds=10))
        for key, kinds in (
            ("e", ["host-down"]),
            ("left_square_bracket", []),
            ("right_square_bracket", ["host-down"]),
        ):
            await on.press(key)
            assert [each.kind for each in on.model.ranked_events().rows] == kinds


async def test_the_past_shows_what_differs_now() -> None:
    hosts = some_hosts(3)
    async with on_screen(fleet(hosts), size=(100, 24)) as on:
        broken = replace(hosts[1], state="down", message=None)
        await on.give(fleet((hosts[0], broken, hosts[2]), seconds=10))
        assert "differs now" not in on.text
        await on.press("left_square_bracket")
        assert "differs now gpu0001 down" in on.text
        await on.press("p")
        assert "differs now" not in on.text


async def test_what_enter_on_a_finding_filters_by_is_gone_on_the_way_back() -> None:
    names = tuple(SafeText(f"gpu{n:04}") for n in (1, 2))
    found = Finding(rule="xid-critical", level="critical", sentence=SafeText("x"), hosts=names)
    async with on_screen(fleet(some_hosts(40), findings=(found,))) as on:
        for before in ("", "util>1"):
            filter_by(on.model, before)
            await on.press("w", "enter")
            assert len(on.model.rows) == 2
            await on.press("escape")
            assert on.model.filter.text == before


async def test_what_differs_from_the_past_and_has_no_room_is_among_the_events() -> None:
    hosts = some_hosts(12)
    then = event(-60, "xid", host="gpu0001")
    later = tuple(event(10, "host-down", host=each.name) for each in hosts)
    async with on_screen(fleet(hosts, events=(then,)), "e", size=(60, 30)) as on:
        broken = tuple(replace(each, state="down", message=None) for each in hosts[1:])
        broken = (host(0, "lost"), *broken)
        await on.give(fleet(broken, seconds=10, events=(then, *later)))
        await on.press("1", "left_square_bracket")
        assert "… e lists all" in on.text
        await on.press("e")
        events = on.model.ranked_events()
        assert len(events.rows) == 13
        assert events.selected == then


async def test_samples_taken_while_hosts_are_asked_are_no_past() -> None:
    hosts = some_hosts(3)
    asking = replace(hosts[2], state="connecting", devices=())
    async with on_screen(fleet((*hosts[:2], asking)), size=(100, 24)) as on:
        await on.give(fleet(hosts, seconds=10))
        await on.give(fleet(hosts, seconds=20))
        assert len(on.model.history.moments) == 2


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (80, "all 8 on 10 hosts: gpu[0001-0010]   all 4 on 1 host: gpu0011"),
        (50, "all 8 on 10 hosts: gpu[0001-0010]   …"),
        (42, "all 8 on 10 hosts: gpu0001 +9"),
        (40, "all 8 on 10 hosts   …"),
    ],
)
async def test_free_hosts_are_folded_the_largest_first(cells: int, text: str) -> None:
    hosts = (
        *(host(n, *["free"] * 8) for n in range(1, 11)),
        host(11, *["free"] * 4, expected_devices=4),
    )
    async with on_screen(fleet(hosts, users=()), size=(cells, 24)) as on:
        (line,) = [line for line in on.lines if line.startswith(" free ")]
        assert line.split(maxsplit=1)[1].strip() == text
