"""A line that is typed, and below it what is wrong with it, under the very word."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style

from gpudash.model.errors import FilterError
from gpudash.model.text import fold, width
from gpudash.tui.dialogs.editor import Editor
from gpudash.tui.draw.line import Line, cells_of, joined, spread
from gpudash.tui.theme import Theme

_CARET = "^"
_LEAST_INPUT = 12
_MOST_COMPLAINT = 4
_LEAST_BESIDE = 48
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
    if room - cells_of(tail) >= _LEAST_INPUT:
        room -= cells_of(tail)
    else:
        tail = []
    start, end, _cursor = editor.view(room)
    bad = range(error.start, max(error.end, error.start + 1)) if error else range(0)
    wrong = theme.header + Style(underline=True)
    line = lead
    for place in range(start, end):
        style = wrong if place in bad else theme.header
        style = theme.button_focused if place == editor.cursor else style
        line.append(Segment(editor.text[place], style))
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
    elif (room := cells - column - len(carets) - 2) >= _LEAST_BESIDE:
        leads = [" " * column + carets, *[" " * (column + len(carets))] * _MOST_COMPLAINT]
        parts = fold(text, room)[:_MOST_COMPLAINT]
        shown = [f"{lead} {part}" for lead, part in zip(leads, parts, strict=False)]
    else:
        shown = [f"{' ' * column}{carets}"]
        shown += [f" {line}" for line in fold(text, cells - 2)[:_MOST_COMPLAINT]]
    return [spread([Segment(line, theme.notice)], [], cells, theme.label) for line in shown]


def remark(text: str, theme: Theme, cells: int) -> list[Line]:
    """Return what is no mistake and yet may not be what was meant."""
    parts = fold(text, max(1, cells - 2))[:_MOST_COMPLAINT]
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
