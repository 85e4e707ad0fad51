import time

import pytest
from rich.color import ColorSystem
from textual.app import App
from textual.widgets import OptionList

from gpudash.feed.protocol import FeedState
from gpudash.tui.dialogs.choose import Choice, ChooseScreen, ranked
from gpudash.tui.theme import load_theme, textual_theme
from tests.tui.stage import busy_snapshot, on_screen

ENTRIES = (
    Choice("sort", "Sort: choose the column", "s"),
    Choice("pid", "Process: copy the PID", "y"),
    Choice("command", "Process: copy the command line", "Y"),
    Choice("quit", "Screen: quit", "q"),
)


def values(typed: str) -> list[str]:
    return [choice.value for choice in ranked(ENTRIES, typed)]


def test_beginnings_of_words_find_an_entry() -> None:
    assert values("copid") == ["pid"]
    assert values("copy com") == ["command"]
    assert values("CTC") == ["sort", "command"]


def test_nothing_typed_keeps_all_in_their_order() -> None:
    assert values("") == ["sort", "pid", "command", "quit"]


def test_letters_scattered_within_words_find_nothing() -> None:
    assert values("oun") == []
    assert values("zzz") == []


def test_a_key_finds_its_action_first() -> None:
    assert values("q")[0] == "quit"


def test_other_words_find_an_entry_behind_those_that_show_them() -> None:
    choices = (
        Choice("links", "View: how the GPUs are connected", words="topology topo"),
        Choice("host", "Panels: top of the screen"),
    )
    assert [choice.value for choice in ranked(choices, "topo")] == ["host", "links"]
    assert [choice.value for choice in ranked(choices, "topology")] == ["links"]


@pytest.mark.parametrize("typed", ["p", "power", "Power u"])
def test_of_equals_the_one_that_begins_with_what_was_typed_is_first(typed: str) -> None:
    choices = [
        Choice(text, text) for text in ("SW power use cap", "Power usage", "Spare power unit")
    ]
    found = [choice.value for choice in ranked(choices, typed)]
    assert found == ["Power usage", "SW power use cap", "Spare power unit"]


def test_of_equals_another_name_that_begins_so_counts_as_much() -> None:
    choices = (Choice("cap", "power cap"), Choice("gpu", "GPU memory", words="mem memory"))
    bandwidth = Choice("bandwidth", "memory bandwidth")
    assert [each.value for each in ranked((*choices, bandwidth), "mem")] == ["gpu", "bandwidth"]


def test_much_typing_takes_no_time() -> None:
    choices = [Choice(str(n), "a a " * 50) for n in range(5)]
    start = time.process_time()
    ranked(choices, "a" * 500)
    assert time.process_time() - start < 20


@pytest.mark.parametrize("no_color", [False, True])
async def test_the_cursor_is_in_reverse_video_where_there_are_few_colours(no_color: bool) -> None:
    theme = load_theme(no_color=no_color, color_system=ColorSystem.STANDARD)
    app = App[None](ansi_color=True)
    app.register_theme(textual_theme("dark", theme))
    app.theme = "gpudash-dark"
    async with app.run_test() as pilot:
        await app.push_screen(ChooseScreen("Sort by", ENTRIES, theme, current="pid"))
        await pilot.pause()
        entries = app.screen.query_one(OptionList)
        for line, is_reverse in ((0, False), (1, True)):
            styles = [segment.style for segment in entries.render_line(line)]
            assert {bool(style and style.reverse) for style in styles} == {is_reverse}
        # Of several colours the bar would be one of several parts.
        assert len({(style.color, style.bgcolor) for style in styles if style}) == 1


async def test_what_may_be_typed_is_cut_with_a_mark() -> None:
    async with on_screen(busy_snapshot(), "at", size=(60, 20)) as on:
        for size in ((60, 20), (40, 12)):
            await on.resize(*size)
            (hint,) = (line for line in on.lines if "type a time" in line)
            assert hint.rstrip(" │").endswith("…"), size
        await on.resize(120, 40)
        assert "+1h from the start " in on.text


async def test_a_list_leaves_no_pieces_of_words_beside_it() -> None:
    async with on_screen(busy_snapshot(), "C") as on:
        for cells, is_whole in ((40, True), (80, True), (140, False)):
            await on.resize(cells, 24)
            (box,) = on.app.screen.children
            assert (box.region.width == cells) is is_whole, cells


async def test_columns_that_show_only_above_zero_say_so() -> None:
    async with on_screen(busy_snapshot(), "C") as on:
        assert [line for line in on.lines if "above zero" in line] == [
            line for line in on.lines if "ENC/DEC" in line
        ]


async def test_a_question_is_a_sentence_and_not_a_line_to_type() -> None:
    async with on_screen(busy_snapshot(), "X") as on:
        text = " ".join(on.text.replace("│", " ").split())
        assert "No GPU is monitored until X reattaches." in text
        await on.press("q", "n")
        assert "reattaches" not in on.text
        assert on.feed.state is FeedState.LIVE
