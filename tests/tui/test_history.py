"""A screen whose collector is a service that remembers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gpudash.feed.timeline import Timeline
from gpudash.feed.visits import Visits
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from tests.factories import make_snapshot
from tests.feed.test_history import Host
from tests.feed.test_past import host, path, remembered, served  # noqa: F401
from tests.tui.stage import HandFeed, OnScreen, on_screen


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
            assert title in on.text
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
