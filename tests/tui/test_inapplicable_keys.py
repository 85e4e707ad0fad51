"""Keys that can do nothing where they are pressed: each says why."""

from __future__ import annotations

import pytest

from tests.factories import make_device, make_snapshot
from tests.tui.stage import HandFeed, busy_snapshot, on_screen


class WokenFeed(HandFeed):
    """Counts how often its collector was replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed = 0

    def resume(self) -> None:
        self.resumed += 1


@pytest.mark.parametrize("view", ["", "d", "w", "m", "u", "enter"])
@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("W", "no GPU is known to be left alone on battery"),
    ],
)
async def test_a_inapplicable_key_says_why(view: str, key: str, why: str) -> None:
    feed = WokenFeed()
    async with on_screen(busy_snapshot(), *filter(None, [view]), key, feed=feed) as on:
        assert why in on.lines[-1]
        assert feed.resumed == 0
        await on.press("escape")


@pytest.mark.parametrize("state", ["resting", "asleep"])
async def test_a_gpu_that_is_left_alone_is_looked_at(state: str) -> None:
    feed = WokenFeed()
    async with on_screen(make_snapshot(1, devices=(make_device(state=state),)), feed=feed) as on:
        await on.press("W")
        assert feed.resumed == 1
        assert "left alone on battery" not in on.lines[-1]


async def test_no_panel_is_changed_while_one_part_has_all_the_room() -> None:
    async with on_screen(busy_snapshot(), "z", "H", "c", "v", "M") as on:
        assert on.dashboard.hidden == frozenset()
        assert not on.app.screen.is_modal
        await on.press("z", "H")
        assert on.dashboard.hidden == {"host"}
