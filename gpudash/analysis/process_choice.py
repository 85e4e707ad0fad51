"""The choice and order of processes in a printed table or document."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.filter import Filter, names_term, parse
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.forest import TREE, forest
from gpudash.analysis.table import Column, ProcessRow, largest_first, process_rows
from gpudash.model.errors import FilterError, UsageError
from gpudash.model.snapshot import Snapshot

_MAX_PID_DIGITS = 10
_NEEDS_PAST = "idle"
"""The term that never matches in the first sample of a host: all idle times start with it."""

_COLUMNS = {column.key: column for column in (*PROCESS_COLUMNS, TREE)}
SORT_COLUMNS = _COLUMNS | {
    name: _COLUMNS[key]
    for term in TERMS
    for key in _COLUMNS.keys() & term.names
    for name in term.names
}
"""The columns of --sort by name: their keys, and those of the filter."""


class ProcessChoice(NamedTuple):
    """Conditions that must all hold, and the sort columns, by precedence.

    With `tree` among these, the others order siblings.
    """

    conditions: tuple[Callable[[ProcessRow], bool], ...] = ()
    sort: tuple[Column[ProcessRow], ...] = ()

    def rows(self, snapshot: Snapshot) -> list[ProcessRow]:
        """Return the matching processes, with ties in the snapshot's order."""
        everything = process_rows(snapshot)
        rows = [row for row in everything if all(holds(row) for holds in self.conditions)]
        for column in reversed(self.sort):
            rows.sort(key=column.sort_key, reverse=largest_first(column))
        return forest(rows, everything) if TREE in self.sort else rows


def choose(
    *,
    filter: str | None = None,
    sort: str | None = None,
    users: str | None = None,
    pids: str | None = None,
    has_past: bool = False,
) -> ProcessChoice | None:
    """Return the choice from options, None for all; raises UsageError.

    `has_past` is whether it is based on more than the first sample of a host.
    """
    conditions: list[Callable[[ProcessRow], bool]] = []
    if filter is not None:
        conditions.append(_filter(filter, has_past=has_past).matches)
    if users is not None:
        names = frozenset(_words("--user", users, "names such as alice,bob"))
        conditions.append(lambda row: row.process.username in names)
    if pids is not None:
        numbers = _pids(pids)
        conditions.append(lambda row: row.process.pid in numbers)
    columns = () if sort is None else _columns(sort)
    return ProcessChoice(tuple(conditions), columns) if conditions or columns else None


def _filter(text: str, *, has_past: bool) -> Filter[ProcessRow]:
    try:
        if not has_past and names_term(text, _NEEDS_PAST):
            why = "one sample does not tell how long a process is idle: add --loop or --replay"
            raise UsageError(f"--filter {text!r}: {why}")
        return parse(text)
    except FilterError as error:
        raise UsageError(f"--filter: {error}") from None


def _columns(text: str) -> tuple[Column[ProcessRow], ...]:
    columns = []
    for typed in _words("--sort", text, "columns"):
        column = SORT_COLUMNS.get(typed.replace("-", "_").lower())
        if column is None:
            known = ", ".join(name for name, each in SORT_COLUMNS.items() if name == each.key)
            raise UsageError(f"--sort {typed[:40]!r}: choose from {known}")
        columns.append(column)
    return tuple(columns)


def _pids(text: str) -> frozenset[int]:
    expected = "PIDs such as 4242,77"
    words = _words("--pid", text, expected)
    if not all(word.isdecimal() and len(word) <= _MAX_PID_DIGITS for word in words):
        raise UsageError(f"--pid {text[:40]!r}: expected {expected}")
    return frozenset(map(int, words))


def _words(option: str, text: str, expected: str) -> list[str]:
    """Return the words between commas; an unset variable of a script must not mean all."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise UsageError(f"{option} {text[:40]!r}: expected {expected}")
    return words
