from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.filter.words import quoted, split
from gpudash.model.errors import FilterError


def parts(text: str) -> list[tuple[bool, str, str, str]]:
    return [(word.negated, word.name, word.sign, word.value) for word in split(text)]


def test_a_word_has_a_name_a_sign_and_a_value() -> None:
    assert parts(" user:alice\tmem>=10G ") == [
        (False, "user", ":", "alice"),
        (False, "mem", ">=", "10G"),
    ]


@pytest.mark.parametrize("sign", ["-", "!"])
def test_a_word_is_negated_by_either_sign(sign: str) -> None:
    assert parts(f"{sign}root {sign}sm<5") == [(True, "", "", "root"), (True, "sm", "<", "5")]


def test_a_long_option_is_no_negation() -> None:
    assert [(word.negated, word.plain) for word in split("--batch --lr=0.1 !--batch")] == [
        (False, "--batch"),
        (False, "--lr=0.1"),
        (True, "--batch"),
    ]


def test_two_equal_signs_are_one() -> None:
    assert parts("sm==5") == [(False, "sm", "=", "5")]


def test_quotes_keep_spaces_and_double_for_themselves() -> None:
    assert parts('cmd:"a b" \'c "d"\' "say ""hi""" it\'s') == [
        (False, "cmd", ":", "a b"),
        (False, "", "", 'c "d"'),
        (False, "", "", 'say "hi"'),
        (False, "", "", "it's"),
    ]


@pytest.mark.parametrize("text", ['alice "train', "user:'", 'a "b""'])
def test_an_open_quote_is_reported_with_its_position(text: str) -> None:
    with pytest.raises(FilterError, match="is not closed: end it with") as caught:
        list(split(text))
    assert text[caught.value.start] in "\"'"
    assert caught.value.end == len(text)


@pytest.mark.parametrize("text", ["-", "alice !", "- alice"])
def test_a_negation_of_nothing_is_reported(text: str) -> None:
    with pytest.raises(FilterError, match="negates nothing"):
        list(split(text))


@given(st.text(max_size=300))
def test_a_quoted_text_is_one_plain_word(text: str) -> None:
    [word] = split(f"  {quoted(text)} ")
    assert (word.sign, word.plain, word.negated) == ("", text, False)
    [other] = split(f"-{quoted(text)}")
    assert (other.plain, other.negated) == (text, True)


@given(st.text(max_size=300))
def test_words_cover_everything_but_spaces(text: str) -> None:
    ends = [0]
    with suppress(FilterError):
        for word in split(text):
            assert text[ends[-1] : word.start].strip() == ""
            assert word.end > word.start
            ends.append(word.end)
        assert text[ends[-1] :].strip() == ""
