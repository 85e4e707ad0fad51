"""The lower end of the question before a signal: what can be chosen, and the buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from gpudash.actions.kill.signals import Signal, signals
from gpudash.model.text import pad, width
from gpudash.tui.actions.kill.question import Question
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.theme import Theme

CANCEL, ACT = 0, 1
"""The buttons, in their order."""

LABEL = 10
"""Cells of the labels at the left."""

_CHIPS = 8


class Row(NamedTuple):
    """A line, with the actions of a click on its segments by their place."""

    line: Line
    actions: dict[int, str]


def foot_rows(question: Question, theme: Theme, button: int, room: int) -> list[Row]:
    """Return what can be chosen, and the buttons as the last line."""
    rows = []
    if question.signal is not None:
        rows.append(_signals(question.signal, theme, room))
    if question.whole is not None:
        box = f"[{'x' if question.whole else ' '}] with the children"
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
    place = every.index(chosen)
    first = max(0, place - _CHIPS + 1)

    def cells(end: int) -> int:
        return sum(width(_chip(each, chosen)) for each in every[first:end])

    while first < place and cells(place + 1) > room:
        first += 1
    end = place + 1
    while end < min(len(every), first + _CHIPS) and cells(end + 1) <= room:
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
    # Without colours reverse video alone tells which button Enter presses.
    texts[button] = f"[{texts[button][1:-1]}]"
    line = [Segment(texts[CANCEL], cancel), Segment("  ", theme.panel), Segment(texts[ACT], act)]
    return Row(line, {0: "cancel", 2: "answer"})
