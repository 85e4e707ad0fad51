import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.tui.draw.line import cells_of, fit_parts, fitted, highlighted, joined, spread
from gpudash.tui.theme import load_theme

RED, BLUE, BLANK = Style(color="red"), Style(color="blue"), Style()
segments = st.lists(
    st.builds(Segment, st.text("ab 漢é", max_size=8), st.sampled_from([RED, BLUE])), max_size=6
)
rooms = st.integers(0, 30)


@given(segments, rooms)
def test_fitted_line_has_exactly_the_cells_asked_for(line: list[Segment], cells: int) -> None:
    assert cells_of(fitted(line, cells, BLANK)) == cells


@given(segments, segments, rooms)
def test_spread_line_has_exactly_the_cells_asked_for(
    left: list[Segment], right: list[Segment], cells: int
) -> None:
    assert cells_of(spread(left, right, cells, BLANK)) == cells


@given(segments)
def test_joining_keeps_the_text(line: list[Segment]) -> None:
    assert "".join(s.text for s in joined(line)) == "".join(s.text for s in line)


@pytest.mark.parametrize(
    ("cells", "text"), [(0, ""), (2, "…"), (3, "aa…"), (4, "aa…"), (5, "aabb…"), (8, "aabbcccc")]
)
def test_parts_are_whole_or_left_out_for_a_mark(cells: int, text: str) -> None:
    parts = [[Segment("a"), Segment("a")], [Segment("bb")], [Segment("cccc")]]
    line = fit_parts(parts, cells, Segment("…"))
    assert "".join(each.text for each in line) == text


def test_right_end_wins() -> None:
    line = spread([Segment("a long left side", RED)], [Segment("end", BLUE)], 8, BLANK)
    assert "".join(segment.text for segment in line) == "a lonend"


@pytest.mark.parametrize("focused", [True, False])
@pytest.mark.parametrize("no_color", [True, False])
@pytest.mark.parametrize("colors", [ColorSystem.STANDARD, ColorSystem.TRUECOLOR])
def test_row_under_the_cursor_is_distinguished_in_any_colours(
    colors: ColorSystem, no_color: bool, focused: bool
) -> None:
    theme = load_theme(no_color=no_color, color_system=colors)
    ((text, style, _control),) = highlighted(
        [Segment("word", theme.base)], theme, 6, focused=focused
    )
    assert text == "word  "
    assert style != theme.base


def test_nothing_on_the_selected_row_has_its_own_colour_in_sixteen() -> None:
    theme = load_theme(no_color=False, color_system=ColorSystem.STANDARD)
    pieces = [Segment("a", style) for style in (theme.base, theme.warn, theme.dim, *theme.memory)]
    assert len({segment.style for segment in highlighted(pieces, theme, len(pieces))}) == 1
