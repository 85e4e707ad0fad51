import pytest

from gpudash.tui.backstage.lag import Lag, first_question


def answering() -> tuple[Lag, list[float]]:
    now = [0.0]
    lag = Lag(lambda: now[0])
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
    lag = Lag()
    assert not lag.sent(1 << 20)
    assert not lag.excessive


def test_what_was_sent_before_the_first_answer_counts() -> None:
    lag = Lag()
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


def passed(lag: Lag, now: list[float], size: int, seconds: float) -> None:
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
    lag = Lag(lambda: now[0])
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
    lag = Lag()
    lag.sent(1 << 20)
    assert lag.room == LEAST


def test_terminal_that_would_print_the_question_is_not_asked() -> None:
    assert first_question({"TERM_PROGRAM": "Apple_Terminal"}) == ""
    assert first_question({})
