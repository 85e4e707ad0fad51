"""A small list to choose from, narrowed down by typing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.events import Click, Key, Paste
from textual.message import Message
from textual.screen import ModalScreen

from gpudash.model.text import cut, width
from gpudash.tui.dialogs.prompt import Editor, typed
from gpudash.tui.draw.line import Line, fitted, spread
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import Closing
from gpudash.tui.widgets.lines import Lines, Wheel

_MAX_TYPED = 40
_EXACT, _SHOWN, _RUN, _WORD = 1000, 100, 4, 3
"""Worth of a note that is just what was typed, of what is shown rather than found by other words,
of a letter behind its neighbour, of a new word."""


class Choice(NamedTuple):
    """An entry of a list."""

    value: str
    text: str
    note: str = ""
    """Shown at its right end."""
    marked: bool = False
    words: str = ""
    """Further words that find it; not shown."""


def ranked(choices: Iterable[Choice], typed: str) -> list[Choice]:
    """Return the entries that words or beginnings of words typed in their order fit, best first.

    `copid` is "copy the PID": each letter continues a word or begins a later one. Of entries that
    fit equally well, those come first whose text or another word of which begins with it.
    """
    wanted = "".join(typed.casefold().split())[:_MAX_TYPED]
    scored = [(_score(choice, wanted), choice) for choice in choices]
    fitting = [
        ((-score, not _begins(choice, wanted)), choice)
        for score, choice in scored
        if score is not None
    ]
    return [choice for _rank, choice in sorted(fitting, key=lambda pair: pair[0])]


def _score(choice: Choice, wanted: str) -> int | None:
    """Return how well an entry fits; None if it does not."""
    if wanted and choice.note.casefold() == wanted:
        return _EXACT
    shown, other = (_fit(text.casefold(), wanted) for text in (choice.text, choice.words))
    return other if shown is None else shown + _SHOWN


def _begins(choice: Choice, wanted: str) -> bool:
    names = ("".join(choice.text.split()), *choice.words.split())
    return any(name.casefold().startswith(wanted) for name in names)


def _fit(text: str, wanted: str) -> int | None:
    """Return how well the words of a text fit; None if they do not."""
    best: dict[int, int] = {-2: 0}
    for letter in wanted:
        # Index of the last letter taken -> the best score on the way there.
        reached: dict[int, int] = {}
        for before, score in best.items():
            for index in range(max(before + 1, 0), len(text)):
                if text[index] != letter:
                    continue
                if index == before + 1:
                    worth = _RUN
                elif _begins_word(text, index):
                    worth = _WORD
                else:
                    continue
                reached[index] = max(reached.get(index, 0), score + worth)
        best = reached
    if not best:
        return None
    return max(score - index // _MAX_TYPED for index, score in best.items())


def _begins_word(text: str, index: int) -> bool:
    return index == 0 or not text[index - 1].isalnum()


_WIDTH, _HEIGHT = 64, 20
_STEPS = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1, "shift+tab": -1, "tab": 1}
_ENDS = frozenset({"home", "end"})
_CLOSING = frozenset({"escape", "ctrl+c", "f10"})


class Box(Lines):
    """The panel of the list."""

    class Clicked(Message):
        """A line was clicked."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def on_click(self, event: Click) -> None:
        """Post which line."""
        event.stop()
        self.post_message(self.Clicked(event.y))


class ChooseScreen(Wheel, ModalScreen["str | None"], Closing["str | None"]):
    """Lets one of several be chosen, by its value; None if none was.

    With `toggled` given, the space bar marks and unmarks entries while the list stays open, and
    once one was, or with `marks_only` at once, the marks are what is chosen: Enter keeps them, a
    click changes one. `pointed` is called with each entry that the cursor comes to, and returns
    the theme from then on.
    """

    DEFAULT_CSS = """
    ChooseScreen { align: center middle; background: transparent; }
    """
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[Any]] = []

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        theme: Theme,
        *,
        current: str = "",
        toggled: Callable[[str], Sequence[Choice]] | None = None,
        marks_only: bool = False,
        pointed: Callable[[str], Theme] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._theme, self._toggled, self._pointed = title, theme, toggled, pointed
        self._all = self._shown = list(choices)
        self._pointed_at = current
        self._marking = marks_only
        self._editor = Editor(limit=80)
        values = [choice.value for choice in choices]
        self._cursor = values.index(current) if current in values else 0
        self._first = 0
        self._box = Box(theme.panel, id="box")

    def compose(self) -> ComposeResult:
        """Show the list alone."""
        yield self._box

    def on_resize(self) -> None:
        """Fit the list to the terminal."""
        size = self.app.size
        self._box.styles.width = max(1, min(_WIDTH, size.width))
        self._box.styles.height = max(1, min(_HEIGHT, len(self._all) + 4, size.height))
        self.call_after_refresh(self._draw)

    @property
    def _room(self) -> int:
        """Lines of the list itself, between a title with a blank line and the foot."""
        return max(1, self._box.size.height - 3)

    def on_key(self, event: Key) -> None:
        """Move, choose, type or leave; a key that does none of it goes on to the app."""
        event.prevent_default()
        if self._handle_key(event):
            event.stop()

    def _handle_key(self, event: Key) -> bool:
        """Do what a key means here; return whether it means anything."""
        if event.key in _CLOSING:
            self.dismiss(None)
        elif event.key == "enter":
            self._take(self._cursor)
        elif event.key in _STEPS:
            self._move(_STEPS[event.key])
        elif event.key in ("pageup", "pagedown"):
            self._move(self._room if event.key == "pagedown" else -self._room)
        elif event.key == "space" and self._toggled is not None:
            self._toggle()
        elif event.key in _ENDS and not self._editor.text:
            self._move(len(self._shown) if event.key == "end" else -len(self._shown))
        else:
            return self._type(event)
        return True

    def on_paste(self, event: Paste) -> None:
        """Type what was pasted."""
        event.stop()
        self._editor.insert(event.text)
        self._narrow()

    def turned(self, lines: int) -> None:
        """Move by the wheel."""
        self._move(lines)

    def on_click(self, _event: Click) -> None:
        """Leave by a click beside the list."""
        self.dismiss(None)

    def on_box_clicked(self, message: Box.Clicked) -> None:
        """Choose what was clicked, or mark it."""
        line = message.line - 2
        index = self._first + line
        if line not in range(self._room) or index >= len(self._shown):
            return
        if self._marking:
            self._cursor = index
            self._toggle()
        else:
            self._take(index)

    def _take(self, index: int) -> None:
        if self._marking:
            self.dismiss(None)
        elif index < len(self._shown):
            self.dismiss(self._shown[index].value)

    def _toggle(self) -> None:
        if self._toggled is not None and self._shown:
            self._marking = True
            self._all = list(self._toggled(self._shown[self._cursor].value))
            self._shown = ranked(self._all, self._editor.text)
            self._move(0)

    def _type(self, event: Key) -> bool:
        if event.is_printable and event.character:
            self._editor.insert(event.character)
        elif not self._editor.press(event.key):
            return False
        self._narrow()
        return True

    def _narrow(self) -> None:
        self._shown = ranked(self._all, self._editor.text)
        self._cursor = self._first = 0
        self._draw()

    def _move(self, rows: int) -> None:
        self._cursor = max(0, min(self._cursor + rows, len(self._shown) - 1))
        self._draw()

    def _draw(self) -> None:
        self._point()
        cells, theme = self._box.size.width, self._theme
        room = self._room
        self._first = max(self._first, self._cursor - room + 1)
        self._first = max(0, min(self._first, self._cursor, len(self._shown) - room))
        title = typed(self._title, self._editor, theme, cells)
        visible = self._shown[self._first : self._first + room]
        rows = [
            _row(choice, theme, cells, selected=index == self._cursor)
            for index, choice in enumerate(visible, self._first)
        ]
        if not rows:
            rows = [[Segment("  no matches", theme.panel_dim)]]
        blank: list[Line] = [[]] * (room - len(rows))
        self._box.show([title, [], *rows, *blank, self._foot(cells)])

    def _point(self) -> None:
        """Call `pointed` when the cursor has come to another entry."""
        if self._pointed is None or not self._shown:
            return
        value = self._shown[self._cursor].value
        if value != self._pointed_at:
            self._pointed_at, self._theme = value, self._pointed(value)
            self._box.set_theme(self._theme.panel)

    def _foot(self, cells: int) -> Line:
        """Return the keys that do something, and what, as many as fit."""
        toggles = "" if self._toggled is None else "Space on or off  "
        leaving = "Enter closes" if self._marking else "Enter chooses  Esc closes"
        for text in (f"type to find  {toggles}{leaving}", f"{toggles}Esc closes"):
            if len(text) + 4 <= cells:
                break
        return fitted([Segment(f"  {text}", self._theme.panel_dim)], cells, self._theme.panel)


def _row(choice: Choice, theme: Theme, cells: int, *, selected: bool) -> Line:
    """Return one entry: its mark, its text, and at the right what it is about."""
    base, dim = (theme.button_focused,) * 2 if selected else (theme.panel, theme.panel_dim)
    key = base if selected else theme.key
    mark = theme.glyphs.tick if choice.marked else " "
    about, more = choice.note, theme.glyphs.ellipsis
    if width(about) > width(choice.text):
        # What is chosen is known by its text.
        about = cut(about, max(0, cells - 7 - width(choice.text)), mark=more)
    note = [Segment(f"{about}  ", key)] if about else []
    room = cells - 4 - width(about) - (3 if about else 0)
    text = [Segment(f" {mark} ", dim), Segment(cut(choice.text, max(0, room), mark=more), base)]
    return fitted(spread(text, note, cells, base), cells, base)
