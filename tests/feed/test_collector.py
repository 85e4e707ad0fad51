import os
import select
from collections.abc import Iterator

import pytest

from gpudash.feed.collector import (
    CONTROLLED,
    CollectorProcess,
    ControlReader,
    interval_message,
    is_controlled,
)
from gpudash.system.fork import ForkedProcess


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_the_last_interval_counts(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    reader = ControlReader(1.0, reading)
    assert not reader.read()
    os.write(writing, interval_message(0.5) + interval_message(0.1))
    assert reader.read()
    assert reader.seconds == 0.1
    assert not reader.read()


def test_half_a_line_is_waited_for(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    reader = ControlReader(1.0, reading)
    line = interval_message(12.5)
    os.write(writing, line[:2])
    assert not reader.read()
    os.write(writing, line[2:])
    assert reader.read()
    assert reader.seconds == 12.5


@pytest.mark.parametrize("text", [b"\n", b"fast\n", b"0\n", b"-1\n", b"nan\n", b"inf\n", b"\xff\n"])
def test_what_is_no_interval_changes_nothing(pipe: tuple[int, int], text: bytes) -> None:
    reading, writing = pipe
    reader = ControlReader(1.0, reading)
    os.write(writing, text)
    assert not reader.read()
    assert reader.seconds == 1.0


def test_requests_are_kept_for_the_caller(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    reader = ControlReader(1.0, reading)
    os.write(writing, b'{"at":1}\n2.5\n{"ch')
    assert reader.read()
    assert (reader.seconds, reader.requests) == (2.5, [b'{"at":1}'])


def test_an_ended_writer_is_let_go() -> None:
    reading, writing = os.pipe()
    reader = ControlReader(1.0, reading)
    os.close(writing)
    assert not reader.read()
    assert reader.descriptor is None
    assert not reader.read()
    os.close(reading)


def test_it_reads_nothing_without_a_descriptor() -> None:
    assert not ControlReader(1.0).read()
    assert is_controlled({**os.environ, **CONTROLLED})
    assert not is_controlled({})


def test_a_line_beyond_the_limit_is_dropped() -> None:
    def speak() -> None:
        os.write(1, b"x" * 300_000 + b"\nnext\n")

    process = CollectorProcess(ForkedProcess(speak), line_limit=100_000)
    lines: list[bytes] = []
    has_ended = False
    while not has_ended:
        select.select([process.descriptor], [], [], 10)
        new, has_ended = process.read()
        lines += new
    assert lines == [b"next"]
    assert process.take_oversized() == 1
    assert process.take_oversized() == 0
    process.abandon()
