import os
import select
from collections.abc import Callable, Iterator

import pytest

from gpudash.feed.collector import (
    CONTROLLED,
    FLEET_LINE_LIMIT,
    FLEET_START,
    LINE_LIMIT,
    Child,
    ControlReader,
    interval_message,
    is_controlled,
)
from gpudash.system.fork import ForkedProcess

MIB = 1 << 20


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


def spoken(speak: Callable[[], None], **limit: int) -> tuple[list[bytes], int]:
    """Return the lines of a child that arrive, and how many were dropped."""
    process = Child(ForkedProcess(speak), **limit)
    lines: list[bytes] = []
    has_ended = False
    while not has_ended:
        select.select([process.descriptor], [], [], 10)
        new, has_ended = process.read()
        process.send(b"read\n")
        lines += new
    dropped = process.take_oversized()
    assert process.take_oversized() == 0
    process.abandon()
    return lines, dropped


def say(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def test_a_line_beyond_the_limit_is_dropped() -> None:
    long = b"x" * 300_000 + b"\nnext\n"
    assert spoken(lambda: say(long), line_limit=100_000) == ([b"next"], 1)


def test_a_document_of_many_hosts_may_be_longer_than_one_of_a_host() -> None:
    # By more than what is read at once.
    many, one = FLEET_START + b" " * (LINE_LIMIT + MIB), b"{" + b" " * (LINE_LIMIT + MIB)

    def speak() -> None:
        say(many[:3])
        # The rest of its beginning comes in another piece.
        os.read(0, 5)
        say(many[3:] + b"\n" + one + b"\nnext\n")

    lines, dropped = spoken(speak)
    assert lines[0] == many
    assert (lines[1:], dropped) == ([b"next"], 1)
    assert spoken(lambda: say(many + b"\nnext\n"), line_limit=100_000) == ([b"next"], 1)
    longest = FLEET_START + b" " * (FLEET_LINE_LIMIT + MIB)
    assert spoken(lambda: say(longest + b"\nnext\n")) == ([b"next"], 1)
