import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.text import LIMIT, bound, bound_all, clean, clean_bytes, did_you_mean, wire_size

ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
UNSEEN = "\u034f\u115f\u1160\u17b4\u180b\u3164\ufe00\ufe0e\ufe0f\uffa0\U000e0100\U000e01ef"
"""Marks and letters that no terminal shows."""


@given(ANYTHING)
def test_nothing_is_left_that_a_terminal_obeys_or_hides(text: str) -> None:
    cleaned = clean(text)
    assert not HIDDEN & {unicodedata.category(char) for char in cleaned}
    assert cleaned.splitlines() in ([], [cleaned])


@given(st.text(st.sampled_from(f"{UNSEEN}aé❤\u0301"), max_size=20))
def test_nothing_is_left_that_nobody_sees(text: str) -> None:
    assert not set(UNSEEN) & set(clean(text))


@given(st.binary(max_size=60))
def test_any_bytes_become_text(raw: bytes) -> None:
    cleaned = clean_bytes(raw)
    assert not HIDDEN & {unicodedata.category(char) for char in cleaned}


@given(ANYTHING)
def test_cleaning_again_changes_nothing(text: str) -> None:
    once = clean(text)
    assert clean(once) == once


@given(ANYTHING, st.integers(0, 50))
def test_length_is_bounded_by_what_escapes_may_take(text: str, limit: int) -> None:
    longest_escape = len("\\U0010ffff")
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit * longest_escape + 1
    assert cleaned.endswith("…") or len(text) <= limit


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=60))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("one\ntwo\rthree\tfour", r"one\ntwo\rthree four"),
        ("\u202eexe.gnp", r"\u202eexe.gnp"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("c1 \x9b31m", r"c1 \x9b31m"),
        ("caf\udce9", r"caf\xe9"),
        ("\U000e0041tag", r"\U000e0041tag"),
        ("❤\ufe0f", r"❤\ufe0f"),
        ("\u3164", r"\u3164"),
        ("a\U000e0100", r"a\U000e0100"),
        ("日本語 naïve 🦆", "日本語 naïve 🦆"),
        ("no\u00a0break", "no break"),
        ("z" + "\u0301" * 9, "z" + "\u0301" * 2),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_shows_what_was_hidden(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_undecodable_bytes_are_visible() -> None:
    assert clean_bytes(b"caf\xe9 \xff") == r"caf\xe9 \xff"


def test_long_text_ends_in_an_ellipsis() -> None:
    assert clean("x" * 100_000) == "x" * LIMIT + "…"
    assert clean("x" * LIMIT) == "x" * LIMIT
    assert clean("\x1b" + "x" * 100_000, limit=3) == r"\x1bxx…"


def test_a_mistyped_word_is_answered_with_the_closest_names() -> None:
    assert did_you_mean("--JSNO", ["--json", "--csv"]) == "did you mean --json?"
    assert did_you_mean("fan.speeds", ["fan.speed", "fan.speed2", "name"], count=2) == (
        "did you mean fan.speed or fan.speed2?"
    )
    assert did_you_mean("--sort", ["--format"], cutoff=0.7) == ""


@given(ANYTHING, st.integers(3, 60))
def test_a_bounded_text_takes_no_more_of_a_document(text: str, limit: int) -> None:
    cleaned = clean(text)
    bounded = bound(cleaned, limit)
    assert wire_size(bounded) == len(msgspec.json.encode(bounded)) - 2 <= limit
    assert bounded == cleaned or (bounded[-1] == "…" and cleaned.startswith(bounded[:-1]))
    assert clean(bounded) == bounded
    if wire_size(cleaned) <= limit:
        assert bounded == cleaned


@given(st.lists(ANYTHING, max_size=12), st.integers(6, 200))
def test_bounded_texts_take_no_more_together(texts: list[str], limit: int) -> None:
    cleaned = tuple(map(clean, texts))
    bounded = bound_all(cleaned, limit)
    assert sum(len(msgspec.json.encode(text)) + 1 for text in bounded) <= limit
    if bounded != cleaned:
        assert bounded[-1].endswith("…")
        assert bounded[:-1] == cleaned[: len(bounded) - 1]


def test_texts_that_fit_are_kept_as_they_are() -> None:
    words = clean("python"), clean("train.py")
    assert bound_all(words, 20) is words
    assert bound_all((*words, clean("--name=x")), 26) == (*words, "…")
    assert bound(clean('"' * 10), 13) == '"' * 5 + "…"
