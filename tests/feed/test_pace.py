import os
from collections.abc import Iterator

import pytest

from gpudash.feed.collector import LED, Pace, is_led, told


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_what_is_told_last_counts(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    pace = Pace(1.0, reading)
    assert not pace.read()
    os.write(writing, told(0.5) + told(0.1))
    assert pace.read()
    assert pace.seconds == 0.1
    assert not pace.read()


def test_half_a_line_is_waited_for(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    pace = Pace(1.0, reading)
    line = told(12.5)
    os.write(writing, line[:2])
    assert not pace.read()
    os.write(writing, line[2:])
    assert pace.read()
    assert pace.seconds == 12.5


@pytest.mark.parametrize("text", [b"\n", b"fast\n", b"0\n", b"-1\n", b"nan\n", b"inf\n", b"\xff\n"])
def test_what_is_no_interval_changes_nothing(pipe: tuple[int, int], text: bytes) -> None:
    reading, writing = pipe
    pace = Pace(1.0, reading)
    os.write(writing, text)
    assert not pace.read()
    assert pace.seconds == 1.0


def test_nobody_is_listened_to_who_has_gone() -> None:
    reading, writing = os.pipe()
    pace = Pace(1.0, reading)
    os.close(writing)
    assert not pace.read()
    assert pace.descriptor is None
    assert not pace.read()
    os.close(reading)


def test_nobody_is_listened_to_unless_led() -> None:
    assert not Pace(1.0).read()
    assert is_led({**os.environ, **LED})
    assert not is_led({})
