import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.actions.kill.signals import find_signal, signals
from gpudash.model.errors import UsageError

ALIASES = {"CLD", "IOT", "POLL", "IO", "RTMAX"}
VALID = {text for each in signals() for text in (each.name, str(each.number))} | ALIASES


def test_every_signal_of_the_system_is_listed_once_with_a_word() -> None:
    # Python 3.10 has no name for one that nothing sends, SIGSTKFLT.
    real_time = range(signal.SIGRTMIN, signal.SIGRTMAX + 1)
    assert {each.number for each in signals()} == {*map(int, signal.Signals), *real_time}
    assert len({each.name for each in signals()}) == len(signals())
    assert all(each.help and " " not in each.help for each in signals())
    assert [each.name for each in signals()[:3]] == ["KILL", "TERM", "INT"]


def test_each_is_found_by_name_and_number() -> None:
    for each in signals():
        assert find_signal(each.name) == find_signal(str(each.number)) == each
        assert find_signal(f"SIG{each.name}") == each


@pytest.mark.parametrize(
    ("word", "number"),
    [("kill", 9), (" sigterm ", 15), ("SIGCLD", signal.SIGCHLD), ("rtmax", signal.SIGRTMAX)],
)
def test_case_and_aliases_do_not_matter(word: str, number: int) -> None:
    assert find_signal(word).number == number


@pytest.mark.parametrize(("word", "nearest"), [("KIL", "KILL"), ("trem", "TERM"), ("usr3", "USR")])
def test_a_misspelt_one_is_suggested(word: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {nearest}"):
        find_signal(word)


@pytest.mark.parametrize("word", ["0", "65", "-9", "", "_BLOCK", "_IGN", "9.0"])
def test_what_is_no_signal_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="no signal"):
        find_signal(word)


def test_only_signals_that_are_to_end_a_process_do_so() -> None:
    assert find_signal("INT").ends
    assert not find_signal("STOP").ends
    assert not find_signal("USR1").ends


@given(st.text().filter(lambda word: word.strip().upper().removeprefix("SIG") not in VALID))
def test_any_other_word_is_one_line(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_signal(word)
    assert str(caught.value).isprintable()
