import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudash.feed.recording.collecting import Collecting
from gpudash.model.errors import GpudashError
from gpudash.model.fault import XidEvent
from gpudash.model.wire import encode
from tests.factories import make_device, make_snapshot

Start = Callable[..., Collecting]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(clock: Clock) -> Iterator[Start]:
    """Starts a script in the place of a collector."""
    started: list[Collecting] = []

    def start(script: str) -> Collecting:
        started.append(Collecting(["sh", "-c", script], 1.0, clock=clock))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def silent() -> Iterator[int]:
    """A descriptor that never can be read."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def heard(collecting: Collecting, silent: int, condition: Callable[[list[bytes]], bool]) -> None:
    """Take lines until something holds of all that came."""
    found: list[bytes] = []
    deadline = time.monotonic() + 10
    while not condition(found):
        assert time.monotonic() < deadline, f"only {found}"
        collecting.wait(0.05, silent)
        found += collecting.take()


def test_whole_lines_come_as_they_were_said(start: Start, silent: int) -> None:
    collecting = start(r"printf 'one\ntwo\nhalf'; exec sleep 60")
    heard(collecting, silent, lambda found: found == [b"one", b"two"])
    assert collecting.trouble == ""


def test_one_that_never_says_anything_is_an_error(start: Start, silent: int) -> None:
    collecting = start("echo gpudash: no driver >&2; exit 9")
    with pytest.raises(GpudashError, match=r"^no driver$") as raised:
        heard(collecting, silent, bool)
    assert raised.value.exit_status == 9


def test_one_that_dies_is_replaced(start: Start, silent: int, clock: Clock) -> None:
    collecting = start("echo $$; echo gpudash: out of memory >&2; exit 1")
    heard(collecting, silent, lambda _: bool(collecting.trouble))
    assert collecting.trouble == "out of memory"
    assert collecting.take() == []
    clock.now += 1.5
    heard(collecting, silent, lambda found: len(found) == 1)


def test_silence_is_told_and_ends_with_another_collector(
    start: Start, silent: int, clock: Clock
) -> None:
    collecting = start("echo $$; exec sleep 60")
    pids: list[bytes] = []
    heard(collecting, silent, lambda found: bool(pids.extend(found) or found))
    clock.now += 6
    assert collecting.trouble == "no sample for 6s: the driver does not answer"
    assert collecting.take() == []
    clock.now += 30
    heard(collecting, silent, lambda found: bool(found) and found != pids)
    assert collecting.trouble == ""


def test_one_that_cannot_be_started_again_is_tried_later(
    tmp_path: Path, silent: int, clock: Clock
) -> None:
    script = tmp_path / "collector"
    text = "#!/bin/sh\necho one\n"
    script.write_text(text)
    script.chmod(0o700)
    collecting = Collecting([str(script)], 1.0, clock=clock)
    heard(collecting, silent, lambda _: bool(collecting.trouble))
    script.unlink()
    clock.now += 1.5
    assert collecting.take() == []
    assert collecting.trouble.startswith("the collector cannot be started: ")
    script.write_text(text)
    script.chmod(0o700)
    clock.now += 3
    heard(collecting, silent, lambda found: found == [b"one"])
    collecting.close()


def test_one_that_never_could_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GpudashError, match="the collector cannot be started"):
        Collecting([str(tmp_path / "none")], 1.0)


def test_another_collector_is_given_what_the_last_one_reported(
    start: Start, silent: int, tmp_path: Path
) -> None:
    event = XidEvent(code=48, seen_at=1.0)
    sample = tmp_path / "sample"
    sample.write_bytes(
        encode(make_snapshot(devices=(make_device(xid_events=(event,)),), processes=())) + b"\n"
    )
    collecting = start(f'[ "$GPUDASH_XID_HANDOVER" ] && echo heir || cat {sample}; exec sleep 60')
    heard(collecting, silent, lambda lines: len(lines) == 1)
    collecting.turn()
    collecting.turn()
    heard(collecting, silent, lambda lines: lines == [b"heir"])
