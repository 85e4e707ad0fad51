"""The cell model against an emulated terminal, fed by the stock renderer beside it."""

import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.tui.cells import ScreenBuffer, change, erases, ground_of, moves, sgr_of
from tests.tui.stage import Terminal

WIDTH, HEIGHT = 30, 4
STYLES = [
    None,
    Style(),
    Style(color="#ff0000"),
    Style(color="#ff0000", bold=True),
    Style(color="#ff0000", dim=True, italic=True),
    Style(color="#00ff00", bgcolor="#000080"),
    Style(color="#00ff00", bgcolor="#101010", underline=True),
    Style(bgcolor="#101010"),
    Style(bold=True, bgcolor="#101010"),
    Style(bgcolor="#101010", reverse=True),
    Style(color="color(200)", strike=True),
    Style(color="bright_red", bgcolor="blue"),
]
SYSTEMS = [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD]
Row = list[Segment]

words = st.text(alphabet="ab ━╸█é漢字", max_size=12) | st.integers(1, WIDTH).map(" ".__mul__)
pieces = st.lists(st.tuples(words, st.sampled_from(STYLES)), max_size=6)


def row_of(parts: list[tuple[str, Style | None]]) -> Row:
    """Segments of exactly the width, without half of a wide character."""
    room, row = WIDTH, []
    for text, style in parts:
        fitting = ""
        for char in text:
            cells = 1 + (char in "漢字")
            if cells > room:
                break
            room -= cells
            fitting += char
        row.append(Segment(fitting, style))
    return [*row, Segment(" " * room, None)]


def stock(y: int, row: Row, system: ColorSystem, x: int = 0) -> str:
    """What Textual's compositor sends for a row."""
    drawn = (style.render(text, color_system=system) if style else text for text, style, _ in row)
    return f"\x1b[{y + 1};{x + 1}H" + "".join(drawn)


def shown(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """Each cell's character, and what of its style can be seen."""
    return [
        [
            (c.data, c.bg, c.reverse, c.underscore, c.strikethrough)
            + ((c.fg, c.bold, c.italics) if _is_visible(c) else ())
            for c in (terminal.screen.buffer[y][x] for x in range(WIDTH))
        ]
        for y in range(HEIGHT)
    ]


def _is_visible(cell: object) -> bool:
    return bool(
        cell.data.strip()  # type: ignore[attr-defined]
        or cell.underscore  # type: ignore[attr-defined]
        or cell.reverse  # type: ignore[attr-defined]
        or cell.strikethrough  # type: ignore[attr-defined]
    )


class Pair:
    """A terminal that is sent the differences, and one that the stock renderer draws on."""

    def __init__(self, system: ColorSystem, erases: bool) -> None:
        self.system = system
        self.buffer = ScreenBuffer(system, erases=erases, moves=True)
        self.buffer.width = WIDTH
        self.ours, self.theirs = Terminal(WIDTH, HEIGHT), Terminal(WIDTH, HEIGHT)

    def draw(self, y: int, row: Row) -> None:
        self.buffer.draw(y, 0, WIDTH, row, Style())
        self.theirs.feed(stock(y, row, self.system))

    def compose(self, rows: dict[int, Row]) -> None:
        """Draw rows as Textual does."""
        picture = "\n".join(stock(y, row, self.system) for y, row in sorted(rows.items()))
        assert self.buffer.feed(picture + "\x1b[1;1H")
        self.theirs.feed(picture)

    def check(self) -> None:
        """Send what differs; both must show the same."""
        self.ours.feed(self.buffer.take())
        assert shown(self.ours) == shown(self.theirs)
        assert self.buffer.take() == ""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, HEIGHT - 1), pieces, st.booleans()), max_size=8),
    st.sampled_from(SYSTEMS),
    st.booleans(),
)
def test_terminal_shows_what_the_stock_renderer_draws(
    changes: list[tuple[int, list[tuple[str, Style | None]], bool]],
    system: ColorSystem,
    erases: bool,
) -> None:
    pair = Pair(system, erases)
    for y, parts, is_composed in changes:
        row = row_of(parts)
        if is_composed:
            pair.compose({y: row})
        else:
            pair.draw(y, row)
        pair.check()


def random_row(rng: random.Random) -> Row:
    chars = ["a", "b", " ", " ", " ", "─", "█", "⣿", "漢", "é"]
    parts: list[tuple[str, Style | None]] = []
    for _ in range(rng.randint(1, 6)):
        text = "".join(rng.choices(chars, k=rng.randint(1, 12)))
        parts.append((rng.choice([text, " " * len(text)]), rng.choice(STYLES)))
    return row_of(parts)


def varied(row: Row, rng: random.Random) -> Row:
    """The same row with one part in another style or with other letters."""
    index = rng.randrange(len(row))
    text, style, _ = row[index]
    if rng.random() < 0.5:
        return [*row[:index], Segment(text, rng.choice(STYLES)), *row[index + 1 :]]
    text = "".join(char if char == "漢" else rng.choice("ab ") for char in text)
    return [*row[:index], Segment(text, style), *row[index + 1 :]]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("screens", [20, pytest.param(350, marks=pytest.mark.sweep)])
def test_random_screens_have_no_wrong_cell(system: ColorSystem, screens: int) -> None:
    rng = random.Random(screens)
    pair = Pair(system, erases=True)
    rows = {y: random_row(rng) for y in range(HEIGHT)}
    for _ in range(screens):
        chosen = rng.sample(range(HEIGHT), rng.randint(1, HEIGHT))
        for y in chosen:
            rows[y] = varied(rows[y], rng) if rng.random() < 0.7 else random_row(rng)
        if rng.random() < 0.3:
            pair.compose({y: rows[y] for y in chosen})
        else:
            for y in chosen:
                pair.draw(y, rows[y])
        pair.check()


curves = st.lists(st.sampled_from("  ⣿⣤a"), min_size=18, max_size=18)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(curves, min_size=HEIGHT, max_size=HEIGHT),
    st.lists(st.text(alphabet="⣿⣤ b", max_size=3), min_size=1, max_size=6),
    st.sampled_from(STYLES),
    st.sampled_from(["", "  7%", " 漢字", "漢字漢字"]),
)
def test_what_moves_left_leaves_what_is_beside_it(
    past: list[list[str]], news: list[str], style: Style | None, tail: str
) -> None:
    pair = Pair(ColorSystem.TRUECOLOR, erases=True)
    for new in ["", *news]:
        for y, curve in enumerate(past):
            curve[:] = [*curve, *new][len(new) :]
            pair.draw(y, row_of([("gpu ", STYLES[3]), ("".join(curve), style), (tail, STYLES[2])]))
        pair.check()


class Shown:
    """Sends single rows and keeps what was sent last."""

    def __init__(self, *, erases: bool = True, width: int = 40, moves: bool = True) -> None:
        self.buffer = ScreenBuffer(ColorSystem.STANDARD, erases=erases, moves=moves)
        self.buffer.width = width

    def sent(self, *rows: str) -> str:
        for y, row in enumerate(rows):
            parts = [part.partition(":") for part in row.split("|")]
            segments = [Segment(text, Style.parse(style)) for style, _, text in parts]
            self.buffer.put(y, 0, self.buffer.cells(segments))
        return self.buffer.take()


def test_one_style_is_drawn_in_one_go() -> None:
    screen = Shown()
    screen.sent(*[":100 W  100 W"] * 2)
    assert screen.sent(*["green:1|:00 W  |green:1|:00 W"] * 2) == (
        "\x1b[32m\x1b[1H1\x1b[6C1\x1b[2H1\x1b[6C1\x1b[m"
    )


def test_a_chart_that_moves_left_is_moved_by_the_terminal() -> None:
    screen = Shown()
    screen.sent(*[":0 |green:abcdefghijkl|:  7%"] * 2)
    assert screen.sent(*[":0 |green:bcdefghijklm|:  7%"] * 2) == (
        "\x1b[1;3H\x1b[P\x1b[B\x1b[P\x1b[1;14H\x1b[@\x1b[B\x1b[@\x1b[32m\x1b[1;14Hm\x1b[B\bm\x1b[m"
    )


def test_a_chart_is_drawn_again_where_it_cannot_be_moved() -> None:
    for is_able, tail in ((False, "7%"), (True, "漢")):
        screen = Shown(moves=is_able)
        screen.sent(f":0 |:abcdefghijkl|:  {tail}")
        assert screen.sent(f":0 |:bcdefghijklm|:  {tail}") == "\x1b[1;3Hbcdefghijklm"


def test_a_row_of_which_much_is_new_anyway_is_not_moved() -> None:
    screen = Shown()
    screen.sent(":aaaaabaaaaabaaaaab")
    assert "\x1b[P" not in screen.sent(":aaaabaaaaabaaaaabc")


@pytest.mark.parametrize(
    ("term", "able"),
    [
        *(("xterm-256color", True), ("tmux-256color", True), ("screen", True), ("linux", True)),
        *(("vt220", True), ("vt102", False), ("vt100", False), ("rxvt", False), ("", False)),
    ],
)
def test_characters_are_moved_where_the_terminal_can(term: str, able: bool) -> None:
    assert moves({"TERM": term}) is able


def test_next_row_below_is_reached_from_above() -> None:
    screen = Shown()
    screen.sent(*["green:  1 W"] * 2)
    assert screen.sent(*["green:  2 W"] * 2) == "\x1b[32m\x1b[1;3H2\x1b[B\b2\x1b[m"


def test_few_cells_between_are_drawn_again() -> None:
    screen = Shown()
    screen.sent("green:a - b")
    assert screen.sent("green:x - y") == "\x1b[32m\x1b[1Hx - y\x1b[m"


def test_blank_takes_the_style_of_its_neighbour() -> None:
    screen = Shown()
    screen.sent("red:......")
    assert screen.sent("green:a|red: |green:b|red:...") == "\x1b[32m\x1b[1Ha b\x1b[m"


def test_many_blanks_at_the_end_are_erased() -> None:
    screen = Shown()
    screen.sent("green:" + "x" * 40)
    assert screen.sent("green:ab|: " + " " * 37) == "\x1b[32m\x1b[1Hab\x1b[K\x1b[m"


def test_a_terminal_that_erases_in_its_own_background_is_given_blanks() -> None:
    for erases_, drawn in ((False, " " * 40), (True, "\x1b[K")):
        screen = Shown(erases=erases_)
        screen.sent("green on blue:" + "x" * 40)
        assert screen.sent("on blue:" + " " * 40) == f"\x1b[44m\x1b[1H{drawn}\x1b[m"


def test_a_full_row_is_not_erased_behind_its_end() -> None:
    assert Shown().sent("green:" + "x" * 40) == f"\x1b[32m\x1b[1H{'x' * 40}\x1b[m"


def test_the_cursor_is_placed_behind_what_may_be_wider() -> None:
    screen = Shown()
    screen.sent("green:é....... é")
    assert screen.sent("green:ä....... ä") == "\x1b[32m\x1b[1Hä\x1b[1;10Hä\x1b[m"


def test_what_may_be_wider_is_drawn_before_what_stands_behind_it() -> None:
    drawn = Shown().sent("green:a|red:é|green:b")
    assert drawn.index("é") < drawn.index("a") < drawn.index("b")


def test_a_wide_character_is_drawn_whole_and_covered_by_half_is_blank() -> None:
    pair = Pair(ColorSystem.TRUECOLOR, erases=True)
    pair.draw(0, row_of([("a漢b", None)]))
    pair.check()
    pair.buffer.put(0, 2, pair.buffer.cells([Segment("x")]))
    pair.ours.feed(pair.buffer.take())
    assert pair.ours.lines[0].startswith("a xb")


@pytest.mark.parametrize(
    ("text", "shown_as"), [("abcdef", "abcd"), ("abc漢", "abc "), ("a", "a   "), ("漢漢", "漢漢")]
)
def test_a_line_is_cut_off_or_filled_up(text: str, shown_as: str) -> None:
    buffer, terminal = ScreenBuffer(ColorSystem.TRUECOLOR), Terminal(6, 1)
    buffer.put(0, 0, buffer.cells([Segment("......")]))
    buffer.draw(0, 1, 4, [Segment(text)], Style())
    terminal.feed(buffer.take())
    assert terminal.lines == [f".{shown_as}."]


def test_what_is_beyond_the_edge_is_dropped() -> None:
    screen = Shown(width=3)
    assert "d" not in screen.sent(":abcdef")


@pytest.mark.parametrize(
    "data",
    ["\x1b[2J\x1b[H", "\x1b[1;1Ha\x07\x1b[1;1H", "\x1b[1;1Ha", "a\x1b[1;1H", "\x1b[1;1H\x1b[3Aa"],
)
def test_what_is_no_picture_is_not_taken_for_one(data: str) -> None:
    screen = Shown()
    screen.sent(":abc")
    assert not screen.buffer.feed(data)
    assert "abc" in screen.sent(":abc")


def test_the_cursor_goes_where_textual_wants_it() -> None:
    screen = Shown()
    assert screen.buffer.feed("\x1b[1;1Habc\x1b[3;5H")
    assert screen.buffer.take().endswith("\x1b[3;5H")
    assert screen.buffer.take() == ""


@pytest.mark.parametrize("char", ["☔", "☰", "漢"])
def test_character_that_is_wide_somewhere_takes_two_cells(char: str) -> None:
    cells = ScreenBuffer(ColorSystem.TRUECOLOR).cells([Segment(char)])
    assert [text for text, _ in cells] == [char, ""]


def sgr(style: str) -> str:
    drawn = Style.parse(style).render("x", color_system=ColorSystem.TRUECOLOR)
    return sgr_of(drawn[2:].partition("m")[0] if "m" in drawn else "")


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ("#010203", "#040506", "38;2;4;5;6"),
        ("#010203 on #070809", "#010203 on #040506", "48;2;4;5;6"),
        ("bold #010203", "#010203", "22"),
        ("bold dim #010203", "dim #010203", "22;2"),
        ("#010203", "bold #010203", "1"),
        ("bold #010203 on #040506", "bold underline #010203 on #040506", "4"),
        ("#010203", "", ""),
        ("bold italic underline strike #010203", "bold", "0;1"),
    ],
)
def test_change_of_style_is_the_shortest(before: str, after: str, way: str) -> None:
    assert change(sgr(before), sgr(after)) == f"\x1b[{way}m"


@pytest.mark.parametrize("line", ["underline", "reverse", "strike"])
def test_blank_has_a_background_alone_unless_a_line_is_seen(line: str) -> None:
    assert ground_of(sgr("bold #010203 on #040506")) == sgr("on #040506")
    assert ground_of(sgr(f"{line} #010203")) == sgr(f"{line} #010203")


@pytest.mark.parametrize("term", ["xterm-256color", "linux", "xterm-kitty", "alacritty"])
def test_terminal_that_erases_in_the_background_that_is_set(term: str) -> None:
    assert erases({"TERM": term})


@pytest.mark.parametrize("term", ["screen-256color", "tmux-256color", "vt100", ""])
def test_terminal_that_may_not(term: str) -> None:
    assert not erases({"TERM": term})


def test_texts_that_are_kept_are_bounded_by_their_cells() -> None:
    buffer = ScreenBuffer(ColorSystem.TRUECOLOR)
    before = sys.getallocatedblocks()
    for number in range(3000):
        buffer.cells([Segment(f"{number:200}")])
    assert sys.getallocatedblocks() - before < 100_000


def test_over_a_slow_link_rows_put_last_are_sent_first_and_the_others_follow() -> None:
    buffer = ScreenBuffer(ColorSystem.TRUECOLOR)
    for y, text in ((0, "first"), (1, "second"), (2, "third"), (0, "FIRST")):
        buffer.draw(y, 0, 6, [Segment(text)], Style())
    parts = []
    while buffer.is_behind:
        parts.append(re.findall("FIRST|first|second|third", buffer.take(10)))
    assert parts == [["FIRST"], ["third"], ["second"]], "in the order of their last change"
    assert buffer.take() == ""


def test_over_a_link_that_is_too_slow_no_row_waits_for_ever() -> None:
    buffer, rows, first = ScreenBuffer(ColorSystem.TRUECOLOR), range(5), ord("\u0100")
    shown = dict.fromkeys(rows, 0)
    for tick in range(40):
        for y in rows:
            buffer.draw(y, 0, 6, [Segment(chr(first + tick * len(rows) + y) * 6)], Style())
        letter = max(buffer.take(1))
        at, y = divmod(ord(letter) - first, len(rows))
        shown[y] = at
    assert min(shown.values()) > 30
