"""A line that is typed, and below it what is wrong with it, under the very word."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.events import Key, Paste
from textual.message import Message

from gpudash.model.errors import FilterError
from gpudash.model.text import clean, fold, width
from gpudash.tui.draw.line import Line, cells_of, joined, spread
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.lines import Lines


class Editor:
    """A line of text with a cursor."""

    def __init__(self, text: str = "", *, limit: int = 1000) -> None:
        self._limit = limit
        self.text = ""
        self.cursor = 0
        """Index of the character under the cursor; the length of the text at its end."""
        self.insert(text)

    def insert(self, text: str) -> None:
        """Put text at the cursor: the first line of it, cleaned, as far as there is room."""
        line = str(clean(text.partition("\n")[0].partition("\r")[0], self._limit))
        line = line[: max(0, self._limit - len(self.text))]
        self.text = self.text[: self.cursor] + line + self.text[self.cursor :]
        self.cursor += len(line)

    def press(self, key: str) -> bool:
        """Do what a key does, by Textual's name for it; False if it edits nothing."""
        start, end = self.cursor, self.cursor
        if key in ("left", "ctrl+b"):
            self.cursor = max(0, start - 1)
        elif key in ("right", "ctrl+f"):
            self.cursor = min(len(self.text), end + 1)
        elif key in ("home", "ctrl+a"):
            self.cursor = 0
        elif key in ("end", "ctrl+e"):
            self.cursor = len(self.text)
        elif key == "ctrl+left":
            self.cursor = self._word_before()
        elif key == "ctrl+right":
            self.cursor = self._word_behind()
        elif key in ("backspace", "ctrl+h"):
            self._remove(max(0, start - 1), end)
        elif key in ("delete", "ctrl+d"):
            self._remove(start, end + 1)
        elif key in ("ctrl+w", "alt+backspace"):
            self._remove(self._word_before(), end)
        elif key == "ctrl+u":
            self._remove(0, end)
        elif key == "ctrl+k":
            self._remove(start, len(self.text))
        else:
            return False
        return True

    def view(self, cells: int) -> tuple[int, int, int]:
        """Return the range of characters that `cells` cells show, and the cursor's cell.

        The cursor is always within, one cell behind the end of the text included.
        """
        start = 0
        while width(self.text[start : self.cursor]) >= max(1, cells):
            start += 1
        end = start
        while end < len(self.text) and width(self.text[start : end + 1]) <= cells:
            end += 1
        return start, end, width(self.text[start : self.cursor])

    def _remove(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _word_before(self) -> int:
        """Return where the word before the cursor begins."""
        head = self.text[: self.cursor].rstrip()
        return len(head) - len(head.rpartition(" ")[2])

    def _word_behind(self) -> int:
        """Return where the word at or behind the cursor ends."""
        end = self.cursor
        while end < len(self.text) and self.text[end] == " ":
            end += 1
        while end < len(self.text) and self.text[end] != " ":
            end += 1
        return end


_CARET = "^"
_MIN_INPUT = 12
_MAX_COMPLAINT = 4
_MIN_BESIDE = 48
"""Cells right of the carets in which a complaint of several lines still reads well."""


def typed(
    sign: str,
    editor: Editor,
    theme: Theme,
    cells: int,
    *,
    note: str = "",
    error: FilterError | None = None,
) -> Line:
    """Return the sign, the text with its cursor, and a note at the right where there is room."""
    lead = [Segment(f" {sign} ", theme.key)]
    tail = [Segment(f" {note} ", theme.label)]
    room = cells - cells_of(lead)
    if room - cells_of(tail) >= _MIN_INPUT:
        room -= cells_of(tail)
    else:
        tail = []
    start, end, _cursor = editor.view(room)
    bad = range(error.start, max(error.end, error.start + 1)) if error else range(0)
    wrong = theme.header + Style(underline=True)
    line = lead
    for index in range(start, end):
        style = wrong if index in bad else theme.header
        style = theme.button_focused if index == editor.cursor else style
        line.append(Segment(editor.text[index], style))
    if editor.cursor == len(editor.text):
        line.append(Segment(" ", theme.button_focused))
    return spread(joined(line), tail, cells, theme.header)


def complaint(
    sign: str, editor: Editor, error: FilterError, theme: Theme, cells: int
) -> list[Line]:
    """Return what is wrong, beside carets under the wrong word, or below these if too long."""
    lead = width(f" {sign} ")
    start, end, _cursor = editor.view(cells - lead)
    left = min(max(error.start, start), end)
    right = min(max(error.end, left + 1), max(end, left + 1))
    column = lead + width(editor.text[start:left])
    carets = _CARET * max(1, width(editor.text[left:right]))
    text = str(error)
    if column + len(carets) + 1 + width(text) < cells:
        shown = [f"{' ' * column}{carets} {text}"]
    elif width(text) + 2 < column:
        shown = [f"{' ' * (column - width(text) - 1)}{text} {carets}"]
    elif (room := cells - column - len(carets) - 2) >= _MIN_BESIDE:
        leads = [" " * column + carets, *[" " * (column + len(carets))] * _MAX_COMPLAINT]
        parts = fold(text, room)[:_MAX_COMPLAINT]
        shown = [f"{lead} {part}" for lead, part in zip(leads, parts, strict=False)]
    else:
        shown = [f"{' ' * column}{carets}"]
        shown += [f" {line}" for line in fold(text, cells - 2)[:_MAX_COMPLAINT]]
    return [spread([Segment(line, theme.notice)], [], cells, theme.label) for line in shown]


def remark(text: str, theme: Theme, cells: int) -> list[Line]:
    """Return a hint on a filter that is valid but may not be what was meant."""
    parts = fold(text, max(1, cells - 2))[:_MAX_COMPLAINT]
    return [spread([Segment(f" {part}", theme.notice)], [], cells, theme.label) for part in parts]


def advice(texts: list[tuple[str, str]], theme: Theme, cells: int) -> Line:
    """Return keys with what they do, and as many further words as fit whole."""
    line: Line = [Segment(" ", theme.label)]
    for key, text in texts:
        part = [Segment(key, theme.key), Segment(f" {text}  " if text else " ", theme.label)]
        if cells_of(line) + cells_of(part) > cells:
            break
        line += part
    return spread(line, [], cells, theme.label)


_HEIGHT = 2

_KEEP = frozenset({"enter"})
_ABANDON = frozenset({"escape", "ctrl+c", "ctrl+g"})


class Prompt(Lines, can_focus=True):
    """Takes every key while it has the focus; what is drawn in it is given, as in all panels."""

    DEFAULT_CSS = f"""
    Prompt {{ height: {_HEIGHT}; }}
    """

    class Changed(Message):
        """The text or its cursor has changed."""

    class Kept(Message):
        """The text is to stay."""

    class Abandoned(Message):
        """The text is to be forgotten."""

    class Unused(Message):
        """A key was pressed that edits nothing."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, blank: Style, *, id: str | None = None) -> None:
        super().__init__(blank, id=id)
        self.editor = Editor()
        self.display = False
        self.height = _HEIGHT

    def fit(self, lines: int) -> bool:
        """Take as many lines as there are to be shown; return whether that is a change."""
        if self.height == lines:
            return False
        self.styles.height = self.height = lines
        return True

    @property
    def is_open(self) -> bool:
        """Whether it is on screen."""
        return self.display

    def open(self, text: str) -> None:
        """Begin with a text, the cursor behind it."""
        self.editor = Editor(text)
        # Both take effect at once, so that the next key is already typed.
        self.display = True
        self.screen.set_focus(self)

    def close(self) -> None:
        """Close and release the focus."""
        self.display = False
        self.screen.set_focus(None)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Take everything: no letter of a filter may start an action."""
        return True

    def on_key(self, event: Key) -> None:
        """Edit the text, or post what the key asks for."""
        event.stop()
        event.prevent_default()
        if event.key in _KEEP:
            self.post_message(self.Kept())
        elif event.key in _ABANDON or (event.key == "backspace" and not self.editor.text):
            self.post_message(self.Abandoned())
        elif event.is_printable and event.character:
            self.editor.insert(event.character)
            self.post_message(self.Changed())
        elif self.editor.press(event.key):
            self.post_message(self.Changed())
        else:
            self.post_message(self.Unused(event.key))

    def on_paste(self, event: Paste) -> None:
        """Insert what was pasted."""
        event.stop()
        self.editor.insert(event.text)
        self.post_message(self.Changed())
