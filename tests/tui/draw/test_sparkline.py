from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpudash.tui.draw.bars import curve, peaks, sparkline
from gpudash.tui.theme import ASCII, UNICODE

VALUES = st.lists(st.none() | st.floats(0, 100), min_size=2, max_size=60).filter(
    lambda values: len(values) % 2 == 0
)


def test_zero_is_a_dot_and_the_unknown_is_blank() -> None:
    assert sparkline([None, None, 0, 0, 100, 50], 100, 3, UNICODE) == " ⣀⣧"


def test_ascii_shows_the_higher_of_two_values() -> None:
    assert sparkline([0, 100, 0, 0], 100, 2, ASCII).isascii()
    assert peaks([0, 100, None, 3, None, None]) == [100, 3, None]


def test_without_a_scale_it_is_blank() -> None:
    assert sparkline([1, 2], None, 4, UNICODE) == "    "


@given(VALUES, st.integers(1, 6), st.sampled_from([ASCII, UNICODE]))
def test_every_line_is_as_wide_as_asked(
    values: list[float | None], lines: int, glyphs: object
) -> None:
    assert isinstance(glyphs, type(ASCII))
    cells = len(values) // 2
    drawn = curve(values, 100.0, (cells, lines), glyphs)
    assert [len(text) for text in drawn] == [cells] * lines
