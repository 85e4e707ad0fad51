"""What is shown of what happened around an instant in the past, and of which time it is asked."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from gpudash.model.fleet import Event, FleetSnapshot, mark_of
from gpudash.model.text import SafeText
from gpudash.tui.fleet.filtering import apply as filter_by
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from tests.feed.hand import PlayedFeed
from tests.fleet.many import INSTANT, fleet, some_hosts
from tests.tui.stage import OnScreen, on_screen

NOW = fleet(some_hosts(3))
THEN = INSTANT - timedelta(hours=3)


def event(seconds: float, kind: Any, then: datetime = THEN, **fields: Any) -> Event:
    return Event(at=then + timedelta(seconds=seconds), kind=kind, what=SafeText("x"), **fields)


HAPPENED = (
    event(-1700, "host-down", host="gpu0002"),
    event(-200, "job-began", host="gpu0001", job="7"),
    *(event(n, "xid", host="gpu0001", gpu=f"{n}", xid=74) for n in range(3)),
    event(100, "job-ended", host="gpu0001", job="8"),
    event(200, "job-ended", host="gpu0001", job="9"),
    event(301, "gpu-lost", host="gpu0000", gpu="5"),
    event(340, "gpu-lost", host="gpu0001", gpu="5", within_seconds=120.0),
    event(370, "gpu-lost", host="gpu0001", gpu="6", within_seconds=120.0),
)
_FIVE = timedelta(minutes=5)
SPAN = " to ".join(f"{each.astimezone():%H:%M}" for each in (THEN - _FIVE, THEN + _FIVE))


def answer(on: OnScreen, events: tuple[Event, ...] | None, then: datetime = THEN) -> FleetSnapshot:
    """A snapshot of an instant with these events, as the screen has asked for them."""
    since = None if events is None else on.feed.asked[-1].events_since
    return replace(NOW, taken_at=then, events=events, events_since=since)


def around(on: OnScreen) -> str:
    """The line on what happened around the instant that is shown, empty for none."""
    return next((line.strip() for line in on.lines if re.match(r" \d\d:\d\d to ", line)), "")


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_an_instant_in_the_past_comes_with_what_happened_around_it(
    size: tuple[int, int],
) -> None:
    async with on_screen(NOW, size=size) as on:
        assert around(on) == ""
        await on.press("at", *"-3h", "enter")
        asked = on.feed.asked[-1]
        half = timedelta(minutes=30)
        assert asked.at == THEN
        assert (asked.events_since, asked.events_until) == (THEN - half, THEN + half)
        # While it is not known nothing stands there, and nothing waits for it.
        await on.give(answer(on, None))
        assert "3h00m AGO" in on.lines[0]
        assert around(on) == ""
        await on.give(answer(on, HAPPENED))
        words = "gpu0001:5 lost  gpu0001:0, gpu0001:1 +1 XID 74  2 jobs ended  1 job began"
        if size[0] == 80:
            words = words.replace("2 jobs ended  1 job began", "… e lists all")
        assert around(on) == f"{SPAN}  {words}"
        assert on.feed.asked[-1].events_known == mark_of(HAPPENED)
        await on.press("2")
        assert around(on) == f"{SPAN}  {words}"
        filter_by(on.model, "host:gpu0002")
        await on.give(answer(on, None))
        assert around(on) == f"{SPAN}  no event is known"
        await on.press("escape", "p")
        assert on.feed.asked[-1].events_since is None
        assert around(on) == ""


async def test_no_event_of_another_instant_is_shown_around_one() -> None:
    async with on_screen(NOW) as on:
        await on.press("at", *"-3h", "enter")
        await on.give(answer(on, HAPPENED))
        near, far = THEN - timedelta(minutes=20), THEN - timedelta(hours=20)
        late = answer(on, HAPPENED, far)
        # What is near is known already.
        await on.press("at", *"-3h20m", "enter")
        assert on.feed.asked[-1].events_since == THEN - timedelta(minutes=30)
        await on.give(answer(on, None, near))
        assert around(on).endswith("  no event is known")
        await on.press("at", *"-23h", "enter")
        assert on.feed.asked[-1].events_since == far - timedelta(minutes=30)
        # Those that were asked for before come with the first sample.
        await on.give(late)
        assert around(on) == ""
        await on.give(answer(on, (event(-60, "host-down", far, host="gpu0000"),), far))
        assert around(on).endswith("  gpu0000 down")
        await on.press("at", *"-3h", "enter")
        await on.give(answer(on, None))
        assert around(on) == ""


async def test_a_sample_that_is_kept_has_what_arrives_with_others() -> None:
    async with on_screen(NOW) as on:
        for seconds in (10, 20):
            await on.give(fleet(some_hosts(3), seconds=seconds))
        await on.press("left_square_bracket")
        found = event(5, "gpu-lost", INSTANT, host="gpu0001", gpu="1")
        await on.give(answer(on, (found,), INSTANT + timedelta(seconds=30)))
        assert "20s AGO" in on.lines[0]
        assert around(on).endswith(f"{INSTANT.astimezone():%H:%M}  gpu0001:1 lost")


async def test_events_of_the_past_are_those_around_it_with_jobs() -> None:
    async with on_screen(NOW, size=(100, 20)) as on:
        await on.press("at", *"-3h", "enter")
        jobs = [event(-n, "job-ended", host="gpu0001", job=f"{n}") for n in range(1000, 300, -20)]
        await on.give(answer(on, (*jobs, *HAPPENED[1:])))
        await on.press("e")
        assert on.lines[1].startswith(" Events of 1 hour around then  ")
        rows = on.lines[3:-2]
        rule = next(n for n, line in enumerate(rows) if "────" in line)
        # As much before it is in view as after it.
        assert [rows[rule + n].split()[2:5] for n in (-1, 1)] == [
            ["xid", "gpu0001", "1"],
            ["xid", "gpu0001", "0"],
        ]
        assert 4 < rule < len(rows) - 4
        await on.press("x")
        assert "job-" not in on.text
        assert on.lines[1].startswith(" Events of 1 hour around then, x adds jobs ")
        await on.press("minus")
        day = timedelta(days=1)
        assert on.feed.asked[-1].events_since == THEN - day / 2
        assert on.feed.asked[-1].events_until == THEN + day / 2
        assert "asking what happened" in on.text
        await on.give(answer(on, HAPPENED))
        assert on.lines[1].startswith(" Events of 1 day around then, ")
        await on.press("p")
        assert on.feed.asked[-1].events_since == INSTANT - day
        assert on.feed.asked[-1].events_until is None


async def test_events_that_a_page_has_are_not_asked_for_again_around_an_instant() -> None:
    async with on_screen(NOW, "e") as on:
        await on.give(answer(on, HAPPENED, INSTANT))
        await on.press("1", "at", *"-3h", "enter")
        assert on.feed.asked[-1].events_since == INSTANT - timedelta(days=1)
        assert on.feed.asked[-1].events_known == mark_of(HAPPENED)
        await on.give(answer(on, None))
        assert "gpu0001:5 lost" in around(on)


async def test_what_happened_right_after_an_instant_is_not_said_twice() -> None:
    hosts = some_hosts(3)
    broken = [replace(host, state="down") for host in hosts]
    async with on_screen(fleet((hosts[0], *broken[1:])), size=(100, 24)) as on:
        await on.press("at", *"-3h", "enter")
        before = fleet(hosts)
        was = (event(-60, "host-down", host="gpu0001"), event(-30, "host-up", host="gpu0001"))
        found = (*was, event(90, "host-down", host="gpu0002"))
        await on.give(replace(answer(on, found), hosts=before.hosts))
        assert "gpu0001, gpu0002 down  gpu0001 up" in around(on)
        assert [line.split() for line in on.lines if line.startswith(" differs now")] == [
            ["differs", "now", "gpu0001", "down"]
        ]


async def test_a_day_is_the_last_one_also_on_a_screen_that_is_left_open() -> None:
    old, new = (event(-n * 3600, "gpu-lost", INSTANT, host="gpu0001", gpu=f"{n}") for n in (20, 2))
    async with on_screen(NOW, "e") as on:
        await on.give(answer(on, (old, new), INSTANT))
        assert [each.gpu for each in on.model.ranked_events().rows] == ["2", "20"]
        asked = on.feed.asked[-1]
        await on.give(answer(on, (old, new), INSTANT + timedelta(hours=5)))
        await on.press("down")
        assert [each.gpu for each in on.model.ranked_events().rows] == ["2"]
        assert "in 1 day      2 GPUs" not in on.text
        # What is known is not asked for again.
        assert on.feed.asked[-1].events_since == asked.events_since


async def test_what_was_played_of_a_recording_stays_known_at_another_instant() -> None:
    hosts = some_hosts(3)
    broken = replace(hosts[1], state="down", message=None)
    page = MapPage(FleetModel(PlayedFeed()))
    async with on_screen(fleet(hosts), size=(100, 20), page=page) as on:
        for hours in (1, 2, 30):
            await on.give(fleet((hosts[0], broken, hosts[2]), seconds=hours * 3600))
        await on.press("e", *["left_square_bracket"] * 2)
        assert [each.kind for each in on.model.ranked_events().rows] == ["host-down"]
        assert around(on) == ""
