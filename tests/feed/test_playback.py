import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from gpudash.feed.instants import Span
from gpudash.feed.playback import Playback
from gpudash.feed.protocol import FeedState
from gpudash.feed.recording.reader import Recording
from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received
from tests.feed.recording.lines import START, line, write


class Watcher:
    """Plays lines, and keeps what was delivered as seconds since the start."""

    def __init__(self, path: Path, lines: Iterable[bytes], **options: object) -> None:
        recording = Recording(str(write(path, lines)))
        self.playback = Playback(recording, recording.first, **options)  # type: ignore[arg-type]
        self.seen: list[tuple[list[float], bool]] = []
        self.messages: list[str] = []

    def begin(self) -> None:
        self.playback.start()
        self.playback.attach(
            asyncio.get_running_loop(),
            self._take,
            lambda: self.messages.append(self.playback.message),
        )

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = asyncio.get_running_loop().time() + 60
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, self.seen[-3:]
            await asyncio.sleep(0.005)

    @property
    def now(self) -> float:
        assert self.playback.latest is not None
        return _second(self.playback.latest)

    def _take(self, received: Iterable[Received[Snapshot]], after_jump: bool) -> None:
        self.seen.append(([_second(each.snapshot) for each in received], after_jump))


def _first_word(text: str) -> str:
    return text.split()[0]


def _second(snapshot: Snapshot) -> float:
    return (snapshot.taken_at - START).total_seconds()


async def test_every_sample_is_delivered_once_and_in_order(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(50)), speed=100.0)
    watcher.begin()
    await watcher.until(lambda: watcher.playback.ended)
    assert [each for seconds, _ in watcher.seen for each in seconds] == list(range(50))
    assert [after_jump for _, after_jump in watcher.seen] == [True] + [False] * (
        len(watcher.seen) - 1
    )
    assert "ends here" in watcher.messages[-1]
    assert watcher.playback.mark == "REPLAY END"
    watcher.playback.stop()


async def test_it_plays_at_its_pace(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(9)), speed=20.0)
    begun = asyncio.get_running_loop().time()
    watcher.begin()
    await watcher.until(lambda: watcher.playback.ended)
    assert asyncio.get_running_loop().time() - begun >= 8 / 20
    watcher.playback.stop()


async def test_a_paused_one_stands_and_steps(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(100)))
    watcher.begin()
    playback = watcher.playback
    playback.pause()
    playback.step(3, START)
    await watcher.until(lambda: watcher.now == 3)
    assert watcher.seen[-1] == ([1, 2, 3], False)
    playback.step(-2, START + timedelta(seconds=3))
    await watcher.until(lambda: watcher.now == 1)
    assert watcher.seen[-1] == ([0, 1], True)
    playback.step(-5, START + timedelta(seconds=1))
    await watcher.until(lambda: watcher.now == 0)
    assert playback.mark == "REPLAY PAUSED"
    playback.stop()


async def test_seeking_brings_the_past_of_that_time(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(2000)))
    watcher.begin()
    watcher.playback.pause()
    watcher.playback.seek(START + timedelta(seconds=1500.5))
    await watcher.until(lambda: watcher.now == 1500)
    seconds, after_jump = watcher.seen[-1]
    assert after_jump
    assert seconds == list(range(900, 1501))
    watcher.playback.stop()


async def test_only_the_last_of_several_seeks_counts(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(300)))
    watcher.begin()
    watcher.playback.pause()
    for number in (100, 200, 50):
        watcher.playback.seek(START + timedelta(seconds=number))
    await watcher.until(lambda: watcher.now == 50)
    assert [seconds[-1] for seconds, _ in watcher.seen] == [0, 50]
    watcher.playback.stop()


async def test_an_instant_in_a_gap_is_reported_also_while_it_is_paused(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, [0, 1, 2, 3, 2000, 2001]))
    watcher.begin()
    playback = watcher.playback
    playback.pause()
    playback.seek(START + timedelta(seconds=1000))
    await watcher.until(lambda: watcher.now == 3)
    gap = Span(START + timedelta(seconds=3), START + timedelta(seconds=2000))
    assert playback.message == f"no samples from {gap}"
    playback.seek(START + timedelta(seconds=2001))
    await watcher.until(lambda: watcher.now == 2001)
    assert playback.message == ""
    playback.seek(START + timedelta(seconds=1999))
    await watcher.until(lambda: watcher.now == 3)
    playback.step(1, START)
    await watcher.until(lambda: watcher.now == 2000)
    assert playback.message == ""
    playback.stop()


async def test_each_of_several_gaps_is_reported(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, [0, 1, 2, 1000, 2000, 3000]), speed=5000.0)
    watcher.begin()
    await watcher.until(lambda: watcher.playback.ended)
    assert [message for message in watcher.messages if message.startswith("nothing")] == [
        "nothing was recorded for 16m38s",
        "nothing was recorded for 16m40s",
        "nothing was recorded for 16m40s",
    ]
    watcher.playback.stop()


async def test_a_gap_behind_one_that_was_jumped_over_is_reported(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, [0, 1, 2, 3, 2000, 4000]), speed=10_000.0)
    watcher.begin()
    watcher.playback.pause()
    watcher.playback.seek(START + timedelta(seconds=2000))
    await watcher.until(lambda: watcher.now == 2000)
    watcher.playback.play()
    await watcher.until(lambda: watcher.playback.ended)
    assert watcher.messages[0] == "nothing was recorded for 33m20s"
    watcher.playback.stop()


@pytest.mark.parametrize("seconds", [[0, 60, 120, 180], [0, 60, 120, 121, 180, 240, 300]])
async def test_a_long_interval_is_no_gap(tmp_path: Path, seconds: list[int]) -> None:
    watcher = Watcher(tmp_path / "a", map(line, seconds), speed=500.0)
    watcher.begin()
    await watcher.until(lambda: watcher.playback.ended)
    assert [watcher.playback.interval, *map(_first_word, watcher.messages)] == [60, "the"]
    watcher.playback.stop()


async def test_it_repeats(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", map(line, range(5)), speed=100.0, repeats=True)
    watcher.begin()
    await watcher.until(lambda: sum(after_jump for _, after_jump in watcher.seen) >= 3)
    assert not watcher.playback.ended
    watcher.playback.stop()


async def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    bad = line(1).replace(b'"processes":[', b'"processes":[7,')
    watcher = Watcher(tmp_path / "a", [bad, line(2), bad, line(3), bad], speed=50.0)
    watcher.begin()
    await watcher.until(lambda: watcher.playback.ended)
    assert [each for seconds, _ in watcher.seen for each in seconds] == [2, 3]
    watcher.playback.stop()


def test_nothing_to_replay_is_one_clear_line(tmp_path: Path) -> None:
    bad = line(1).replace(b'"processes":[', b'"processes":[7,')
    with pytest.raises(WireError, match="not a gpudash snapshot"):
        Watcher(tmp_path / "a", [bad]).playback.start()


async def test_it_is_never_stale(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "a", [line(0)])
    watcher.begin()
    assert watcher.playback.state is FeedState.LIVE
    assert watcher.playback.age == 0
    watcher.playback.stop()


def test_speeds_are_steps(tmp_path: Path) -> None:
    playback = Watcher(tmp_path / "a", [line(0)], speed=3.0).playback
    playback.paused = True
    for step, speed in ((1, 4), (1, 8), (-1, 4), (-1, 2), (-1, 1), (-1, 0.5), (-1, 0.25)):
        playback.change_speed(step)
        assert playback.speed == speed
    playback.change_speed(-1)
    assert playback.speed == 0.25
