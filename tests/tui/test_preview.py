"""A brief snapshot on the screen: shown with marks for what is still to come, and nothing else."""

from typing import Any

from msgspec.structs import replace

from gpudash.feed.protocol import FeedState
from tests.factories import make_device, make_snapshot
from tests.tui.stage import HandFeed, busy_snapshot, host_app, text_of


def brief(**unread: Any) -> Any:
    device = make_device(index=0, **unread)
    return replace(make_snapshot(1), devices=(device,), brief=True)


async def test_a_brief_snapshot_is_shown_and_leaves_no_trace() -> None:
    feed = HandFeed()
    feed.state, feed.preview = FeedState.STARTING, replace(busy_snapshot(), brief=True)
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        assert "alice" in text_of(app)
        assert app.front.dashboard.history.moments == []
        assert app.front.dashboard.findings == ()
        feed.preview, feed.state = None, FeedState.LIVE
        feed.give(busy_snapshot())
        await pilot.pause()
        assert len(app.front.dashboard.history.moments) == 1
        assert not app.front.dashboard.snapshot.brief


async def test_one_that_arrives_later_is_shown_at_once_and_is_not_kept_by_a_pause() -> None:
    feed = HandFeed()
    feed.state = FeedState.STARTING
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.preview = replace(busy_snapshot(), brief=True)
        feed.change(FeedState.STARTING)
        await pilot.pause()
        assert app.front.dashboard.snapshot is feed.preview
        app.front.dashboard.time.toggle()
        feed.preview, feed.state = None, FeedState.LIVE
        feed.give(busy_snapshot())
        assert not app.front.dashboard.snapshot.brief
        assert app.front.dashboard.time.is_live


async def test_what_is_still_to_come_has_another_mark_than_what_is_absent() -> None:
    feed = HandFeed()
    feed.state, feed.preview = FeedState.STARTING, brief(gpu_utilization_percent=None)
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        row = next(line for line in text_of(app).splitlines() if "H100" in line)
        assert "…" in row
        feed.preview = None
        feed.give(
            replace(make_snapshot(1), devices=(make_device(index=0, gpu_utilization_percent=None),))
        )
        await pilot.pause()
        row = next(line for line in text_of(app).splitlines() if "H100" in line)
        assert "…" not in row
