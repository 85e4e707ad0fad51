import pytest
from rich.style import Style

from gpudash.tui.draw.chart import area, points_of
from gpudash.tui.theme import ASCII, UNICODE, Glyphs

STEPS = (Style(color="red"), Style(color="green"))


def drawn(values: list[float | None], size: tuple[int, int], glyphs: Glyphs = UNICODE) -> list[str]:
    return [
        "".join(segment.text for segment in line) for line in area(values, 100, size, STEPS, glyphs)
    ]


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
    lines = area([0, 0], 0, (1, 1), STEPS, UNICODE)
    assert lines[0][0].text == "⣀"


def test_colour_rises_with_the_height() -> None:
    top, bottom = area([100, 100], 100, (1, 2), STEPS, UNICODE)
    assert (bottom[0].style, top[0].style) == STEPS
