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


def test_terminal_that_would_print_the_question_is_not_asked() -> None:
    assert first_question({"TERM_PROGRAM": "Apple_Terminal"}) == ""
    assert first_question({})
