from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from gpudash.feed.playback import Playback
from gpudash.feed.recording.reader import Recording
from gpudash.tui.dialogs.moment import times
from tests.feed.recording.lines import START, line, second, write
from tests.tui.dashboards import give, make_dashboard
from tests.tui.past import sample
from tests.tui.stage import OnScreen, on_screen, process_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 3 hours with a sample every 2 s around those that are gone to."""
    near = {at // 60 + minute for at in (0, 100, 3600, 4200, 4354, 10770) for minute in (-1, 0, 1)}
    seconds = (at for at in range(0, 10801, 2) if at // 60 in near or at == 10800)
    return write(tmp_path_factory.mktemp("recording") / "a", map(line, seconds))


@asynccontextmanager
async def replayed(path: Path) -> AsyncIterator[OnScreen]:
    recording = Recording(str(path))
    playback = Playback(recording, recording.first)
    playback.start()
    playback.pause()
    async with on_screen(feed=playback, size=(100, 30)) as on:
        await on.shows("PAUSED")
        yield on
    playback.stop()


TYPED = (
    (f"{START.astimezone() + timedelta(seconds=4354):%H:%M:%S}", 4354),
    ("+1h10m", 4200),
    ((START + timedelta(seconds=100)).isoformat(), 100),
)


async def test_a_typed_time_is_gone_to_though_no_list_has_it(path: Path) -> None:
    async with replayed(path) as on:
        for typed, second in TYPED:
            wanted = START + timedelta(seconds=second)
            await on.press("at", *typed)
            assert f"{wanted.astimezone():%H:%M:%S}" in on.text
            await on.press("enter")
            await on.until(lambda at=wanted: on.dashboard.snapshot.taken_at == at)


async def test_a_typed_time_that_the_list_has_is_there_once(path: Path) -> None:
    async with replayed(path) as on:
        moment = START.astimezone() + timedelta(seconds=3600)
        await on.press("at", *f"{moment:%H:%M}")
        assert on.text.count(f"{moment:%H:%M}:00") == 1


async def test_what_is_no_time_of_the_recording_finds_nothing(path: Path) -> None:
    async with replayed(path) as on:
        await on.press("at", *"+9h")
        first, last = START.astimezone(), START.astimezone() + timedelta(hours=3)
        assert f"{first:%F %T} to" in on.text
        assert f"{last:%T}" in on.text


async def test_the_live_past_is_gone_to_by_the_same_key() -> None:
    async with on_screen(size=(100, 30)) as on:
        for number in range(5):
            on.feed.give(second(10 * number))
        await on.press("at", *"-20s", "enter")
        assert on.dashboard.snapshot.taken_at == START + timedelta(seconds=20)
        assert "20s AGO" in on.text
        await on.press("escape")
        assert on.dashboard.snapshot.taken_at == START + timedelta(seconds=40)


async def test_steps_in_a_recording_start_at_the_sample_that_is_shown(path: Path) -> None:
    async with replayed(path) as on:

        async def shows(second: int) -> None:
            wanted = START + timedelta(seconds=second)
            await on.until(lambda: on.dashboard.snapshot.taken_at == wanted)

        await on.press("at", *"+1h", "enter")
        await shows(3600)
        await on.press(*["left_square_bracket"] * 3)
        await shows(3594)
        await on.press("right_curly_bracket")
        await shows(3624)
        await on.press("left_curly_bracket", "right_square_bracket")
        await shows(3596)
        # Behind the end it is the last.
        await on.press("at", *"-8s", "enter")
        await shows(10792)
        await on.press("left_square_bracket", "right_curly_bracket")
        await shows(10800)


def test_idle_time_is_what_it_was_at_the_instant_that_is_shown() -> None:
    dashboard = make_dashboard(sample(0, [0]))
    for seconds in range(2, 300, 2):
        idle = process_of(0, idle_seconds=float(seconds))
        give(dashboard, sample(seconds, [0], processes=(idle,)))
    assert dashboard.listing.rows[0].process.idle_seconds == 298
    dashboard.time.step(-50)
    assert dashboard.listing.rows[0].process.idle_seconds == 198


@pytest.mark.parametrize(
    ("first", "last", "texts"),
    [
        (0.5, 2.3, ["05", "06", "07"]),
        (0.0, 2.0, ["05", "06", "07"]),
        (0.2, 0.8, ["05"]),
        (0.2, 0.2, ["05"]),
    ],
)
def test_no_second_is_listed_twice(first: float, last: float, texts: list[str]) -> None:
    start, end = START + timedelta(seconds=first), START + timedelta(seconds=last)
    found = times(start, end)
    assert [each.text[-2:] for each in found] == texts
    assert datetime.fromisoformat(found[-1].value) == end


@pytest.mark.parametrize("days", [10, 300])
def test_times_are_round_by_the_clocks_of_then(in_zone: Callable[[str], None], days: int) -> None:
    in_zone("Europe/Berlin")
    start = datetime(2026, 10, 24, 10, 17, tzinfo=timezone.utc)
    _first, *found, _last = times(start, start + timedelta(days=days))
    assert {each.text[2:] for each in found} == {":00:00"}
    assert {int(each.text[:2]) % (1 if days == 10 else 24) for each in found} == {0}
    assert len({each.value for each in found}) == len(found)
