from subprocess import PIPE, Popen

import pytest

from gpudash.feed.collector import Child
from gpudash.feed.protocol import FeedState
from gpudash.tui import status
from gpudash.tui.bindings import keys_in_force
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.status import StatusMessage
from tests.feed.hand import HandFeed
from tests.tui.stage import busy_snapshot, on_screen

SLOWER, NO_SUCH = "a sample every 2 s", "there is no GPU 9"


async def test_a_result_goes_by_itself_and_gives_the_keys_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with on_screen(busy_snapshot(6), "p", size=(100, 30)) as on:
        await on.pilot.pause()
        keys = on.lines[-1]
        monkeypatch.setattr(status, "SECONDS", 3600.0)
        await on.press("+")
        await on.until(lambda: SLOWER in on.lines[-1])
        monkeypatch.setattr(status, "SECONDS", 0.05)
        await on.press("+")
        await on.until(lambda: on.lines[-1] == keys)
        assert on.app.front.feed.interval == 5.0


def test_what_stays_is_reported_until_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SECONDS", 0.0)
    told = StatusMessage()
    passing: list[float] = []
    told.on_expiry = passing.append
    told.show("SIGTERM sent", stays=True)
    assert (told.text, passing) == ("SIGTERM sent", [])
    told.show("terminated")
    assert (told.text, passing) == ("", [0.0])
    told.show("")
    assert passing == [0.0]


class Deathless(Popen[bytes]):
    """As one in uninterruptible sleep; it leads no session."""

    def kill(self) -> None:
        """Change nothing."""


@pytest.mark.parametrize(
    ("age", "text"), [(0.5, "detaching"), (61.0, "detaching"), (63.0, "a collector hangs")]
)
def test_a_collector_hangs_only_once_its_end_is_overdue(age: float, text: str) -> None:
    feed = HandFeed()
    feed.interval, feed.age, feed.state = 60.0, age, FeedState.RELEASED
    assert "X reattaches" in status.error_text(feed, None, OVERVIEW_KEYS)
    remapped = keys_in_force(OVERVIEW_KEYS, {"driver.release": ["f7"]})
    assert "F7 reattaches" in status.error_text(feed, None, remapped)
    with Deathless(["sleep", "60"], stdout=PIPE, stderr=PIPE) as process:
        Child(process).abandon()
        assert status.error_text(feed, None, OVERVIEW_KEYS).startswith(text)
        process.terminate()
