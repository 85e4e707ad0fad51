from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem

from gpudash.actions.kill.signals import find_signal, signals
from gpudash.model.text import cut, width
from gpudash.tui.dialogs.question import Entry, Fact, Layout, Question, laid_out, question_width
from gpudash.tui.draw.line import Line
from gpudash.tui.theme import load_theme

PLAIN = load_theme(no_color=True, color_system=ColorSystem.TRUECOLOR)
ASCII = load_theme(no_color=True, color_system=ColorSystem.TRUECOLOR, ascii=True)
LONG = " ".join(f"--option-{number}" for number in range(200))


def asked(**overrides: object) -> Question:
    fields: dict[str, object] = {
        "title": "Kill this process?",
        "notices": (Entry("warning", "it is root's", "warn"),),
        "facts": (
            Fact("PID", ("4242",)),
            Fact("frees", ("16.0 GiB on GPU 0-1",)),
            Fact("", ("GPU 0 8.0 GiB", "GPU 1 8.0 GiB")),
        ),
        "entries": (Entry("command", f"python {LONG}", is_folded=True),),
        "action": "Kill",
        "signal": find_signal("KILL"),
        "with_tree": False,
    }
    return Question(**{**fields, **overrides})  # type: ignore[arg-type]


def texts(lines: Iterable[Line]) -> list[str]:
    return ["".join(segment.text for segment in line) for line in lines]


def shown(layout: Layout, first: int = 0) -> list[str]:
    """What is in view above the buttons when the body is scrolled so far."""
    window = layout.body[first : first + layout.room]
    return [*layout.title, *texts([*layout.names, *window, *layout.choices])]


def shown_lines(layout: Layout) -> int:
    """The lines that all parts take, the buttons included."""
    return len(shown(layout)) + layout.hinted + 1 + 4 * layout.airy


@settings(deadline=None)
@given(st.integers(1, 120), st.integers(1, 60), st.booleans(), st.booleans())
def test_it_never_takes_more_lines_than_there_are(
    cells: int, height: int, with_tree: bool, acts: bool
) -> None:
    refused = {} if acts else {"action": None, "signal": None, "with_tree": None}
    question = asked(**{"with_tree": with_tree, **refused})
    layout = laid_out(question, PLAIN, cells, height)
    assert 1 <= layout.height <= height
    assert shown_lines(layout) <= layout.height
    assert layout.room >= 0


NAMED = (Fact("PID", ("4242",), names=True), Fact("frees", ("16.0 GiB on GPU 0-1",)))


@settings(deadline=None)
@example(14, 2, False, "Kill this process?")
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from(["Kill this process?", "4242 (alice) ignored SIGTERM for 10 s: send SIGKILL?"]),
)
def test_it_is_answered_only_where_all_that_it_asks_is_in_view(
    cells: int, height: int, with_tree: bool, title: str
) -> None:
    question = asked(facts=NAMED, with_tree=with_tree, title=title)
    layout = laid_out(question, PLAIN, cells, height)
    seen = [cut(text, max(0, cells - layout.indent), mark="") for text in shown(layout)]
    words = " ".join(" ".join(seen).split())
    in_view = (
        all(text in words for text in (title, "PID 4242"))
        and layout.indent + len("[Cancel  n]   Kill  y ") <= cells
        and (not with_tree or "tree [x]" in words)
    )
    assert not layout.answerable or in_view
    if not layout.answerable:
        assert "Kill" not in words
        assert (cells < 9 or height < 2) or "too small" in words


@pytest.mark.parametrize(("cells", "height"), [(25, 4), (40, 6), (76, 22), (106, 58)])
def test_it_is_answered_where_there_is_room(cells: int, height: int) -> None:
    assert laid_out(asked(facts=NAMED), PLAIN, cells, height).answerable


def test_a_list_of_processes_is_answered_where_it_can_be_read() -> None:
    facts = (Fact("owners", ("alice",)),)
    entries = tuple(Entry(str(pid), "alice: python train.py") for pid in range(4000, 4009))
    question = asked(title="Kill these 9 processes?", facts=facts, entries=entries)
    sizes = {(cells, height) for cells in range(20, 40) for height in range(1, 8)}
    able = {size for size in sizes if laid_out(question, PLAIN, *size).answerable}
    assert able == {(cells, height) for cells, height in sizes if cells >= 26 and height >= 3}
    layout = laid_out(question, PLAIN, 30, 3)
    assert layout.room == 1
    seen = {word for text in texts(layout.body) for word in text.split()}
    assert {str(pid) for pid in range(4000, 4009)} <= seen


def test_box_is_as_wide_as_what_it_says() -> None:
    short = asked(entries=(Entry("command", "python train.py", is_folded=True),))
    narrow, wide = question_width(short, PLAIN, 160), question_width(asked(), PLAIN, 160)
    assert 76 <= narrow < 90 < wide <= 108
    assert shown(laid_out(short, PLAIN, narrow, 60)) == shown(laid_out(short, PLAIN, wide, 60))
    assert [question_width(short, PLAIN, cells) for cells in (1, 40, 80)] == [1, 40, 76]


@settings(deadline=None)
@given(st.integers(8, 60), st.integers(30, 120))
def test_the_body_has_the_whole_command(height: int, cells: int) -> None:
    layout = laid_out(asked(), PLAIN, cells, height)
    assert layout.room >= 1
    words = {word for text in texts(layout.body) for word in text.split()}
    assert {f"--option-{number}" for number in range(200)} <= words
    assert layout.hinted


def test_a_warning_and_a_refusal_have_marks_of_their_own() -> None:
    question = asked(
        notices=(
            Entry("refused", "it is init", "critical"),
            Entry("warning", "it is root's", "warn"),
        )
    )
    text = "\n".join(shown(laid_out(question, PLAIN, 76, 24)))
    assert "✗ it is init" in text
    assert "refused   ✗ it is init" in text
    assert "warning   ! it is root's" in text


def test_why_nothing_can_be_done_comes_first() -> None:
    question = asked(
        notices=(Entry("refused", "it is init", "critical"),),
        action=None,
        signal=None,
        with_tree=None,
    )
    lines = shown(laid_out(question, PLAIN, 76, 24))
    index = next(number for number, line in enumerate(lines) if "it is init" in line)
    assert index < next(number for number, line in enumerate(lines) if "PID" in line)


def test_ascii_has_only_ascii() -> None:
    assert all(text.isascii() for text in shown(laid_out(asked(), ASCII, 76, 24)))


def test_every_choice_can_be_clicked() -> None:
    signal_line, tree_line = laid_out(asked(), PLAIN, 76, 24).choices
    clicks = {
        segment.style.meta["@click"]: segment.text.strip()
        for segment in (*signal_line, *tree_line)
        if segment.style and segment.style.meta
    }
    assert clicks["screen.signal('TERM')"] == "TERM"
    assert clicks["screen.choose_signal"] == "all"
    assert clicks["screen.tree"] == "t"


def test_the_chosen_signal_is_in_view_whatever_the_width() -> None:
    for signal in signals():
        for cells in (48, 60, 76, 108):
            lines = shown(laid_out(asked(signal=signal), PLAIN, cells, 30))
            row = next(line for line in lines if line.strip().startswith("signal"))
            assert f"[{signal.name} {signal.number}:" in row
            assert width(row) <= cells
