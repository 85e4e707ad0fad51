from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.text import width
from gpudash.tui.dialogs.prompt import Editor

KEYS = (
    "left right home end ctrl+left ctrl+right backspace delete ctrl+w ctrl+u ctrl+k ctrl+a ctrl+e"
)


def test_edits_like_a_shell() -> None:
    editor = Editor("user:alice mem>10G")
    assert editor.press("ctrl+w")
    assert editor.text == "user:alice "
    editor.press("ctrl+left")
    editor.insert("-")
    assert editor.text == "-user:alice "
    editor.press("end")
    editor.press("backspace")
    assert editor.text == "-user:alice"
    editor.press("home")
    editor.press("delete")
    editor.press("ctrl+right")
    assert editor.cursor == len("user:alice")
    editor.press("ctrl+u")
    assert editor.text == ""
    assert not editor.press("f5")


def test_pasted_text_is_one_harmless_line() -> None:
    editor = Editor("ab")
    editor.press("left")
    editor.insert("\x1b[2Jx\nrm -rf\n")
    assert editor.text.isprintable()
    assert "rm" not in editor.text
    assert editor.text.startswith("a")
    assert editor.text.endswith("xb")


def test_text_has_a_limit() -> None:
    editor = Editor("x" * 50, limit=20)
    editor.insert("y")
    assert len(editor.text) <= 20


steps = st.lists(st.one_of(st.sampled_from(KEYS.split()), st.text(max_size=3)), max_size=30)


@given(st.text(max_size=30), steps, st.integers(1, 40))
def test_the_cursor_is_within_and_in_view_whatever_is_pressed(
    text: str, steps: list[str], cells: int
) -> None:
    editor = Editor(text)
    for step in steps:
        if not editor.press(step):
            editor.insert(step)
        assert 0 <= editor.cursor <= len(editor.text)
        start, end, cell = editor.view(cells)
        assert start <= editor.cursor
        assert cell < cells
        assert width(editor.text[start:end]) <= cells
