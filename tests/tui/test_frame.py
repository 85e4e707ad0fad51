import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.tui.frame import Frame
from tests.tui.stage import Terminal

WIDTH, HEIGHT = 24, 3
STYLES = [
    None,
    Style(color="#ff0000"),
    Style(color="#ff0000", bold=True),
    Style(color="#00ff00", bgcolor="#101010"),
    Style(bgcolor="#101010", reverse=True),
]
words = st.text(alphabet="ab ━╸█é漢字", max_size=12)
pieces = st.lists(st.tuples(words, st.sampled_from(STYLES)), max_size=6)


def exactly(frame: Frame, segments: list[tuple[str, Style | None]]) -> list[tuple[str, object]]:
    """Cells of the segments, cut or filled to the width without splitting a wide character."""
    cells = frame.cells([Segment(text, style) for text, style in segments])[:WIDTH]
    if len(cells) == WIDTH and frame.cells([Segment(cells[-1][0])])[1:]:
        cells.pop()
    return cells + frame.cells([Segment(" " * (WIDTH - len(cells)))])  # type: ignore[return-value]


def shown(terminal: Terminal) -> list[list[tuple[str, object, object, object, object]]]:
    """What the emulated terminal shows, cell by cell, wide characters once."""
    return [
        [
            (cell.data, cell.fg, cell.bg, cell.bold, cell.reverse)
            for cell in (terminal.screen.buffer[y][x] for x in range(WIDTH))
        ]
        for y in range(HEIGHT)
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, HEIGHT - 1), pieces), max_size=8))
def test_differences_add_up_to_what_was_asked_for(
    changes: list[tuple[int, list[tuple[str, Style | None]]]],
) -> None:
    frame, terminal = Frame(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
    last: dict[int, list[tuple[str, Style | None]]] = {}
    for y, segments in changes:
        frame.change(y, exactly(frame, segments))  # type: ignore[arg-type]
        terminal.feed(frame.take())
        last[y] = segments
    fresh, other = Frame(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
    for y, segments in last.items():
        fresh.change(y, exactly(fresh, segments))  # type: ignore[arg-type]
    other.feed(fresh.take())
    assert shown(terminal) == shown(other)


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
    frame, terminal = Frame(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
    fresh, other = Frame(ColorSystem.TRUECOLOR), Terminal(WIDTH, HEIGHT)
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


def test_equal_row_sends_nothing() -> None:
    frame = Frame(ColorSystem.TRUECOLOR)
    frame.change(0, frame.cells([Segment("42%", STYLES[1])]))
    assert frame.take()
    frame.change(0, frame.cells([Segment("42%", Style(color="#ff0000"))]))
    assert frame.take() == ""


def test_only_the_changed_cells_are_sent() -> None:
    frame = Frame(ColorSystem.TRUECOLOR)
    frame.change(1, frame.cells([Segment("utilization of the device  41%")]))
    frame.take()
    frame.change(1, frame.cells([Segment("utilization of the device  42%")]))
    assert frame.take() == "\x1b[2;29H\x1b[0m2\x1b[0m"


@pytest.mark.parametrize(
    ("system", "code"),
    [(ColorSystem.TRUECOLOR, "38;2;255;0;0"), (ColorSystem.EIGHT_BIT, "38;5;196")],
)
def test_colours_are_those_the_terminal_has(system: ColorSystem, code: str) -> None:
    frame = Frame(system)
    frame.change(0, frame.cells([Segment("x", Style(color="#ff0000"))]))
    assert code in frame.take()
