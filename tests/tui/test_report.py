import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from gpudash.config.settings import FleetSettings
from gpudash.model.report import Report, ReportHost, ReportRow
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.overview import Overview
from tests.factories import make_device, make_host, make_process, make_snapshot
from tests.feed.hand import HandFeed, HandFleetFeed
from tests.fleet.many import fleet, some_hosts
from tests.tui.stage import on_screen

START = datetime(2026, 11, 2, 9, 0, tzinfo=timezone.utc)


def sample(second: int) -> Snapshot:
    """A host whose one GPU Ann holds."""
    return make_snapshot(
        devices=(make_device(status="busy"),),
        processes=(make_process(username=SafeText("ann")),),
        taken_at=START + timedelta(seconds=second),
        host=make_host(uptime_seconds=1000.0 + second),
        findings=(),
    )


def printing(*users: str) -> Sequence[str]:
    """A command that prints the report of two days that is asked for, by its own words."""
    rows = tuple(ReportRow(user=SafeText(user), held_seconds=7200.0) for user in users)
    note = SafeText("some is damaged")
    hosts = (ReportHost(name=SafeText("node1"), seen_seconds=86400.0, note=note),)
    until = START + timedelta(days=2)
    made = Report(taken_at=until, by="user", since=START, until=until, hosts=hosts, rows=rows)
    code = "import sys; print(sys.argv[1].replace('ann', '-'.join(sys.argv[2:])))"
    return [sys.executable, "-c", code, msgspec.json.encode(made).decode()]


async def test_without_a_history_it_is_of_what_was_watched() -> None:
    prices = FleetSettings(prices={"": 3600.0})
    async with on_screen(sample(0), fleet=prices, size=(120, 24)) as on:
        for second in range(1, 8):
            await on.give(sample(second))
        await on.press("U")
        shown = await on.shows("seen 7s of 7s")
        assert "as watched here" in shown
        (row,) = [line.split() for line in on.lines if " ann " in line]
        assert row[:2] == ["ann", "7s"]
        assert "7.00" in row
        await on.press("b")
        await on.shows("Report by gpu, today", "SEEN")


async def test_a_history_is_asked_for_the_time_that_is_shown() -> None:
    page = Overview(HandFeed())
    page.model.report_command = printing("ann"), {}
    async with on_screen(sample(0), "U", page=page, size=(120, 24)) as on:
        await on.shows("today  seen 1d00h of 2d00h, until 11-04", "--since-00:00---by-user", "2.0h")
        await on.press("minus")
        await on.shows("Report by user, 7 days", "--since-7d---by-user", "some is damaged")


async def test_one_of_the_past_ends_when_what_is_shown_was_taken() -> None:
    page = Overview(HandFeed())
    page.model.report_command = ("sh", "-c", 'echo "$@" >&2; exit 1', "sh"), {}
    async with on_screen(sample(0), page=page, size=(200, 24)) as on:
        for second in (7, 14):
            await on.give(sample(second))
        await on.press("left_square_bracket", "U")
        at = "--by user --at 2026-11-02T09:00:07+00:00"
        day = f"{sample(7).taken_at.astimezone():%F}"
        await on.shows("Report by user, that day", f"--since {day}T00:00 {at}")
        await on.press("minus")
        await on.shows("7 days", f"--since 7d {at}")


@pytest.mark.parametrize("of_host", [True, False])
async def test_an_open_report_goes_to_the_instant_that_is_shown(of_host: bool) -> None:
    page: Any = Overview(HandFeed()) if of_host else MapPage(FleetModel(HandFleetFeed()))
    page.model.report_command = ("sh", "-c", 'echo "$@" >&2; exit 1', "sh"), {}
    samples = [sample(n) if of_host else fleet(some_hosts(2), seconds=n) for n in (0, 7, 14)]
    async with on_screen(samples[0], page=page, size=(200, 24)) as on:
        for each in samples[1:]:
            await on.give(each)
        await on.press("U")
        await on.shows("Report by user, today", "--since 00:00 --by user")
        for key, shown in (("left_square_bracket", samples[1]), ("right_square_bracket", None)):
            await on.press(key)
            if shown is None:
                await on.shows("Report by user, today", "--since 00:00 --by user ")
                assert "--at" not in on.text
            else:
                at = shown.taken_at.isoformat()
                await on.shows("Report by user, that day", f"--by user --at {at}")


async def test_the_footer_has_the_key_that_reports_a_longer_time() -> None:
    model = FleetModel(HandFleetFeed())
    async with on_screen(fleet(some_hosts(2)), "9", page=MapPage(model), size=(80, 24)) as on:
        assert " - longer " in on.lines[-1]


async def test_what_was_watched_after_the_past_that_is_shown_is_left_out() -> None:
    async with on_screen(sample(0)) as on:
        for second in range(1, 8):
            await on.give(sample(second))
        await on.press("left_square_bracket", "left_square_bracket", "U")
        await on.shows("that day  seen 5s of 5s")


async def test_why_a_history_is_not_reported_is_shown() -> None:
    page = Overview(HandFeed())
    problem = "a power cut, which was long enough"
    page.model.report_command = ("sh", "-c", f"echo gpudash: {problem} >&2; exit 1"), {}
    async with on_screen(sample(0), "U", page=page, size=(80, 24)) as on:
        await on.shows(f"as watched here: {problem}")


async def test_many_hosts_are_reported_by_what_knows_their_past() -> None:
    model = FleetModel(HandFleetFeed())
    model.report_command = printing("ann", "bob"), {}
    async with on_screen(fleet(some_hosts(2)), "9", page=MapPage(model), size=(120, 24)) as on:
        await on.shows("Report by user, today", "bob", "2.0h")
        await on.press("b", "b", "b")
        await on.shows("Report by host")


async def test_what_does_not_fit_behind_the_title_stands_below_it() -> None:
    page = Overview(HandFeed())
    page.model.report_command = printing("ann"), {}
    async with on_screen(sample(0), "U", page=page, size=(60, 24)) as on:
        await on.shows("seen 1d00h of 2d00h, until")
        title = next(n for n, line in enumerate(on.lines) if "Report by user" in line)
        assert on.lines[title].split() == ["Report", "by", "user,", "today"]
        assert on.lines[title + 1].startswith(" seen 1d00h of 2d00h, until 11-04")


async def test_without_any_it_is_said_who_knows_it() -> None:
    async with on_screen(fleet(some_hosts(2)), "U") as on:
        await on.shows("Report by user, today", "only with --prometheus, --host or --demo")
