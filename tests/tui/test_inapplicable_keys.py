"""Keys that can do nothing where they are pressed: each says why."""

from gpudash.feed.protocol import FeedState
from gpudash.model.fleet import FleetSource
from gpudash.model.text import SafeText
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from tests.factories import make_device, make_snapshot
from tests.feed.hand import HandFeed, HandFleetFeed
from tests.fleet.many import fleet, some_hosts
from tests.tui.stage import busy_snapshot, on_screen


class WokenFeed(HandFeed):
    """Counts how often its collector was replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.resumed = 0

    def resume(self) -> None:
        self.resumed += 1


async def test_a_key_that_does_not_apply_says_why() -> None:
    feed = WokenFeed()
    async with on_screen(busy_snapshot(), feed=feed) as on:
        for view in ("escape", "d", "enter"):
            await on.press(view, "W")
            assert "no GPU is left alone on battery" in on.lines[-1]
            assert feed.resumed == 0
            await on.press("escape")


async def test_a_gpu_that_is_left_alone_is_read() -> None:
    feed, resting = WokenFeed(), make_snapshot(1, devices=(make_device(state="resting"),))
    async with on_screen(resting, "W", feed=feed, size=(120, 24)) as on:
        assert feed.resumed == 1
        assert "reading the GPUs that were left alone" in on.lines[-1]


async def test_one_that_the_service_leaves_alone_is_not() -> None:
    devices = (make_device(state="resting"),)
    feed, resting = WokenFeed(), make_snapshot(1, devices=devices, collected_by=SafeText("root"))
    async with on_screen(resting, "W", feed=feed, size=(120, 24)) as on:
        assert feed.resumed == 0
        assert "--fresh reads it" in on.lines[-1]


async def test_a_gpu_that_sleeps_is_not_woken() -> None:
    feed, asleep = WokenFeed(), make_snapshot(1, devices=(make_device(state="asleep"),))
    async with on_screen(asleep, "W", feed=feed, size=(120, 24)) as on:
        assert feed.resumed == 0
        assert "GPU 0 is asleep: only a program that uses it wakes it" in on.lines[-1]


async def test_monitoring_stops_only_after_a_question() -> None:
    async with on_screen(busy_snapshot()) as on:
        for view in ("escape", "d"):
            await on.press(view, "X")
            assert "To reset a GPU or the driver" in on.text
            await on.press("enter")
            assert on.feed.state is FeedState.LIVE
            await on.press("X", "y")
            assert on.feed.state is FeedState.RELEASED
            await on.press("X")
            assert on.feed.state is FeedState.LIVE
            await on.press("escape")


async def test_escape_resumes_monitoring_before_it_clears_anything() -> None:
    async with on_screen(busy_snapshot(), *"g1", "enter", "X", "y", "escape") as on:
        assert on.feed.state is FeedState.LIVE
        assert "reattached to the driver" in on.lines[-1]
        assert on.dashboard.devices.hidden
        await on.press("escape")
        assert not on.dashboard.devices.hidden


async def test_a_pause_while_nothing_is_sampled_says_what_it_did() -> None:
    async with on_screen(busy_snapshot(), "X", "y", "p") as on:
        assert "screen frozen; nothing is sampled until X" in on.lines[-1]
        await on.press("p")
        assert "no longer frozen" in on.lines[-1]


async def test_a_panel_that_is_toggled_is_named() -> None:
    small = {"c": "charts off: no room", "v": "sparklines off", "H": "line of the host off"}
    large = {"c": "charts off", "v": "sparklines off: they show where no charts are"}
    for size, processes, keys in (((80, 24), 20, small), ((140, 40), 3, large)):
        async with on_screen(busy_snapshot(processes), size=size) as on:
            for key, said in keys.items():
                await on.press(key)
                assert on.lines[-1].rstrip().rpartition("│")[2].strip().startswith(said)
                await on.press(key)
                assert said.partition(" off")[0] + " on" in on.lines[-1]


async def test_no_panel_is_changed_while_one_part_has_all_the_room() -> None:
    async with on_screen(busy_snapshot(), "z", "H", "c", "v", "M") as on:
        assert on.dashboard.hidden == frozenset()
        assert "z shows the others again" in on.lines[-1]
        assert not on.app.screen.is_modal
        await on.press("z", "H")
        assert on.dashboard.hidden == {"host"}


async def test_a_key_of_one_host_says_on_the_pages_of_many_why_it_does_nothing() -> None:
    simulated = (FleetSource(kind="demo", name=SafeText("simulated")),)
    async with on_screen(fleet(some_hosts(3), sources=simulated)) as on:
        for page in "135":
            await on.press(page)
            for key in ("K", "f9", "T", "I", "x", "X"):
                await on.press(key)
                assert "a simulated cluster has no processes" in on.lines[-1]
                await on.press("j")
                assert "no processes" not in on.lines[-1]
            await on.press("R")
            assert "no host is asked by ssh" in on.lines[-1]
    entered = MapPage(FleetModel(HandFleetFeed(), reaches=lambda _host: True))
    for first, said in (
        (None, "none of these can be entered by ssh"),
        (entered, "\N{RETURN SYMBOL} enters that under the cursor"),
    ):
        async with on_screen(fleet(some_hosts(3)), page=first) as on:
            await on.press("2", "K")
            assert said in on.lines[-1]
