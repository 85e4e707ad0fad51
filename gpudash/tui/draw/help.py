"""The list of keys by group, and the terms of a filter, in one column or two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, zip_longest

from rich.segment import Segment

from gpudash.analysis.filter.terms import TERMS
from gpudash.model.text import fold, pad, width
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.keymap import Key
from gpudash.tui.theme import Theme

COLUMN = 60
"""Cells of a column, where there are so many."""

_KEY_CELLS, _TERM_CELLS, _INDENT = 7, 15, 2

_LEAST = 8
"""Cells of a text that are worth folding it to."""

_FILTER = "Filter"
_FILTER_INTRO = "plain words: in PID, owner, command, job; - before a word: not"


def help_lines(keys: Sequence[Key], look: Theme, cells: int) -> list[Line]:
    """Return everything, in two columns where they fit."""
    blocks = []
    column = min(COLUMN, cells)
    for name, group in groupby(keys, _group):
        blocks.append(_block(name, list(group), look, column))
        if name == _FILTER:
            blocks.append(_terms(look, column))
    if cells < 2 * COLUMN:
        return [line for block in blocks for line in [*block, []]]
    left, right = _halves(blocks)
    return [
        [*fitted(one or [], COLUMN, look.panel), *fitted(other or [], COLUMN, look.panel)]
        for one, other in zip_longest(left, right)
    ]


def _group(key: Key) -> str:
    return key.group


def _block(name: str, keys: Sequence[Key], look: Theme, column: int) -> list[Line]:
    lines = [_title(name, look)]
    for key in keys:
        shown = pad(key.shown, max(_KEY_CELLS, min(width(key.shown), 2 * _KEY_CELLS)))
        lines += _entry(shown, key.help, look, column)
    return lines


def _terms(look: Theme, column: int) -> list[Line]:
    lines = [_title("Filter terms", look), *_entry("", _FILTER_INTRO, look, column)]
    for term in TERMS:
        example = pad(term.example, max(_TERM_CELLS, width(term.example)))
        lines += _entry(example, term.help, look, column)
    return lines


def _title(name: str, look: Theme) -> Line:
    return [Segment(" " * _INDENT + name, look.header_strong)]


def _entry(lead: str, text: str, look: Theme, column: int) -> list[Line]:
    """Return a text behind what it explains, on as many lines as it takes."""
    lead += " " if lead else ""
    leads = [lead, " " * width(lead)]
    return [
        [
            Segment(" " * _INDENT, look.panel),
            Segment(leads[min(number, 1)], look.key),
            Segment(part, look.panel),
        ]
        for number, part in enumerate(fold(text, max(_LEAST, column - 2 * _INDENT - width(lead))))
    ]


def _halves(blocks: Sequence[list[Line]]) -> tuple[list[Line], list[Line]]:
    """Return whole blocks in two columns as even as their order allows."""
    total = sum(len(block) + 1 for block in blocks)
    columns: tuple[list[Line], list[Line]] = ([], [])
    taken = 0
    for block in blocks:
        column = columns[0 if taken + (len(block) + 1) // 2 <= total // 2 else 1]
        column += [*block, []]
        taken += len(block) + 1
    return columns
