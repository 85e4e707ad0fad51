"""The question before a signal as lines of a box, with the places in it that can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.health.levels import Level
from gpudash.model.text import cut, fold, pad, width
from gpudash.tui.actions.kill.question import Entry, Fact, Question
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.draw.question_foot import LABEL, Row, cancel_row, foot_rows
from gpudash.tui.theme import Theme

_INDENT = 3
_NARROW, _WIDE = 76, 108
_MARGIN = 12
_GAP = "   "
_MOST_ENTRIES = 14
_LEAST_ENTRIES = 2
_LEAST_CELLS = 24
"""What is narrower is cut off."""

_TOO_SMALL = (
    "The terminal is too small for this question.",
    "The terminal is too small.",
    "too small to ask",
    "too small",
)
"""What is said instead of a question that could not be read: the first of them that fits."""

_BLANKS = 5
_UNLIMITED = 1000
"""Lines that no question has."""


class Spot(NamedTuple):
    """Cells of a line, from `left` to before `right`, and the action of a click on them."""

    line: int
    left: int
    right: int
    action: str


class Drawing(NamedTuple):
    """The lines of the box, where it can be clicked, and from which line on it is scrolled."""

    lines: list[Line]
    spots: list[Spot]
    first: int
    page: int
    """Lines of the part that scrolls."""
    answerable: bool = True
    """Whether what is asked, about whom, and the button that acts can be read."""

    def action_at(self, x: int, y: int) -> str | None:
        """Return what a click on a cell does."""
        for spot in self.spots:
            if spot.line == y and spot.left <= x < spot.right:
                return spot.action
        return None


def box_width(question: Question, theme: Theme, cells: int) -> int:
    """Return the width of the box on a terminal of so many cells: no wider than what it says."""
    if cells < _NARROW + 2 * _MARGIN:
        return max(1, min(_NARROW, cells))
    widest = min(_WIDE, cells - _MARGIN)
    lines = draw(question, theme, widest, _UNLIMITED, first=0, button=0).lines
    return max(_NARROW, min(widest, max(map(cells_of, lines)) + _INDENT))


def draw(
    question: Question, theme: Theme, cells: int, height: int, *, first: int, button: int
) -> Drawing:
    """Return the box for a width, in at most so many lines; `button` is the one in focus.

    Where it could not be read what is asked, about whom, and what the answer does, the box says
    so and leaves Cancel alone.
    """
    room = max(_LEAST_CELLS, cells - 2 * _INDENT)
    title = _plain(fold(question.title, room), theme.header_strong)
    notices = _notices(question, theme, room)
    who = _facts([fact for fact in question.facts if fact.names], theme, room)
    facts = _facts([fact for fact in question.facts if not fact.names], theme, room)
    acts = question.action is not None
    # Why nothing can be done is read before about whom.
    told = [*who, *facts, *notices] if acts else [*notices, *who, *facts]
    body = [line for entry in question.entries for line in _entry(entry, theme, room)]
    foot = foot_rows(question, theme, button, room)
    if acts and max(map(cells_of, [*title, *who, foot[-1].line])) + _INDENT > cells:
        return _too_small(theme, cells, height)
    spare = height - len(title) - len(told) - len(foot) - _BLANKS
    shown = min(len(body), _MOST_ENTRIES, max(spare, _LEAST_ENTRIES))
    if shown > spare and acts:
        foot = _fewer(foot, height - len(title) - len(who) - 1, whole=bool(question.whole))
        if len(title) + len(who) + 1 + len(foot) > height:
            return _too_small(theme, cells, height)
        return _cramped([*title, *who], [*notices, *facts, *body], foot, theme, height, first)
    if shown > spare:
        title = title[: max(0, height - len(foot) - _LEAST_ENTRIES, height - len(foot) > 0)]
        return _cramped(title, [*told, *body], foot, theme, height, first)
    first = max(0, min(first, len(body) - shown))
    hint = _hint(first, len(body) - first - shown, theme)
    rows = [
        *_unmoved([[], *title, [], *told, *body[first : first + shown]]),
        *([Row(hint, {})] if hint or len(foot) > 1 else []),
        *foot[:-1],
        Row([], {}),
        foot[-1],
        Row([], {}),
    ]
    return _assembled(rows, theme, first, shown)


def _fewer(foot: list[Row], lines: int, *, whole: bool) -> list[Row]:
    """Return the foot without what can be chosen where that is too much, but with what was."""
    return foot if len(foot) <= lines else foot[-2:] if whole else foot[-1:]


def _too_small(theme: Theme, cells: int, height: int) -> Drawing:
    """Return the box of a question that has no room: as much of why as fits, and Cancel."""
    cancel = cancel_row(theme)
    indent = max(0, min(_INDENT, cells - cells_of(cancel.line)))
    told = (fold(text, cells - 2 * indent) for text in _TOO_SMALL)
    fits = (
        texts
        for texts in told
        if len(texts) < height and max(map(width, texts)) <= cells - 2 * indent
    )
    texts = next(fits, [])
    rows = [*_unmoved(_plain(texts, theme.header_strong)), cancel]
    return _assembled(rows, theme, 0, 0, indent=indent)._replace(answerable=False)


def _cramped(
    title: list[Line], body: list[Line], foot: list[Row], theme: Theme, height: int, first: int
) -> Drawing:
    """Return the box without blank lines: what is told scrolls between the title and the foot."""
    shown = max(0, height - len(title) - len(foot))
    first = max(0, min(first, len(body) - shown))
    window = body[first : first + shown]
    below = len(body) - first - shown
    if below > 0 and shown > 1:
        window[-1] = _hint(first, below + 1, theme)
    return _assembled([*_unmoved([*title, *window]), *foot], theme, first, shown)


def _assembled(
    rows: Sequence[Row], theme: Theme, first: int, page: int, *, indent: int = _INDENT
) -> Drawing:
    lines: list[Line] = []
    spots: list[Spot] = []
    for number, row in enumerate(rows):
        left = indent
        for place, segment in enumerate(row.line):
            right = left + width(segment.text)
            if place in row.actions:
                spots.append(Spot(number, left, right, row.actions[place]))
            left = right
        lines.append([Segment(" " * indent, theme.panel), *row.line] if row.line else [])
    return Drawing(lines, spots, first, page)


def _unmoved(lines: Sequence[Line]) -> list[Row]:
    return [Row(line, {}) for line in lines]


def _plain(texts: Sequence[str], style: Style) -> list[Line]:
    return [[Segment(text, style)] for text in texts]


def _notices(question: Question, theme: Theme, room: int) -> list[Line]:
    lines: list[Line] = []
    before = ""
    for label, text, level in question.notices:
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
    texts = fold(entry.text, cells) if entry.whole else [cut(entry.text, cells, mark=mark)]
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
    """Return how much is out of view, nothing if all is in it."""
    up, down = theme.glyphs.arrow_up, theme.glyphs.arrow_down
    parts = [f"{up} {above} more" if above else "", f"{down} {below} more" if below else ""]
    text = "   ".join(part for part in parts if part)
    return [Segment(" " * LABEL + text, theme.panel_dim)] if text else []


def on_panel(level: Level, theme: Theme) -> Style:
    """Return how a text of this level looks within the box."""
    return theme.panel if level == "ok" else theme.level(level) + Style(bgcolor=theme.panel.bgcolor)
