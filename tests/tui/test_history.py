"""A screen whose collector is a service that remembers."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpudash.feed.instants import Span
from gpudash.feed.timeline import Timeline
from gpudash.feed.visits import Visits
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from tests.factories import make_device, make_host, make_snapshot
from tests.feed.hand import HandFeed
from tests.feed.test_history import START, Host
from tests.feed.test_past import Served, host, path, remembered, served  # noqa: F401
from tests.tui.stage import OnScreen, on_screen


class ServedFeed(HandFeed):
    """A feed whose samples are those of a service."""

    def timeline(self, kept: Any, show: Callable[[Any], object]) -> Timeline[Any]:
        return Visits(self, kept, show, lambda each: each, self._changed)

    def _changed(self) -> None:
        self._on_change()


def live(host: Host, user: str | None = "root") -> Snapshot:  # noqa: F811
    """A sample of now, a minute after the last one of the history."""
    taken_at = host.wall + timedelta(minutes=1)
    return make_snapshot(1, taken_at=taken_at, collected_by=user and clean(user))


async def longest_chart(on: OnScreen) -> None:
    await on.press(*["minus"] * 12)


@pytest.mark.usefixtures("served")
async def test_charts_of_hours_are_drawn_from_it(host: Host) -> None:  # noqa: F811
    async with on_screen(live(host), "d", feed=ServedFeed(), size=(100, 40)) as on:
        await longest_chart(on)
        for title in ("last 1d", "last 6h", "last 60m"):
            assert f"{title} by the minute" in on.text
            await on.until(lambda: "mean" in on.text and "loading:" not in on.text)
            await on.press("plus")
        await on.press("at", *"-2h", "enter")
        await on.until(lambda: "AGO" in on.text and "ASKING" not in on.text)
        await on.until(lambda: "mean" in on.text)
        await on.press("escape", "escape")


async def test_without_one_that_is_said_and_charts_are_of_minutes(
    host: Host,  # noqa: F811
    path: Path,  # noqa: F811
) -> None:
    async with on_screen(live(host), "d", feed=ServedFeed(), size=(100, 40)) as on:
        await longest_chart(on)
        await on.until(lambda: "no gpudash serve" in on.footer)
        assert "loading:" not in on.text
    async with on_screen(live(host, None), "d", feed=ServedFeed(), size=(100, 40)) as on:
        await longest_chart(on)
        assert "last 30m" in on.text


def second(first: Snapshot, seconds: float = 1) -> Snapshot:
    """The host a second after a sample of it, or several."""
    up = replace(first.host, uptime_seconds=(first.host.uptime_seconds or 0) + seconds)
    return replace(first, host=up, taken_at=first.taken_at + timedelta(seconds=seconds))


@pytest.mark.usefixtures("served")
async def test_a_screen_opens_with_the_half_hour_before_it(host: Host) -> None:  # noqa: F811
    first, read = live(host), list[object]()
    async with on_screen(first, feed=ServedFeed(), size=(140, 40)) as on:
        assert "last 1s of" in on.text
        await on.give(second(first))
        on.dashboard.time.read_past(lambda _: 1, read.append)
        await on.until(lambda: read)
        await on.press("p")
        await on.give(second(first, 2))
        assert "last 1s of" in on.text
        await on.press("p")
        await on.give(second(first, 3))
        assert "last 15m" in on.text
        await on.press("d")
        assert "last 5m" in on.text
        await on.press("r")
        await on.shows("last 30m")


@pytest.mark.usefixtures("served")
async def test_events_of_before_are_read_from_it(host: Host) -> None:  # noqa: F811
    same = make_host(hostname=clean("h" * 400), uptime_seconds=5000)
    first = replace(live(host), host=same, devices=(make_device(state="lost"),))
    async with on_screen(first, "E", feed=ServedFeed(), size=(140, 20)) as on:
        assert "while it was watched" in on.text
        await on.give(second(first))
        await on.until(lambda: "gpu-lost" in on.text)
        assert f"since {first.taken_at - timedelta(hours=12):%m-%d}" in on.text
        await on.give(second(replace(first, devices=make_snapshot(1).devices), 2))
        rows = [line.split()[2] for line in on.lines[3:5]]
        assert rows == ["gpu-returned", "gpu-lost"]


@pytest.mark.parametrize("user", ["root", None])
async def test_one_without_a_history_opens_with_the_present(
    host: Host,  # noqa: F811
    path: Path,  # noqa: F811
    user: str | None,
) -> None:
    first = live(host, user)
    async with on_screen(first, feed=ServedFeed(), size=(140, 40)) as on:
        for seconds in (1, 2, 3):
            await on.give(second(first, seconds))
        assert "last 3s of" in on.text
        assert "no gpudash serve" not in on.footer
        await on.press("E")
        await on.until(lambda: "nothing has happened" in on.text and "loading" not in on.text)


async def test_times_are_those_that_it_has(host: Host, served: Served) -> None:  # noqa: F811
    taken_at = host.wall + timedelta(hours=2)
    now = replace(live(host), taken_at=taken_at)
    async with on_screen(now, feed=ServedFeed(), size=(140, 40)) as on:
        await on.press("at")
        await on.until(lambda: "1 of 1 " not in on.text)
        await on.press("home")
        assert f"{START.astimezone():%H:%M:%S}" in on.text
        await on.press(*"-6h")
        assert "is outside of what is there" in on.text
        await on.press(*["backspace"] * 3, *"-1h", "enter")
        gap = Span(host.written[-1], taken_at)
        await on.until(lambda: f"no samples from {gap}" in on.footer)
        served.close()
        on.feed.give(replace(now, taken_at=taken_at + timedelta(seconds=1), collected_by=None))
        await on.press("at", *"-4h", "enter")
        await on.until(lambda: "no gpudash serve" in on.footer)
        await on.press("escape")


async def test_what_is_before_its_first_is_said_to_be_outside(
    host: Host,  # noqa: F811
    served: Served,  # noqa: F811
) -> None:
    async with on_screen(live(host), feed=ServedFeed(), size=(140, 40)) as on:
        on.dashboard.time.go_to(START - timedelta(hours=1))
        await on.until(lambda: "is outside of what is there" in on.footer)
        assert on.dashboard.snapshot.taken_at == START
        await on.press("escape")
        assert "outside" not in on.footer
