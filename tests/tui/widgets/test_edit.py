from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.events import Key, Paste

from gpudash.tui.widgets.edit import Edit, content

HOSTILE = "[bold]x[/bold] [@click=app.bell]y[/] $primary \\["


class OneLine(App[None]):
    CSS = "Edit { width: 20; }"

    def __init__(self, **options: int) -> None:
        super().__init__()
        self._options = options

    def compose(self) -> ComposeResult:
        yield Edit("ab", **self._options)

    @property
    def edit(self) -> Edit:
        return self.query_one(Edit)


async def test_alt_with_a_letter_types_nothing() -> None:
    app = OneLine()
    async with app.run_test() as pilot:
        for key in (Key("alt+q", "q"), Key("c", "c")):
            app.post_message(key)
        await pilot.pause()
        assert app.edit.value == "abc"


async def test_pasted_text_is_one_harmless_line() -> None:
    app = OneLine()
    async with app.run_test() as pilot:
        await pilot.press("left")
        app.edit.post_message(Paste("\x1b[2Jx\u202e\nrm -rf\n"))
        await pilot.pause()
        assert app.edit.value.isprintable()
        assert "rm" not in app.edit.value
        assert app.edit.value.startswith("a")
        assert app.edit.value.endswith("b")
        assert "x" in app.edit.value


async def test_text_has_a_limit_and_a_paste_fills_it() -> None:
    app = OneLine(limit=5)
    async with app.run_test() as pilot:
        app.edit.post_message(Paste("x" * 50))
        await pilot.press("y")
        assert app.edit.value == "abxxx"


def test_markup_in_a_text_is_text() -> None:
    shown = content([[Segment(HOSTILE, Style(bold=True))], [], [Segment("end")]])
    assert shown.plain == f"{HOSTILE}\n\nend"
    assert [span.style for span in shown.spans if "@" in str(span.style)] == []


def test_colours_of_the_terminal_stay_its_own() -> None:
    (span,) = content([[Segment("x", Style(color="cyan", bgcolor="default", bold=True))]]).spans
    assert span.style.foreground.ansi == 6  # type: ignore[union-attr]
    assert span.style.background is None  # type: ignore[union-attr]
    assert span.style.bold  # type: ignore[union-attr]
    (span,) = content([[Segment("x", Style(color="default"))]]).spans or (None,)
    assert span is None or span.style.foreground is None  # type: ignore[union-attr]
