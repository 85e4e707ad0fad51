import pytest

from gpudash.tui.terminal.diff import Cell, RowDiff, erases
from gpudash.tui.terminal.sgr import SgrStyle

PLAIN = SgrStyle(("", "", ""))
GREEN = SgrStyle(("", "32", ""), PLAIN)
RED = SgrStyle(("", "31", ""), PLAIN)
GROUND = SgrStyle(("", "", "44"))
ON_GROUND = SgrStyle(("", "32", "44"), GROUND)


def cells(*pieces: tuple[str, SgrStyle]) -> list[Cell]:
    return [(char, pen.ground if char == " " else pen) for text, pen in pieces for char in text]


def sent(*rows: tuple[list[Cell], list[Cell]], erases: bool = True) -> str:
    strokes = RowDiff(erases=erases)
    for y, (old, new) in enumerate(rows):
        strokes.add(y, old, new)
    return strokes.take()


def test_one_look_is_drawn_in_one_go() -> None:
    old = cells(("100 W  100 W", PLAIN))
    new = cells(("1", GREEN), ("00 W", PLAIN), ("  ", PLAIN), ("1", GREEN), ("00 W", PLAIN))
    drawn = sent((old, new), (old, new))
    assert drawn.count("32") == 1
    assert drawn == "\x1b[0;32m\x1b[1H1\x1b[6C1\x1b[2H1\x1b[6C1\x1b[0m"


def test_next_row_below_is_reached_from_above() -> None:
    drawn = sent(*[(cells(("  1 W", GREEN)), cells(("  2 W", GREEN)))] * 2)
    assert drawn == "\x1b[0;32m\x1b[1;3H2\x1b[B\b2\x1b[0m"


def test_few_cells_between_are_drawn_again() -> None:
    old, new = cells(("a - b", GREEN)), cells(("x - y", GREEN))
    assert sent((old, new)) == "\x1b[0;32m\x1b[1Hx - y\x1b[0m"


def test_blank_takes_the_look_of_its_neighbour() -> None:
    old, new = cells(("......", RED)), cells(("a", GREEN), (" ", RED), ("b", GREEN))
    assert sent((old, new)) == "\x1b[0;32m\x1b[1Ha b\x1b[0m"


def test_rest_of_a_row_is_erased() -> None:
    old, new = cells(("x" * 40, GREEN)), cells(("ab" + " " * 38, GREEN))
    assert sent((old, new)) == "\x1b[0;32m\x1b[1Hab\x1b[K\x1b[0m"


def test_blanks_within_a_row_are_erased_and_jumped_over() -> None:
    old, new = cells(("x" * 22, GREEN)), cells(("a" + " " * 20 + "b", GREEN))
    assert sent((old, new)) == "\x1b[0;32m\x1b[1Ha\x1b[20X\x1b[20Cb\x1b[0m"


def test_terminal_that_erases_in_its_own_background_is_given_blanks() -> None:
    old, new = cells(("x" * 20, ON_GROUND)), cells((" " * 20, ON_GROUND))
    assert sent((old, new), erases=False) == f"\x1b[0;44m\x1b[1H{' ' * 20}\x1b[0m"
    assert sent((old, new)) == "\x1b[0;44m\x1b[1H\x1b[K\x1b[0m"


def test_own_background_is_erased_by_every_terminal() -> None:
    old, new = cells(("x" * 20, GREEN)), cells((" " * 20, GREEN))
    assert sent((old, new), erases=False) == "\x1b[0m\x1b[1H\x1b[K\x1b[0m"


def test_row_that_is_full_is_not_erased_behind_its_end() -> None:
    drawn = sent(([], cells(("x" * 20, GREEN))))
    assert drawn == f"\x1b[0;32m\x1b[1H{'x' * 20}\x1b[0m"


def test_cursor_is_placed_anew_behind_what_may_be_wider() -> None:
    old = cells(("é . é", GREEN))
    new = cells(("ä . ä", GREEN))
    assert sent((old, new)) == "\x1b[0;32m\x1b[1Hä . ä\x1b[0m"
    far = cells(("é....... é", GREEN)), cells(("ä....... ä", GREEN))
    assert sent(far) == "\x1b[0;32m\x1b[1Hä\x1b[1;10Hä\x1b[0m"


def test_what_may_be_wider_is_drawn_before_what_stands_behind_it() -> None:
    drawn = sent(([], cells(("a", GREEN), ("é", RED), ("b", GREEN))))
    assert drawn.index("é") < drawn.index("a") < drawn.index("b")


def test_wide_character_is_drawn_whole() -> None:
    old, new = [("漢", GREEN), ("x", GREEN)], [("漢", GREEN), ("", GREEN)]
    assert sent((old, new)) == "\x1b[0;32m\x1b[1H漢\x1b[0m"


def test_nothing_differs() -> None:
    row = cells(("a b", GREEN))
    assert sent((row, [*row])) == ""


def test_size_tells_about_what_it_takes() -> None:
    strokes = RowDiff(erases=True)
    for y in range(20):
        strokes.add(y, [], cells(("100 W  ━━━━", GREEN)))
    size = strokes.size
    assert 0.7 < size / len(strokes.take().encode()) < 1.5


@pytest.mark.parametrize("term", ["xterm-256color", "linux", "xterm-kitty", "alacritty"])
def test_terminal_that_erases_in_the_background_that_is_set(term: str) -> None:
    assert erases({"TERM": term})


@pytest.mark.parametrize("term", ["screen-256color", "tmux-256color", "vt100", ""])
def test_terminal_that_may_not(term: str) -> None:
    assert not erases({"TERM": term})
