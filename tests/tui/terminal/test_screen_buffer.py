from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.tui.terminal.diff import Cell
from gpudash.tui.terminal.screen_buffer import ScreenBuffer
from tests.tui.stage import Terminal

WIDTH, HEIGHT = 24, 3
STYLES = [
    None,
    Style(color="#ff0000"),
    Style(color="#ff0000", bold=True),
    Style(color="#ff0000", dim=True, italic=True),
    Style(color="#00ff00", bgcolor="#101010"),
    Style(color="#00ff00", bgcolor="#101010", underline=True),
    Style(bgcolor="#101010", reverse=True),
]
Pieces = list[tuple[str, Style | None]]
Shown = tuple[object, ...]
"""A character, and what of its look can be seen."""

words = st.text(alphabet="ab ━╸█é漢字", max_size=12) | st.integers(1, WIDTH).map(" ".__mul__)
pieces = st.lists(st.tuples(words, st.sampled_from(STYLES)), max_size=6)


def exactly(frame: ScreenBuffer, segments: Pieces) -> list[Cell]:
    """Cells of the segments, cut or filled to the width without splitting a wide character."""
    cells = frame.cells([Segment(text, style) for text, style in segments])[:WIDTH]
    if len(cells) == WIDTH and frame.cells([Segment(cells[-1][0])])[1:]:
        cells.pop()
    return cells + frame.cells([Segment(" " * (WIDTH - len(cells)))])


def asked(segments: Pieces) -> list[Shown]:
    """What a row of a terminal shows where these segments are drawn from its beginning."""
    row = [
        seen(
            char,
            style.color and style.color.get_truecolor().hex[1:],
            style.bgcolor and style.bgcolor.get_truecolor().hex[1:],
            bool(style.bold),
            bool(style.italic),
            bool(style.underline),
            bool(style.reverse),
        )
        for text, style in ((text, style or Style()) for text, style in segments)
        for char in "".join(char + "\0" * (char in "漢字") for char in text)
    ][:WIDTH]
    if len(row) == WIDTH and row[-1][0] in ("漢", "字"):
        row.pop()
    return row + [seen(" ")] * (WIDTH - len(row))


def seen(
    char: str,
    color: str | None = None,
    ground: str | None = None,
    bold: bool = False,
    italic: bool = False,
    underline: bool = False,
    reverse: bool = False,
) -> Shown:
    if char == " " and not underline and not reverse:
        return " ", ground or "default"
    colors = color or "default", ground or "default"
    return char.strip("\0"), *colors, bold, italic, underline, reverse


def shown(terminal: Terminal) -> list[list[Shown]]:
    """What the emulated terminal shows, cell by cell."""
    return [
        [
            seen(c.data, c.fg, c.bg, c.bold, c.italics, c.underscore, c.reverse)
            for c in (terminal.screen.buffer[y][x] for x in range(WIDTH))
        ]
        for y in range(HEIGHT)
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, HEIGHT - 1), pieces), max_size=8), st.booleans())
def test_terminal_shows_what_was_asked_for(changes: list[tuple[int, Pieces]], erases: bool) -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR, erases=erases)
    terminal = Terminal(WIDTH, HEIGHT)
    wanted = [asked([]) for _ in range(HEIGHT)]
    for y, segments in changes:
        frame.change(y, exactly(frame, segments))
        terminal.feed(frame.take())
        wanted[y] = asked(segments)
        assert shown(terminal) == wanted


edits = st.lists(
    st.tuples(st.integers(0, WIDTH - 1), st.sampled_from("  a━"), st.sampled_from(STYLES)),
    max_size=5,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(edits, max_size=8), st.booleans())
def test_few_changed_cells_leave_the_others_as_they_were(
    steps: list[list[tuple[int, str, Style | None]]], erases: bool
) -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR, erases=erases)
    terminal = Terminal(WIDTH, HEIGHT)
    row: Pieces = [(" ", STYLES[1])] * WIDTH
    for step in steps:
        for x, char, style in step:
            row[x] = char, style
        frame.change(0, exactly(frame, row))
        terminal.feed(frame.take())
        assert shown(terminal)[0] == asked(row)


POOL = [
    Segment(text, style)
    for text in ("ab", "ba", "━╸█", "a", "é漢", "字é", "é", "\u0301b", "   ", "long text of a row")
    for style in STYLES[1:4]
]
lines_of_pool = st.lists(st.sampled_from(POOL), max_size=6)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), lines_of_pool, st.booleans()), max_size=12),
)
def test_lines_of_which_parts_are_as_before_add_up_too(
    changes: list[tuple[bool, list[Segment], bool]],
) -> None:
    frame, terminal = ScreenBuffer(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
    fresh, other = ScreenBuffer(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
    blank = STYLES[1] or Style()
    for is_drawn, line, is_sent in changes:
        fresh.change(0, fresh.fitted(line, WIDTH, blank))
        if is_drawn:
            frame.draw(0, (0, WIDTH), line, blank)
        else:
            frame.change(0, frame.fitted(line, WIDTH, blank))
        if is_sent:
            terminal.feed(frame.take())
    terminal.feed(frame.take())
    other.feed(fresh.take())
    assert shown(terminal) == shown(other)


steps = st.one_of(
    st.tuples(st.integers(0, HEIGHT - 1), pieces),
    st.tuples(st.just("take"), st.integers(1, 60)),
    st.tuples(st.just("turn"), st.integers(0, 3)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=20), st.booleans())
def test_pieces_add_up_to_what_was_asked_for_last(
    done: list[tuple[Any, Any]], erases: bool
) -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR, erases=erases)
    terminal = Terminal(WIDTH, HEIGHT)
    wanted = [asked([]) for _ in range(HEIGHT)]
    for what, value in done:
        if what == "take":
            terminal.feed(frame.take(value))
        elif what == "turn":
            frame.turn = value
        else:
            frame.change(what, exactly(frame, value))
            wanted[what] = asked(value)
    while frame.pending:
        terminal.feed(frame.take(1))
    assert shown(terminal) == wanted


def ask(frame: ScreenBuffer, y: int, text: str) -> None:
    frame.change(y, frame.cells([Segment(f"{text:<{WIDTH}}")]))


def test_piece_ends_with_the_row_that_fills_it() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    for y in range(3):
        ask(frame, y, "x" * WIDTH)
    assert frame.take(WIDTH + 20).count("x" * WIDTH) == 2
    assert frame.pending
    assert frame.take(WIDTH).count("x" * WIDTH) == 1
    assert not frame.pending


def test_row_is_sent_as_it_is_wanted_when_its_turn_comes() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    ask(frame, 0, "first")
    ask(frame, 1, "old")
    assert "first" in frame.take(1)
    ask(frame, 1, "new")
    rest = frame.take()
    assert "new" in rest
    assert "old" not in rest


def test_no_row_waits_for_others_that_change_ever_again() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    for y in range(3):
        ask(frame, y, "old")
    sent = ""
    for number in range(3):
        ask(frame, 0, f"new {number}")
        ask(frame, 2, f"new {number}")
        sent += frame.take(1)
    assert "old" in sent


def test_what_was_asked_for_last_is_sent_first() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    for y in range(3):
        ask(frame, y, "old")
    frame.turn = 1
    ask(frame, 1, "asked")
    frame.turn = 2
    ask(frame, 2, "asked last")
    frame.turn = 0
    ask(frame, 0, "new")
    assert "asked last" in frame.take(1)
    assert "asked" in frame.take(1)
    assert "new" in frame.take(1)


def test_rows_of_one_turn_are_sent_in_the_order_of_their_changes() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    ask(frame, 2, "old")
    frame.turn = 1
    for y in range(3):
        ask(frame, y, f"row {y}")
    assert [frame.take(1).count(f"row {y}") for y in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("char", ["☔", "☰", "⚊", "◾", "漢"])
def test_character_that_is_wide_somewhere_takes_two_cells(char: str) -> None:
    assert [text for text, _ in ScreenBuffer(ColorSystem.TRUECOLOR).cells([Segment(char)])] == [
        char,
        "",
    ]


def test_equal_row_sends_nothing() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    frame.change(0, frame.cells([Segment("42%", STYLES[1])]))
    assert frame.take()
    frame.change(0, frame.cells([Segment("42%", Style(color="#ff0000"))]))
    assert frame.take() == ""


def test_only_the_changed_cells_are_sent() -> None:
    frame = ScreenBuffer(ColorSystem.TRUECOLOR)
    frame.change(1, frame.cells([Segment("utilization of the device  41%")]))
    frame.take()
    frame.change(1, frame.cells([Segment("utilization of the device  42%")]))
    assert frame.take() == "\x1b[0m\x1b[2;29H2\x1b[0m"


@pytest.mark.parametrize(
    ("system", "code"),
    [(ColorSystem.TRUECOLOR, "38;2;255;0;0"), (ColorSystem.EIGHT_BIT, "38;5;196")],
)
def test_colours_are_those_the_terminal_has(system: ColorSystem, code: str) -> None:
    frame = ScreenBuffer(system)
    frame.change(0, frame.cells([Segment("x", Style(color="#ff0000"))]))
    assert code in frame.take()
