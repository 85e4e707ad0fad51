"""A brief snapshot on the screen: shown with marks for what is still to come, and nothing else."""

from typing import Any

from msgspec.structs import replace

from gpudash.feed.protocol import FeedState
from tests.factories import make_device, make_snapshot
from tests.feed.hand import HandFeed
from tests.tui.stage import busy_snapshot, on_screen


def brief(**unread: Any) -> Any:
    device = make_device(index=0, **unread)
    return replace(make_snapshot(1), devices=(device,), brief=True)


async def test_a_brief_snapshot_is_shown_and_leaves_no_trace() -> None:
    feed = HandFeed()
    feed.state, feed.preview = FeedState.STARTING, replace(busy_snapshot(), brief=True)
    async with on_screen(feed=feed, size=(120, 40)) as on:
        assert "alice" in on.text
        assert on.dashboard.history.moments == []
        assert on.dashboard.findings == ()
        feed.preview, feed.state = None, FeedState.LIVE
        feed.give(busy_snapshot())
        await on.pilot.pause()
        assert len(on.dashboard.history.moments) == 1
        assert not on.dashboard.snapshot.brief


async def test_one_that_arrives_later_is_shown_at_once_and_is_not_kept_by_a_pause() -> None:
    feed = HandFeed()
    feed.state = FeedState.STARTING
    async with on_screen(feed=feed, size=(120, 40)) as on:
        feed.preview = replace(busy_snapshot(), brief=True)
        feed.change(FeedState.STARTING)
        await on.pilot.pause()
        assert on.dashboard.snapshot is feed.preview
        on.dashboard.time.toggle()
        feed.preview, feed.state = None, FeedState.LIVE
        feed.give(busy_snapshot())
        assert not on.dashboard.snapshot.brief
        assert on.dashboard.time.is_live


async def test_what_is_still_to_come_has_another_mark_than_what_is_absent() -> None:
    feed = HandFeed()
    feed.state, feed.preview = FeedState.STARTING, brief(gpu_utilization_percent=None)
    async with on_screen(feed=feed, size=(120, 40)) as on:
        row = next(line for line in on.text.splitlines() if "H100" in line)
        assert "…" in row
        feed.preview = None
        feed.give(
            replace(make_snapshot(1), devices=(make_device(index=0, gpu_utilization_percent=None),))
        )
        await on.pilot.pause()
        row = next(line for line in on.text.splitlines() if "H100" in line)
        assert "…" not in row
