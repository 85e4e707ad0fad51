import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.text import clean, cut, fold, pad, width, wrap

TEXTS = st.text(max_size=60).map(clean)


@pytest.mark.parametrize(
    ("text", "cells"),
    [("", 0), ("python", 6), ("日本", 4), ("é", 1), ("e\u0301", 1), ("█▏", 2), ("\uff21", 2)],
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize("char", ["☰", "䷀", "\U0001f1e9", "\U0001d360"])
def test_width_is_the_most_that_a_terminal_may_take(char: str) -> None:
    assert width(char) == 2


def test_cut_leaves_text_that_fits() -> None:
    assert cut("日本", 4) == "日本"


def test_cut_never_splits_a_wide_character() -> None:
    assert cut("日本語", 4) == "日…"


def test_cut_keeps_the_marks_of_the_last_character() -> None:
    assert cut("ae\u0301bc", 3) == "ae\u0301…"


def test_cut_leaves_the_mark_out_where_it_does_not_fit() -> None:
    assert cut("python", 2, mark="...") == "py"


@given(TEXTS, st.integers(0, 40), st.sampled_from(["<", ">"]))
def test_pad_fills_the_cells_exactly(text: str, cells: int, align: str) -> None:
    assert width(pad(text, cells, align)) == cells


def test_pad_aligns_numbers_to_the_right() -> None:
    assert [pad(text, 4, ">") for text in ("7%", "100%")] == ["  7%", "100%"]


@given(TEXTS, st.integers(0, 40), st.integers(1, 4))
def test_wrap_stays_within_its_box(text: str, cells: int, lines: int) -> None:
    wrapped = wrap(text, cells, lines=lines)
    assert 1 <= len(wrapped) <= lines
    assert all(width(line) <= cells for line in wrapped)


def test_wrap_breaks_between_words() -> None:
    assert wrap("reset it or reboot the host", 12) == ["reset it or", "reboot the", "host"]


def test_wrap_marks_what_it_leaves_out() -> None:
    assert wrap("reset it or reboot the host", 12, lines=2) == ["reset it or", "reboot the …"]


def test_fold_breaks_at_blanks_and_within_long_words() -> None:
    assert fold("to be or not", 5) == ["to be", "or", "not"]
    assert fold("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]
    assert fold("", 5) == [""]


@pytest.mark.parametrize(
    "measured",
    ["700 W", "87 °C", "96 %", "69.7 GiB", "1.5 MiB/s", "20 s", "5 min", "8 h", "3 days"],
)
def test_a_number_stays_with_its_unit(measured: str) -> None:
    text = f"at the limit of {measured}; now"
    for cells in range(len(measured) + 1, len(text)):
        assert any(measured in line for line in fold(text, cells))
        assert any(measured in line for line in wrap(text, cells, lines=9))


@given(TEXTS, st.integers(2, 30))
def test_fold_loses_nothing_but_blanks_and_fits(text: str, cells: int) -> None:
    lines = fold(text, cells)
    assert all(width(line) <= cells for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
