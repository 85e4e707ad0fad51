"""The question before a signal: what it shows, as lines of a box whose parts can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.events import Click
from textual.message import Message

from gpudash.actions.kill.signals import Signal, signals
from gpudash.model.state import Level
from gpudash.model.text import cut, fold, pad, width
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.lines import Lines

CANCEL, ACT = 0, 1
"""The buttons, in their order."""

LABEL = 10
"""Cells of the labels at the left."""

_MAX_CHIPS = 8
_INDENT = 3
_NARROW, _WIDE = 76, 108
_MARGIN = 12
_GAP = "   "
_MAX_ENTRIES = 14
_MIN_ENTRIES = 2
_MIN_CELLS = 24
"""What is narrower is cut off."""

_TOO_SMALL = (
    "The terminal is too small for this question.",
    "The terminal is too small.",
    "too small to ask",
    "too small",
)
"""Shown instead of a question that has no room: the first of them that fits."""

_BLANKS = 5
_UNLIMITED = 1000
"""Lines that no question has."""


class Fact(NamedTuple):
    """A label and its text, in parts that are not broken."""

    label: str
    parts: tuple[str, ...]
    names: bool = False
    """Whether it names the process: unless it is in view, yes is not accepted."""


class Entry(NamedTuple):
    """A text under a label, cut to one line unless `is_folded`."""

    label: str
    text: str
    level: Level = "ok"
    is_folded: bool = False


class Question(NamedTuple):
    """Everything that the dialog shows; without an action only Close is offered."""

    title: str
    notices: tuple[Entry, ...]
    """Read first and shown in full: why it is refused, what else a signal would affect."""
    facts: tuple[Fact, ...]
    entries: tuple[Entry, ...]
    action: str | None
    signal: Signal | None
    """The one that is selected, None where it cannot be changed."""
    with_tree: bool | None
    """Whether those below are signalled too, None if there are none."""


class Row(NamedTuple):
    """A line, and the actions of a click on its segments by their index."""

    line: Line
    actions: dict[int, str]


def foot_rows(question: Question, theme: Theme, button: int, room: int) -> list[Row]:
    """Return what can be chosen, and the buttons as the last line."""
    rows = []
    if question.signal is not None:
        rows.append(_signals(question.signal, theme, room))
    if question.with_tree is not None:
        box = f"[{'x' if question.with_tree else ' '}] with the children"
        parts = [
            Segment(pad("tree", LABEL), theme.panel_dim),
            Segment(box, theme.panel),
            Segment("  t", theme.key),
        ]
        rows.append(Row(parts, {1: "tree", 2: "tree"}))
    return [*rows, _buttons(question.action, theme, button)]


def _signals(chosen: Signal, theme: Theme, room: int) -> Row:
    """Return the signal that is chosen among its neighbours, as many as fit."""
    line: Line = [Segment(pad("signal", LABEL), theme.panel_dim)]
    more = [Segment(" s ", theme.key), Segment("all", theme.panel_dim)]
    actions: dict[int, str] = {}
    for each in _neighbours(chosen, room - LABEL - cells_of(more)):
        actions[len(line)] = f"signal('{each.name}')"
        line.append(Segment(_chip(each, chosen), theme.key if each == chosen else theme.panel))
    for segment in more:
        actions[len(line)] = "choose_signal"
        line.append(segment)
    return Row(line, actions)


def _neighbours(chosen: Signal, room: int) -> Sequence[Signal]:
    """Return the signals around the chosen one; it itself is there however little room there is."""
    every = signals()
    index = every.index(chosen)
    first = max(0, index - _MAX_CHIPS + 1)

    def cells(end: int) -> int:
        return sum(width(_chip(each, chosen)) for each in every[first:end])

    while first < index and cells(index + 1) > room:
        first += 1
    end = index + 1
    while end < min(len(every), first + _MAX_CHIPS) and cells(end + 1) <= room:
        end += 1
    return every[first:end]


def _chip(signal: Signal, chosen: Signal) -> str:
    if signal == chosen:
        return f"[{signal.name} {signal.number}: {signal.help}]"
    return f" {signal.name} "


def cancel_row(theme: Theme) -> Row:
    """Return Cancel as the only button, in focus."""
    return Row([Segment("[Cancel  n]", theme.button_focused)], {0: "cancel"})


def _buttons(action: str | None, theme: Theme, button: int) -> Row:
    if action is None:
        return Row([Segment(" Close  q ", theme.button_focused)], {0: "cancel"})
    cancel = theme.button_focused if button == CANCEL else theme.button
    act = theme.danger_focused if button == ACT else theme.button
    texts = [" Cancel  n ", f" {action}  y "]
    # Without colours only reverse video marks the button that Enter presses.
    texts[button] = f"[{texts[button][1:-1]}]"
    line = [Segment(texts[CANCEL], cancel), Segment("  ", theme.panel), Segment(texts[ACT], act)]
    return Row(line, {0: "cancel", 2: "answer"})


class Spot(NamedTuple):
    """Cells of a line, from `left` to before `right`, and the action of a click on them."""

    line: int
    left: int
    right: int
    action: str


class Drawing(NamedTuple):
    """The lines of the box, where it can be clicked, and the first line of what scrolls."""

    lines: list[Line]
    spots: list[Spot]
    first: int
    page: int
    """Lines of the part that scrolls."""
    answerable: bool = True
    """Whether the title, the process and the button that acts can be read."""

    def action_at(self, x: int, y: int) -> str | None:
        """Return what a click on a cell does."""
        for spot in self.spots:
            if spot.line == y and spot.left <= x < spot.right:
                return spot.action
        return None


def box_width(question: Question, theme: Theme, cells: int) -> int:
    """Return the width of the box on a terminal `cells` wide: no wider than its text."""
    if cells < _NARROW + 2 * _MARGIN:
        return max(1, min(_NARROW, cells))
    widest = min(_WIDE, cells - _MARGIN)
    lines = draw(question, theme, widest, _UNLIMITED, first=0, button=0).lines
    return max(_NARROW, min(widest, max(map(cells_of, lines)) + _INDENT))


def draw(
    question: Question, theme: Theme, cells: int, height: int, *, first: int, button: int
) -> Drawing:
    """Return the box for a width, in at most `height` lines; `button` is the one in focus.

    Where there is no room for the title, the process and the button that acts, the box says so
    and offers Cancel alone.
    """
    room = max(_MIN_CELLS, cells - 2 * _INDENT)
    title = _styled(fold(question.title, room), theme.header_strong)
    notices = _notices(question, theme, room)
    names = _facts([fact for fact in question.facts if fact.names], theme, room)
    facts = _facts([fact for fact in question.facts if not fact.names], theme, room)
    acts = question.action is not None
    # A refusal is read before the process that it is about.
    read = [*names, *facts, *notices] if acts else [*notices, *names, *facts]
    body = [line for entry in question.entries for line in _entry(entry, theme, room)]
    foot = foot_rows(question, theme, button, room)
    if acts and max(map(cells_of, [*title, *names, foot[-1].line])) + _INDENT > cells:
        return _too_small(theme, cells, height)
    spare = height - len(title) - len(read) - len(foot) - _BLANKS
    shown = min(len(body), _MAX_ENTRIES, max(spare, _MIN_ENTRIES))
    if shown > spare and acts:
        foot = _fewer(
            foot, height - len(title) - len(names) - 1, with_tree=bool(question.with_tree)
        )
        if len(title) + len(names) + 1 + len(foot) > height:
            return _too_small(theme, cells, height)
        return _cramped([*title, *names], [*notices, *facts, *body], foot, theme, height, first)
    if shown > spare:
        title = title[: max(0, height - len(foot) - _MIN_ENTRIES, height - len(foot) > 0)]
        return _cramped(title, [*read, *body], foot, theme, height, first)
    first = max(0, min(first, len(body) - shown))
    hint = _hint(first, len(body) - first - shown, theme)
    rows = [
        *_unclickable([[], *title, [], *read, *body[first : first + shown]]),
        *([Row(hint, {})] if hint or len(foot) > 1 else []),
        *foot[:-1],
        Row([], {}),
        foot[-1],
        Row([], {}),
    ]
    return _assembled(rows, theme, first, shown)


def _fewer(foot: list[Row], lines: int, *, with_tree: bool) -> list[Row]:
    """Return the foot without the choices if it is too high, but with the tree that was chosen."""
    return foot if len(foot) <= lines else foot[-2:] if with_tree else foot[-1:]


def _too_small(theme: Theme, cells: int, height: int) -> Drawing:
    """Return the box of a question that has no room: the reason, as far as it fits, and Cancel."""
    cancel = cancel_row(theme)
    indent = max(0, min(_INDENT, (cells - cells_of(cancel.line)) // 2))
    folded = (fold(text, cells - 2 * indent) for text in _TOO_SMALL)
    fits = (
        texts
        for texts in folded
        if len(texts) < height and max(map(width, texts)) <= cells - 2 * indent
    )
    texts = next(fits, [])
    rows = [*_unclickable(_styled(texts, theme.header_strong)), cancel]
    return _assembled(rows, theme, 0, 0, indent=indent)._replace(answerable=False)


def _cramped(
    title: list[Line], body: list[Line], foot: list[Row], theme: Theme, height: int, first: int
) -> Drawing:
    """Return the box without blank lines: its text scrolls between the title and the foot."""
    shown = max(0, height - len(title) - len(foot))
    first = max(0, min(first, len(body) - shown))
    window = body[first : first + shown]
    below = len(body) - first - shown
    if below > 0 and shown > 1:
        window[-1] = _hint(first, below + 1, theme)
    return _assembled([*_unclickable([*title, *window]), *foot], theme, first, shown)


def _assembled(
    rows: Sequence[Row], theme: Theme, first: int, page: int, *, indent: int = _INDENT
) -> Drawing:
    lines: list[Line] = []
    spots: list[Spot] = []
    for number, row in enumerate(rows):
        left = indent
        for index, segment in enumerate(row.line):
            right = left + width(segment.text)
            if index in row.actions:
                spots.append(Spot(number, left, right, row.actions[index]))
            left = right
        lines.append([Segment(" " * indent, theme.panel), *row.line] if row.line else [])
    return Drawing(lines, spots, first, page)


def _unclickable(lines: Sequence[Line]) -> list[Row]:
    return [Row(line, {}) for line in lines]


def _styled(texts: Sequence[str], style: Style) -> list[Line]:
    return [[Segment(text, style)] for text in texts]


def _notices(question: Question, theme: Theme, room: int) -> list[Line]:
    lines: list[Line] = []
    before = ""
    for label, text, level, _ in question.notices:
        mark = f"{theme.glyphs.cross if label == 'refused' else '!'} "
        texts = fold(text, room - LABEL - len(mark))
        marked = [f"{mark if not number else '  '}{part}" for number, part in enumerate(texts)]
        lines += _labelled("" if label == before else label, marked, on_panel(level, theme), theme)
        before = label
    return lines


def _facts(facts: Sequence[Fact], theme: Theme, room: int) -> list[Line]:
    return [line for fact in facts for line in _fact(fact, theme, room)]


def _fact(fact: Fact, theme: Theme, room: int) -> list[Line]:
    return _labelled(fact.label, _flowed(fact.parts, room - LABEL), theme.panel, theme)


def _entry(entry: Entry, theme: Theme, room: int) -> list[Line]:
    cells = room - LABEL
    mark = theme.glyphs.ellipsis
    texts = fold(entry.text, cells) if entry.is_folded else [cut(entry.text, cells, mark=mark)]
    return _labelled(entry.label, texts, on_panel(entry.level, theme), theme)


def _labelled(label: str, texts: Sequence[str], style: Style, theme: Theme) -> list[Line]:
    labels = [label, *[""] * (len(texts) - 1)]
    return [
        [Segment(pad(each, LABEL), theme.panel_dim), Segment(text, style)]
        for each, text in zip(labels, texts, strict=True)
    ]


def _flowed(parts: Sequence[str], cells: int) -> list[str]:
    """Return parts side by side in columns, as many in a line as fit; a long one is folded."""
    column = max(map(width, parts))
    across = (cells + len(_GAP)) // (column + len(_GAP))
    if across < 2 or len(parts) == 1:
        return [line for part in parts for line in fold(part, cells)]
    return [
        _GAP.join(pad(part, column) for part in parts[start : start + across])
        for start in range(0, len(parts), across)
    ]


def _hint(above: int, below: int, theme: Theme) -> Line:
    """Return how many lines are out of view, empty for none."""
    up, down = theme.glyphs.arrow_up, theme.glyphs.arrow_down
    parts = [f"{up} {above} more" if above else "", f"{down} {below} more" if below else ""]
    text = "   ".join(part for part in parts if part)
    return [Segment(" " * LABEL + text, theme.panel_dim)] if text else []


def on_panel(level: Level, theme: Theme) -> Style:
    """Return the style of a text of this level within the box."""
    return theme.panel if level == "ok" else theme.level(level) + Style(bgcolor=theme.panel.bgcolor)


class QuestionBox(Lines):
    """Shows a drawn question, and posts which of its actions was clicked."""

    class Pressed(Message):
        """Something that acts was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    drawing: Drawing | None = None

    def present(self, drawing: Drawing) -> None:
        """Show another drawing."""
        self.drawing = drawing
        self.show(drawing.lines)

    def on_click(self, event: Click) -> None:
        """Post what is under the pointer."""
        event.stop()
        action = self.drawing.action_at(event.x, event.y) if self.drawing else None
        if action is not None:
            self.post_message(self.Pressed(action))
