import pytest
from rich.color import ColorSystem

from gpudash.analysis.filter.terms import TERMS
from gpudash.tui.dialogs.text import help_lines
from gpudash.tui.draw.line import cells_of
from gpudash.tui.keymap import KEYS
from gpudash.tui.theme import load_theme

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)


@pytest.mark.parametrize("cells", [60, 119, 120, 200])
def test_everything_is_reported_in_full(cells: int) -> None:
    lines = help_lines(KEYS, THEME, cells)
    halves = ["", ""]
    for line in lines:
        text = "".join(segment.text for segment in line)
        halves[0] += " " + text[:60]
        halves[1] += " " + text[60:]
    told = [" ".join(half.split()) for half in halves]
    for text in (*(key.help for key in KEYS), *(term.help for term in TERMS)):
        assert any(text in half for half in told)
    assert all(cells_of(line) <= max(60, cells) for line in lines)


@pytest.mark.parametrize("cells", [32, 40, 59])
def test_narrow_terminals_see_every_word(cells: int) -> None:
    lines = help_lines(KEYS, THEME, cells)
    assert all(cells_of(line) <= cells for line in lines)
    words = {word for line in lines for segment in line for word in segment.text.split()}
    assert {word for key in KEYS for word in key.help.split() if len(word) < 9} <= words


def test_two_columns_stand_beside_each_other_within_the_edge_of_120_cells() -> None:
    one, two = help_lines(KEYS, THEME, 117), help_lines(KEYS, THEME, 118)
    assert len(two) < 0.6 * len(one)
