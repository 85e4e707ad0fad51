from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem

from gpudash.actions.kill.signals import find_signal, signals
from gpudash.model.text import cut, width
from gpudash.tui.draw.question import Drawing, Entry, Fact, Question, box_width, draw
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


def drawn(question: Question, cells: int, height: int, first: int = 0) -> Drawing:
    return draw(question, PLAIN, cells, height, first=first, button=0)


def texts(drawing: Drawing) -> list[str]:
    return ["".join(segment.text for segment in line) for line in drawing.lines]


@given(st.integers(1, 120), st.integers(1, 60), st.integers(-5, 400), st.booleans())
def test_it_never_takes_more_lines_than_there_are(
    cells: int, height: int, first: int, with_tree: bool
) -> None:
    drawing = drawn(asked(with_tree=with_tree), cells, height, first)
    assert 1 <= len(drawing.lines) <= height
    assert "Cancel" in "".join(texts(drawing)[-2:])
    assert all(spot.line < len(drawing.lines) for spot in drawing.spots)


NAMED = (Fact("PID", ("4242",), names=True), Fact("frees", ("16.0 GiB on GPU 0-1",)))


@settings(deadline=None)
@example(14, 2, 0, False, "Kill this process?")
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(-5, 400),
    st.booleans(),
    st.sampled_from(["Kill this process?", "4242 (alice) ignored SIGTERM for 10 s: send SIGKILL?"]),
)
def test_it_is_answered_only_where_all_that_it_asks_is_in_view(
    cells: int, height: int, first: int, with_tree: bool, title: str
) -> None:
    drawing = drawn(asked(facts=NAMED, with_tree=with_tree, title=title), cells, height, first)
    seen = [cut(text, cells, mark="") for text in texts(drawing)[:height]]
    words = " ".join(" ".join(seen).split())
    in_view = all(text in words for text in (title, "PID 4242", "Kill y")) and (
        not with_tree or "tree [x]" in words
    )
    assert drawing.answerable is in_view
    assert drawing.answerable is any(spot.action == "answer" for spot in drawing.spots)
    if not in_view:
        assert {spot.action for spot in drawing.spots} == {"cancel"}
        assert (cells < 9 or height < 2) or "too small" in words


def test_a_list_of_processes_is_answered_where_it_can_be_read() -> None:
    facts = (Fact("owners", ("alice",)),)
    entries = tuple(Entry(str(pid), "alice: python train.py") for pid in range(4000, 4009))
    question = asked(title="Kill these 9 processes?", facts=facts, entries=entries)
    sizes = {(cells, height) for cells in range(20, 40) for height in range(1, 8)}
    able = {size for size in sizes if drawn(question, *size).answerable}
    assert able == {(cells, height) for cells, height in sizes if cells >= 26 and height >= 3}
    seen = {
        word
        for n in range(20)
        for text in texts(drawn(question, 30, 3, n))
        for word in text.split()
    }
    assert {str(pid) for pid in range(4000, 4009)} <= seen


def test_box_is_as_wide_as_what_it_says() -> None:
    short = asked(entries=(Entry("command", "python train.py", is_folded=True),))
    narrow, wide = box_width(short, PLAIN, 160), box_width(asked(), PLAIN, 160)
    assert 76 <= narrow < 90 < wide <= 108
    assert texts(drawn(short, narrow, 60)) == texts(drawn(short, wide, 60))
    assert [box_width(short, PLAIN, cells) for cells in (1, 40, 80)] == [1, 40, 76]


@settings(deadline=None)
@given(st.integers(8, 60), st.integers(30, 120))
def test_scrolling_shows_the_whole_command(height: int, cells: int) -> None:
    seen: set[str] = set()
    first = 0
    for _ in range(400):
        drawing = drawn(asked(), cells, height, first)
        seen.update(word for text in texts(drawing) for word in text.split())
        if drawing.first < first:
            break
        first = drawing.first + 1
    assert {f"--option-{number}" for number in range(200)} <= seen


def test_a_warning_and_a_refusal_have_marks_of_their_own() -> None:
    question = asked(
        notices=(
            Entry("refused", "it is init", "critical"),
            Entry("warning", "it is root's", "warn"),
        )
    )
    text = "\n".join(texts(drawn(question, 76, 24)))
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
    lines = texts(drawn(question, 76, 24))
    place = next(number for number, line in enumerate(lines) if "it is init" in line)
    assert place < next(number for number, line in enumerate(lines) if "PID" in line)
    assert "Close" in lines[-2]


def test_ascii_has_only_ascii() -> None:
    drawing = draw(asked(), ASCII, 76, 24, first=3, button=0)
    assert all(text.isascii() for text in texts(drawing))


def test_every_click_spot_lies_on_what_it_names() -> None:
    drawing = drawn(asked(), 76, 24)
    lines = texts(drawing)
    found = {spot.action: lines[spot.line][spot.left : spot.right] for spot in drawing.spots}
    assert found["answer"].strip() == "Kill  y"
    assert found["cancel"] == "[Cancel  n]"
    assert found["signal('TERM')"].strip() == "TERM"
    assert drawing.action_at(0, 0) is None


def test_the_chosen_signal_is_in_view_whatever_the_width() -> None:
    for signal in signals():
        for cells in (48, 60, 76, 108):
            lines = texts(drawn(asked(signal=signal), cells, 30))
            row = next(line for line in lines if line.strip().startswith("signal"))
            assert f"[{signal.name} {signal.number}:" in row
            assert width(row) <= cells
