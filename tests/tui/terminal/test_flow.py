import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from gpudash.tui.terminal.flow import FlowControl, NonBlockingWriter, first_question


def answering() -> tuple[FlowControl, list[float]]:
    now = [0.0]
    lag = FlowControl(lambda: now[0])
    assert not lag.answered()
    return lag, now


def test_little_is_sent_without_a_question() -> None:
    lag, _now = answering()
    assert not lag.sent(1000)
    assert not lag.excessive


def test_much_waits_for_an_answer() -> None:
    lag, _now = answering()
    assert lag.sent(50_000)
    assert lag.excessive
    assert not lag.answered()
    assert not lag.excessive


def test_what_follows_a_question_is_asked_for_again() -> None:
    lag, _now = answering()
    assert lag.sent(3000)
    assert not lag.excessive
    assert not lag.sent(3000)
    assert lag.excessive
    assert lag.answered()
    assert not lag.excessive
    assert not lag.answered()


def test_terminal_that_never_answered_is_not_asked() -> None:
    lag = FlowControl()
    assert not lag.sent(1 << 20)
    assert not lag.excessive


def test_what_was_sent_before_the_first_answer_counts() -> None:
    lag = FlowControl()
    lag.sent(50_000)
    assert lag.answered()
    assert lag.excessive


def test_terminal_that_falls_silent_is_waited_for_only_so_long() -> None:
    lag, now = answering()
    assert lag.sent(50_000)
    now[0] = 9.0
    lag.look()
    assert lag.excessive
    now[0] = 11.0
    lag.look()
    assert not lag.excessive
    assert not lag.sent(50_000)
    lag.answered()
    assert lag.excessive


LEAST = 4096


def passed(lag: FlowControl, now: list[float], size: int, seconds: float) -> None:
    """Let so many bytes be shown in so many seconds."""
    assert lag.sent(size)
    now[0] += seconds
    lag.answered()


def test_window_shrinks_by_what_is_unseen() -> None:
    lag, _now = answering()
    assert lag.room == LEAST
    lag.sent(1000)
    assert lag.room == LEAST - 1000
    lag.sent(50_000)
    assert lag.room == 0


def test_link_of_10_kb_a_second_keeps_the_window() -> None:
    lag, now = answering()
    for size in (LEAST, 2500, LEAST):
        passed(lag, now, size, size / 10_000)
        assert lag.room == LEAST


def test_fast_link_is_given_more_but_no_more_than_was_seen_to_pass() -> None:
    lag, now = answering()
    passed(lag, now, LEAST, 0.001)
    assert lag.room == 2 * LEAST
    passed(lag, now, 3000, 0.001)
    assert lag.room == 2 * LEAST
    passed(lag, now, 2 * LEAST, 0.2)
    assert lag.room == 4 * LEAST


def test_link_that_becomes_slow_is_given_less() -> None:
    lag, now = answering()
    passed(lag, now, 10 * LEAST, 0.01)
    passed(lag, now, 10 * LEAST, 10 * LEAST / 15_000)
    assert lag.room == 6000
    passed(lag, now, LEAST, 2.0)
    assert lag.room == LEAST


def test_first_answer_tells_nothing_of_the_speed() -> None:
    now = [0.0]
    lag = FlowControl(lambda: now[0])
    lag.sent(50_000)
    assert lag.answered()
    now[0] += 0.001
    lag.answered()
    assert lag.room == LEAST


def test_what_followed_a_question_is_timed_from_that_question() -> None:
    lag, now = answering()
    assert lag.sent(30_000)
    now[0] += 0.1
    assert not lag.sent(30_000)
    now[0] += 0.2
    assert lag.answered()
    now[0] += 0.3
    lag.answered()
    # 30 KB within 0.6 seconds, which are 20 KB in 0.4.
    assert lag.room == pytest.approx(20_000, abs=1)


def test_terminal_that_does_not_answer_is_given_as_much_at_a_time() -> None:
    lag = FlowControl()
    lag.sent(1 << 20)
    assert lag.room == LEAST


def test_terminal_that_would_print_the_question_is_not_asked() -> None:
    assert first_question({"TERM_PROGRAM": "Apple_Terminal"}) == ""
    assert first_question({})


LONG = "x" * 300_000


def _nothing() -> None: ...


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def read(descriptor: int, wanted: int) -> bytes:
    data = b""
    loop = asyncio.get_running_loop()
    end = loop.time() + 10
    while len(data) < wanted and loop.time() < end:
        try:
            data += os.read(descriptor, 65536)
        except BlockingIOError:
            await asyncio.sleep(0)
    return data


async def test_short_text_is_sent_at_once(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    outlet = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    outlet.write("hélas")
    assert not outlet.busy
    assert os.read(ours, 100) == "hélas".encode()
    outlet.close()


async def test_what_the_terminal_does_not_take_follows_in_order(
    terminal: tuple[int, int],
) -> None:
    ours, theirs = terminal
    outlet = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    outlet.write(LONG)
    assert outlet.busy
    outlet.write("end")
    assert await read(ours, len(LONG) + 3) == (LONG + "end").encode()
    while outlet.busy:
        await asyncio.sleep(0)
    outlet.close()


async def test_vanished_terminal_is_no_error() -> None:
    ours, theirs = pty.openpty()
    outlet = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    os.close(ours)
    outlet.write("x")
    assert not outlet.busy
    outlet.close()
    os.close(theirs)


async def test_descriptor_of_the_shell_still_waits(terminal: tuple[int, int]) -> None:
    _ours, theirs = terminal
    outlet = NonBlockingWriter(theirs, asyncio.get_running_loop(), _nothing)
    assert os.get_blocking(theirs)
    outlet.close()


async def test_what_cannot_be_opened_anew_is_told() -> None:
    with pytest.raises(OSError, match="No such file"):
        NonBlockingWriter(10_000, asyncio.get_running_loop(), _nothing)
