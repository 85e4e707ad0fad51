"""Keys that can do nothing where they are pressed: each says why."""

from __future__ import annotations

import pytest

from tests.factories import make_device, make_snapshot
from tests.tui.stage import HandFeed, busy_snapshot, host_app, screen_lines


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
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press(*filter(None, [view]), key)
        await pilot.pause()
        assert why in screen_lines(app)[-1]
        assert feed.resumed == 0
        await pilot.press("escape")
        await pilot.pause()


@pytest.mark.parametrize("state", ["resting", "asleep"])
async def test_a_gpu_that_is_left_alone_is_looked_at(state: str) -> None:
    feed = WokenFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(1, devices=(make_device(state=state),)))
        await pilot.press("W")
        await pilot.pause()
        assert feed.resumed == 1
        assert "left alone on battery" not in screen_lines(app)[-1]


async def test_no_panel_is_changed_while_one_part_has_all_the_room() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("z", "H", "c", "v", "M")
        assert app.front.dashboard.hidden == frozenset()
        assert not app.screen.is_modal
        await pilot.press("z", "H")
        assert app.front.dashboard.hidden == {"host"}
