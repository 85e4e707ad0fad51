import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from gpudash.tui.draw.bars import area, bar, height_style, points_of, sparkline
from gpudash.tui.draw.line import cells_of
from gpudash.tui.theme import ASCII, UNICODE, Glyphs

STEPS = tuple(Style(color=color) for color in ("red", "green", "blue"))
TRACK = Style(dim=True)
shares = st.floats(min_value=-1, max_value=2, allow_nan=False)
widths = st.integers(1, 60)


def text(share: float | None, width: int) -> str:
    return "".join(segment.text for segment in bar(share, width, STEPS, TRACK))


@given(st.none() | shares, widths)
def test_bar_is_as_wide_as_asked(share: float | None, width: int) -> None:
    assert cells_of(bar(share, width, STEPS, TRACK)) == width


@given(shares, shares, widths)
def test_more_is_never_shorter(one: float, other: float, width: int) -> None:
    def lit(share: float) -> float:
        drawn = text(share, width)
        return drawn.count("━") + drawn.count("╸") / 2

    low, high = sorted((one, other))
    assert lit(low) <= lit(high)


@given(st.floats(min_value=0.0001, max_value=0.9999), widths)
def test_only_zero_looks_empty_and_only_one_looks_full(share: float, width: int) -> None:
    assert text(share, width) not in ("─" * width, "━" * width)


def test_unknown_share_is_blank_and_not_zero() -> None:
    assert text(None, 4) == "    "
    assert text(0, 4) == "────"
    assert text(1, 4) == "━━━━"
    assert text(0.5, 5) == "━━╸──"


def test_zero_is_a_dot_and_the_unknown_is_blank() -> None:
    assert sparkline([None, None, 0, 0, 100, 50], 100, 3, UNICODE) == " ⣀⣧"
    assert sparkline([0, 100], 100, 2, ASCII).isascii()


def test_without_a_scale_it_is_blank() -> None:
    assert sparkline([1, 2], None, 4, UNICODE) == "    "


def drawn(values: list[float | None], size: tuple[int, int], glyphs: Glyphs = UNICODE) -> list[str]:
    return area(values, 100, size, glyphs)


def test_full_empty_and_unknown_points_look_different() -> None:
    assert drawn([100, 100, 0, 0, None, None], (3, 2)) == ["⣿  ", "⣿⣀ "]


def test_two_points_stand_in_one_cell() -> None:
    assert drawn([25, 100], (1, 1)) == ["⣸"]


def test_ascii_has_a_column_for_each_point() -> None:
    assert drawn([100, 50, 0, None], (4, 1), ASCII) == ["#-. "]
    assert "".join(drawn([100, 50, 3], (3, 3), ASCII)).isascii()


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_newest_points_stand_at_the_right_and_older_ones_fall_out(glyphs: Glyphs) -> None:
    count = points_of(4, glyphs)
    few = drawn([100.0], (4, 1), glyphs)[0]
    assert few[:3] == "   "
    assert few[3] != " "
    assert drawn([0.0] * 50 + [100.0] * count, (4, 1), glyphs) == drawn(
        [100.0] * count, (4, 1), glyphs
    )


def test_values_beyond_the_top_stay_in_the_picture() -> None:
    assert drawn([500, 500], (1, 2)) == drawn([100, 100], (1, 2))


def test_a_top_of_zero_draws_a_line_at_the_bottom() -> None:
    assert area([0, 0], 0, (1, 1), UNICODE) == ["⣀"]


def test_colour_rises_with_the_height() -> None:
    assert [height_style(STEPS, line, 3) for line in (2, 1, 0)] == list(STEPS)
