"""One line of the screen as segments: joining, fitting to a width, spreading to both ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style

from gpudash.model.text import cut, width
from gpudash.tui.theme import Theme

Line = list[Segment]
"""Text with styles, from left to right."""

_SIGNS_IN_ASCII = str.maketrans({"°": "", "µ": "u"})


def joined(segments: Iterable[Segment]) -> Line:
    """Return the segments without empty ones, merging neighbours of one style."""
    line: Line = []
    for segment in segments:
        if not segment.text:
            continue
        if line and line[-1].style is segment.style:
            line[-1] = Segment(line[-1].text + segment.text, segment.style)
        else:
            line.append(segment)
    return line


def cells_of(segments: Iterable[Segment]) -> int:
    """Return how many cells the segments take."""
    return sum(width(segment.text) for segment in segments)


def fitted(segments: Sequence[Segment], cells: int, blank: Style) -> Line:
    """Return the segments cut off or padded to exactly `cells` cells."""
    line: Line = []
    room = cells
    for segment in segments:
        text = segment.text
        taken = len(text) if text.isascii() else width(text)
        if taken > room:
            text = cut(text, room, mark="")
            line.append(Segment(text, segment.style))
            room -= width(text)
            break
        line.append(segment)
        room -= taken
    if room > 0:
        line.append(Segment(" " * room, blank))
    return line


def fit_parts(parts: Iterable[Sequence[Segment]], cells: int, more: Segment | None = None) -> Line:
    """Return whole parts up to the first that does not fit; `more` stands for the others."""
    whole = list(parts)
    end = width(more.text) if more else 0
    line: Line = []
    room = cells
    for number, part in enumerate(whole):
        taken = cells_of(part)
        if taken + (end if number + 1 < len(whole) else 0) > room:
            return [*line, more] if more and end <= room else line
        line += part
        room -= taken
    return line


def spread(left: Sequence[Segment], right: Sequence[Segment], cells: int, blank: Style) -> Line:
    """Return one line with `left` at its beginning and `right`, which has priority, at its end."""
    end = fitted(right, min(cells, cells_of(right)), blank)
    return joined([*fitted(left, cells - cells_of(end), blank), *end])


def in_view(first: int, shown: int, count: int) -> str:
    """Return which rows are in view, from index `first` on: `1-20 of 1,000`; "" for all."""
    if shown >= count:
        return ""
    last = first + shown
    which = f"{last:,}" if shown == 1 else f"{first + 1:,}-{last:,}"
    return f"{which} of {count:,}"


def beside(lines: Sequence[Line | None], room: int, blank: Style) -> Line:
    """Return lines side by side, each but the last in exactly `room` cells."""
    *others, last = lines
    before = [segment for line in others for segment in fitted(line or [], room, blank)]
    return [*before, *(last or [])]


def highlighted(line: Sequence[Segment], theme: Theme, cells: int, *, focused: bool = True) -> Line:
    """Return a line in exactly `cells` cells, highlighted as under the cursor."""
    over = theme.selected if focused else _receding(theme.panel)
    return joined(
        Segment(text, (style or theme.base) + over)
        for text, style, _ in fitted(line, cells, theme.base)
    )


def _receding(panel: Style) -> Style:
    """Return the style of the cursor in a part without the focus."""
    ground = panel.bgcolor
    return Style(bold=True) if ground is None or ground.is_default else Style(bgcolor=ground)


def with_signs(text: str, theme: Theme) -> str:
    """Return a text with unit signs, in ASCII if nothing else can be drawn."""
    return text.translate(_SIGNS_IN_ASCII) if theme.is_ascii else text
