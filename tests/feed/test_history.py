"""What `gpudash serve` keeps on disk, read as any recording."""

import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from math import ceil
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudash.analysis.history.numbers import extents
from gpudash.analysis.history.tracks import Extent
from gpudash.analysis.minutes import Minutes
from gpudash.feed.history import KeptHistory
from gpudash.feed.recording.reader import Recording
from gpudash.feed.recording.samples import charted_lines
from gpudash.feed.recording.segments import CHARTED_SECONDS, MINUTE_SECONDS
from gpudash.model import wire
from gpudash.model.device import Device
from gpudash.model.errors import UsageError, WireError
from gpudash.model.report import decode_minute
from gpudash.model.text import clean
from tests.factories import make_device, make_host, make_process, make_snapshot
from tests.feed.clock import Clock
from tests.waiting import until

START = datetime(2026, 11, 2, 9, 0, tzinfo=timezone.utc)
HOUR, DAY = 3600, 86400
LARGE = 10**9


class Host:
    """A host with a history, and two clocks: its wall clock may be set."""

    def __init__(self, folder: Path, keep: float = 30 * DAY, size: int = LARGE) -> None:
        self.folder, self.keep, self.size = folder, keep, size
        self.clock, self.wall = Clock(), START
        self.messages: list[str] = []
        self.written: list[datetime] = []
        self.history = self.opened()

    def opened(self, **told: Any) -> KeptHistory:
        report = self.messages.append
        told = {"numbers": Minutes(10), **told}
        return KeptHistory(str(self.folder), self.keep, self.size, report, clock=self.clock, **told)

    def restart(self) -> None:
        self.history.close()
        self.history = self.opened()

    def run(self, seconds: float, interval: float = 10) -> None:
        for _ in range(int(seconds // interval)):
            up = make_host(hostname=clean("h" * 400), uptime_seconds=self.clock.now)
            # As a collector writes it, which has examined it.
            known = {"devices": self.devices(), "findings": ()}
            taken = make_snapshot(1, taken_at=self.wall, host=up, **known)
            self.history.take(taken, wire.encode(taken))
            self.written.append(self.wall)
            self.clock.now += interval
            self.wall += timedelta(seconds=interval)

    def devices(self) -> tuple[Device, ...]:
        return (make_device(status="busy"),)

    @property
    def recording(self) -> Recording:
        return Recording(str(self.folder))

    @property
    def times(self) -> list[datetime]:
        recording = self.recording
        return [each.taken_at for each in (recording.first, *recording.after(recording.first))]

    @property
    def bytes(self) -> int:
        return sum(-(-each.stat().st_size // 4096) * 4096 for each in self.folder.iterdir())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "history")


def gaps(times: list[datetime]) -> list[float]:
    return [(after - before).total_seconds() for before, after in pairwise(times)]


def test_a_day_is_kept_at_ten_seconds_and_what_is_older_at_a_minute(host: Host) -> None:
    host.run(1.5 * HOUR)
    host.run(23.5 * HOUR, 600)
    host.run(HOUR)
    times = host.times
    old = [each for each in times if each < START + timedelta(hours=1)]
    assert set(gaps(old)) == {60}
    assert set(gaps([each for each in times if each >= START + timedelta(hours=25)])) == {10}
    assert (times[0], times[-1]) == (START, host.written[-1])


def test_what_is_older_than_asked_for_goes(tmp_path: Path) -> None:
    host = Host(tmp_path / "history", keep=3 * HOUR)
    host.run(9.5 * HOUR, 60)
    assert host.times[0] == START + timedelta(hours=6)


@pytest.mark.parametrize("interval", [0.5, 7, 600])
def test_samples_come_at_any_interval(host: Host, interval: float) -> None:
    host.run(600, interval)
    assert len(host.times) == pytest.approx(600 / max(interval, 1), abs=1)
    host.run(3 * HOUR, 600)
    early = [each for each in host.times if each < START + timedelta(seconds=600)]
    assert len(early) == pytest.approx(600 / max(interval, 10), abs=1)
    assert max([*gaps(early), 0]) <= max(interval, 10) + interval


def test_any_instant_is_found(host: Host) -> None:
    host.run(3 * HOUR)
    host.restart()
    host.wall += timedelta(hours=4)
    host.run(HOUR)
    recording = host.recording
    for minutes in range(0, 8 * 60, 17):
        wanted = START + timedelta(minutes=minutes, seconds=3)
        before = [each for each in host.written if each <= wanted]
        assert recording.at(wanted).taken_at == before[-1]
    assert recording.span == (START, host.written[-1])
    middle = recording.at(START + timedelta(hours=2))
    times = [each.taken_at for each in recording.before(middle)]
    assert times[::-1] == host.written[: len(times)]


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.sampled_from(["run", "restart", "set"]), st.integers(-40 * DAY, 40 * DAY)),
        max_size=8,
    ),
    st.sampled_from([128 * 1024, 300 * 1024, LARGE]),
)
def test_no_clock_loses_the_newest_and_the_size_holds(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]], size: int
) -> None:
    host = Host(tmp_path_factory.mktemp("host") / "history", size=size)
    for kind, seconds in events:
        if kind == "set":
            host.wall += timedelta(seconds=seconds)
        elif kind == "restart":
            host.restart()
        host.run(abs(seconds) % (HOUR // 2) + 60)
        assert host.bytes <= size
    host.run(60)
    assert host.messages == []
    times = host.times
    assert set(times) <= set(host.written)
    assert times[-1] == host.written[-1]
    if size == LARGE:
        # Nothing is a day old by the clock that counts: all is there, in the order of writing.
        assert times == sorted(set(times), key=host.written.index)
        assert len(times) >= len(host.written) - 2 * len(events)
    host.history.close()


def test_the_oldest_goes_where_there_is_no_room(tmp_path: Path) -> None:
    host = Host(tmp_path / "history", size=200_000)
    for _ in range(5):
        host.run(2 * HOUR, 20)
        assert host.bytes <= 200_000
    times = host.times
    assert (times[0] > START, times[-1]) == (True, host.written[-1])
    assert times[-1] - times[0] > timedelta(hours=3)
    assert host.messages == []


def test_a_copy_by_hard_links_is_kept(tmp_path: Path) -> None:
    host, copy = Host(tmp_path / "history", keep=3 * HOUR), tmp_path / "copy"
    host.run(HOUR)
    host.history.close()
    copytree(host.folder, copy, copy_function=os.link)
    host.history = host.opened()
    host.run(5 * HOUR, 60)
    assert host.times[0] > START
    assert Recording(str(copy)).first.taken_at == START


def test_numbers_a_minute_are_kept_beside_samples(host: Host) -> None:
    host.run(HOUR + 600)
    host.restart()
    host.run(60)
    host.history.close()
    numbers = host.recording.numbers
    lines = [numbers.first.line, *(each.line for each in numbers.after(numbers.first))]
    minutes = [decode_minute(line) for line in lines]
    assert sum(each.seconds for each in minutes) == HOUR + 600 - 10 + 50
    assert [each.taken_at for each in minutes] == sorted(
        {each.replace(second=0): each for each in host.written}.values()
    )
    found = numbers.between(START + timedelta(seconds=60), START + timedelta(seconds=240))
    assert [each.taken_at.minute for each in found] == [1, 2, 3]


class VaryingHost(Host):
    """Two GPUs whose power changes, of which one comes and goes."""

    def devices(self) -> tuple[Device, ...]:
        power = 10**5 + int(self.clock.now) * 7919 % 10**5
        count = 1 + int(self.clock.now) // 1000 % 2
        return tuple(
            make_device(index=each, power_usage_mw=power + each, status="busy")
            for each in range(count)
        )


def charted(host: Host, seconds: int) -> tuple[int, dict[str, list[Extent | None]]]:
    """How many lines a chart of all takes whose points may be so long, and what it shows."""
    start = START.replace(minute=0)
    points = ceil((host.wall - start).total_seconds() / CHARTED_SECONDS)
    end = start + timedelta(seconds=points * CHARTED_SECONDS)
    lines = list(charted_lines(host.recording, start, end, seconds))
    span = (end - start).total_seconds()
    return len(lines), extents(lines, "power_usage_mw", start, span, points)


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(st.sampled_from(["run", "restart", "kill", "away"]), st.integers(60, HOUR)),
        max_size=5,
    )
)
def test_a_long_chart_takes_few_lines_and_shows_the_same(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("host")
    host = VaryingHost(folder / "0")
    host.run(HOUR, 30)
    for number, (kind, seconds) in enumerate(events, 1):
        if kind == "restart":
            host.restart()
        elif kind == "away":
            host.wall += timedelta(seconds=seconds)
            host.clock.now += seconds
        elif kind == "kill":
            host.folder = copytree(host.folder, folder / str(number))
            host.history = host.opened()
        host.run(seconds, 60)
    count, shown = charted(host, CHARTED_SECONDS)
    minutes, expected = charted(host, MINUTE_SECONDS)
    assert count <= minutes / 6 + 12 * (len(events) + 1)
    assert shown.keys() == expected.keys()
    for key, known in expected.items():
        for ours, theirs in zip(shown[key], known, strict=True):
            assert ours == (theirs and pytest.approx(theirs, abs=0.5))


def test_lines_of_several_minutes_are_whole_where_the_disk_took_nothing(tmp_path: Path) -> None:
    found = []
    for name, room in (("full", largest_file(10)), ("fine", nullcontext())):
        host = VaryingHost(tmp_path / name)
        host.run(HOUR - 100, 20)
        with room:
            host.run(HOUR, 20)
        host.run(HOUR, 20)
        numbers = host.recording.charted_numbers
        assert numbers is not None
        found.append({numbers.first.line, *(each.line for each in numbers.after(numbers.first))})
    full, fine = found
    assert full < fine
    assert len(full) >= len(fine) - 11


def test_lines_of_several_minutes_go_with_their_hour(tmp_path: Path) -> None:
    host = Host(tmp_path / "history", keep=3 * HOUR)
    host.run(9.5 * HOUR, 60)
    found = Recording(str(host.folder)).charted_numbers
    assert found.first.taken_at == START + timedelta(hours=6, minutes=5)


def test_numbers_go_after_samples_where_there_is_no_room(tmp_path: Path) -> None:
    host = Host(tmp_path / "history", size=150_000)
    host.run(8 * HOUR, 30)
    assert host.bytes <= 150_000
    numbers = host.recording.numbers
    assert numbers.first.taken_at < START + timedelta(minutes=1)
    assert host.recording.first.taken_at > START + timedelta(hours=1)


def test_a_sample_that_is_too_large_is_reported_once(tmp_path: Path) -> None:
    host = Host(tmp_path / "history", size=4096)
    host.run(600)
    (message,) = host.messages
    assert "too large for --max-size" in message


def test_only_its_owner_can_read_it(host: Host) -> None:
    host.run(60)
    assert stat.S_IMODE(host.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in host.folder.iterdir()} == {0o600}


def test_command_lines_can_be_left_out(host: Host) -> None:
    host.history.close()
    host.history = host.opened(has_commands=False)
    argv = tuple(map(clean, ("python", "--secret-model")))
    taken = make_snapshot(1, processes=(make_process(pid=7, command_line=argv),))
    host.history.take(taken, wire.encode(taken))
    sample = host.recording.first
    assert b"secret-model" not in sample.line
    assert sample.snapshot().processes[0].pid == 7


def test_a_folder_has_one_writer_who_owns_it(host: Host, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another gpudash writes there"):
        host.opened()
    host.run(60)
    host.history.close()
    host.folder.chmod(0o777)
    with pytest.raises(UsageError, match="others may write there"):
        host.opened()
    (tmp_path / "file").touch()
    host.folder = tmp_path / "file"
    with pytest.raises(UsageError, match="Not a directory"):
        host.opened()


def test_a_name_that_is_taken_is_not_written_through(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    name = "00000001-20261102T090000Z.10s.jsonl.zst"
    (host.folder / name).symlink_to(tmp_path / "secret")
    host.run(60)
    assert (tmp_path / "secret").read_text() == "mine"
    assert host.times[-1] == host.written[-1]


@contextmanager
def largest_file(count: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_takes_nothing_loses_samples_and_is_reported_once(host: Host) -> None:
    host.run(600)
    with largest_file(10):
        host.run(600)
    (message,) = host.messages
    assert "File too large" in message
    assert "samples are lost" in message
    lost = host.wall
    host.run(600)
    assert host.messages[1:] == ["gpudash: history: samples are kept again\n"]
    kept = [each for each in host.written if each < lost - timedelta(seconds=600) or each >= lost]
    assert host.times == kept
    assert all(each.stat().st_size for each in host.folder.iterdir())


def test_a_segment_that_cannot_be_read_is_left_out(host: Host) -> None:
    host.run(3.2 * HOUR)
    others = [each for each in host.written if each.hour != 10]
    segment = sorted(host.folder.glob("*.10s.*"))[1]
    data = segment.read_bytes()
    left = {"empty": b"", "garbage": bytes(999), "cut": data[:700]}
    left |= {"cut and zeros": data[:700] + bytes(999), "gone": b""}
    for harm, content in left.items():
        segment.write_bytes(data)
        recording = host.recording
        segment.write_bytes(content)
        if harm == "gone":
            segment.unlink()
        for read in (recording, host.recording):
            times = [each.taken_at for each in (read.first, *read.after(read.first))]
            assert [each for each in times if each.hour != 10] == others, harm
            assert times[-1] == host.written[-1]
            assert read.at(START + timedelta(hours=2.5)).taken_at == START + timedelta(hours=2.5)
            assert read.at(START + timedelta(hours=1.9)).taken_at < START + timedelta(hours=2)
            assert bool(read.note) is (harm not in ("gone", "empty"))
            # One a minute takes the place of a file that is not there, is empty, or has no start.
            assert (harm in ("gone", "empty", "garbage")) is (len(times) - len(others) == 60)


def test_a_folder_without_a_sample_is_no_recording(host: Host, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder without a recording"):
        Recording(str(tmp_path))
    host.run(60)
    for each in host.folder.iterdir():
        each.write_bytes(b"")
    with pytest.raises(WireError, match="no segment of it can be read"):
        Recording(str(host.folder))


_WRITER = """
import sys
from pathlib import Path
from tests.feed.test_history import Host
host = Host(Path(sys.argv[1]), size=400_000)
host.run(60)
print("begun", flush=True)
while True:
    host.run(3600)
"""


@pytest.fixture
def killed_writer(tmp_path: Path) -> Callable[[float], Path]:
    """Start one that writes as fast as it can, and kill it after some time."""

    def kill(after: float) -> Path:
        folder = tmp_path / "history"
        argv = [sys.executable, "-c", _WRITER, str(folder)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "begun\n"
            since = time.monotonic()
            until(lambda: time.monotonic() - since >= after)
            assert writer.poll() is None
            writer.kill()
        return folder

    return kill


def test_a_writer_that_is_killed_leaves_nothing_unreadable(
    killed_writer: Callable[[float], Path],
) -> None:
    for number in range(3):
        folder = killed_writer(0.06 * number)
        recording = Recording(str(folder))
        samples = [recording.first, *recording.after(recording.first)]
        assert all(each.snapshot().devices for each in samples)
        assert recording.note == ""
        on_disk = sum(-(-each.stat().st_size // 4096) * 4096 for each in folder.iterdir())
        assert on_disk <= 400_000


def test_a_segment_that_was_cut_is_damaged_unless_it_is_the_last(host: Host) -> None:
    host.run(2.2 * HOUR)
    host.history.close()
    # What ends a frame of zstd is of 7 bytes: a server that was killed has not written it.
    for number, cut, is_told in ((2, 850, True), (2, 7, False), (3, 850, False)):
        whole = {each: each.read_bytes() for each in host.folder.glob(f"{number:08d}-*")}
        for segment, data in whole.items():
            segment.write_bytes(data[:-cut])
        recording = host.recording
        assert len(list(recording.after(recording.first))) > 600
        assert ("is damaged: samples behind" in recording.note) is is_told
        for segment, data in whole.items():
            segment.write_bytes(data)
