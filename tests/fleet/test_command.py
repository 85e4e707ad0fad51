import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from gpudash.fleet.command import CommandSource
from gpudash.fleet.source import Reading
from gpudash.model.errors import WireError
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob
from gpudash.model.text import clean_bytes
from tests.feed.clock import Clock
from tests.fleet.rig.reading import read_until


def hosts(lines: Sequence[bytes]) -> tuple[list[FleetHost], list[FleetJob]]:
    """Read a host and its number of GPUs a line."""
    found = []
    for line in filter(None, lines):
        name, _, count = line.partition(b" ")
        if not count.isdigit():
            raise WireError(f"cat: no number of GPUs: '{clean_bytes(line)}'")
        devices = tuple(FleetDevice(index=index) for index in range(int(count)))
        found.append(FleetHost(name=clean_bytes(name), devices=devices))
    return found, []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text("gpu1 8\ngpu2 4")
    return path


@pytest.fixture
def source(file: Path, clock: Clock) -> Iterator[CommandSource]:
    with closing(CommandSource("cat", [["cat", str(file)]], hosts, clock=clock)) as source:
        yield source


def test_hosts_are_as_old_as_what_was_printed(source: CommandSource, clock: Clock) -> None:
    first = read_until(source, lambda reading: reading.report.state == "ok")
    assert [(host.name, len(host.devices)) for host in first.hosts] == [("gpu1", 8), ("gpu2", 4)]
    assert [host.age_seconds for host in first.hosts] == [0.0, 0.0]
    assert (first.report.name, first.report.answering_hosts) == ("cat", 2)
    clock.now += 7.0
    assert [host.age_seconds for host in source.read().hosts] == [7.0, 7.0]
    assert source.due_in() == 53.0


def test_what_the_parser_refuses_is_the_reason_why_the_last_answer_stays(
    source: CommandSource, clock: Clock, file: Path
) -> None:
    def fails(reading: Reading) -> bool:
        return reading.report.message is not None

    read_until(source, lambda reading: reading.report.state == "ok")
    file.write_text("gpu1 \x1b[2J")
    clock.now += 60.0
    failing = read_until(source, fails)
    assert (failing.report.state, len(failing.hosts)) == ("stale", 2)
    assert failing.report.message == r"cat: no number of GPUs: 'gpu1 \x1b[2J'"
    clock.now += 121.0
    assert (source.read().report.state, source.read().hosts) == ("failed", ())


def test_an_answer_ages_while_the_machine_sleeps(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept, clock_gettime = 0.0, time.clock_gettime
    monkeypatch.setattr(
        time,
        "clock_gettime",
        lambda clock: clock_gettime(clock) + (slept if clock == time.CLOCK_BOOTTIME else 0),
    )
    with closing(CommandSource("cat", [["cat", str(file)]], hosts)) as source:
        read_until(source, lambda reading: reading.report.state == "ok")
        slept = 3600.0
        assert source.due_in() == 0
        assert source.read().hosts == ()


def test_a_command_that_fails_is_named(clock: Clock, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with closing(CommandSource("cat", [["cat", str(gone)]], hosts, clock=clock)) as source:
        failed = read_until(source, lambda reading: reading.report.state == "failed")
    assert str(failed.report.message).startswith("cat: cat: ")
