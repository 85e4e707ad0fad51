"""Builders of a filter's tests: over words, numbers and sets.

An absent value passes no test: it is neither more nor less than anything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from gpudash.model.units import Quantity

Row = TypeVar("Row")

Test = Callable[[Row], bool]
Builder = Callable[[str, str], "Callable[[Row], bool] | None"]
"""Returns a test for an operator and a value; None for an invalid value."""

LOOSE, EXACT, OTHER = ":", "=", "!="
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
WORD_OPERATORS = (LOOSE, EXACT, OTHER)
NUMBER_OPERATORS = (*_COMPARISONS, *WORD_OPERATORS)

_MAX_DIGITS = 10


def of_text(texts: Callable[[Row], Iterable[str]], *, several: bool = False) -> Builder[Row]:
    """Return the builder of a term over words: `:` means contained in one, `=` equal to one.

    Case is ignored. With `several`, commas separate alternatives.
    """

    def build(sign: str, value: str) -> Test[Row] | None:
        whole = value.casefold()
        parts = whole.split(",") if several else [whole]
        if len(parts) > 1 and not all(parts):
            return None
        # The text itself may contain a comma.
        wanted = {whole, *parts}

        def equals(row: Row) -> bool:
            return any(text.casefold() in wanted for text in texts(row))

        def differs(row: Row) -> bool:
            known = {text.casefold() for text in texts(row)}
            return bool(known) and wanted.isdisjoint(known)

        return {LOOSE: containing(texts, wanted), EXACT: equals, OTHER: differs}[sign]

    return build


def containing(texts: Callable[[Row], Iterable[str]], wanted: Collection[str]) -> Test[Row]:
    """Return whether one of a row's texts contains one of the `wanted`, which are casefolded."""

    def contains(row: Row) -> bool:
        # Called for each GPU of a cluster at each letter: a generator takes twice as long.
        for text in texts(row):
            folded = text.casefold()
            for part in wanted:
                if part in folded:
                    return True
        return False

    return contains


def of_number(
    read: Callable[[Row], float | None], quantity: Callable[[str], Quantity | None]
) -> Builder[Row]:
    """Return the builder of a term over a number; `=` rounds to the digits written."""

    def build(sign: str, value: str) -> Test[Row] | None:
        wanted = quantity(value)
        if wanted is None:
            return None
        compare = _COMPARISONS.get(sign)

        def test(row: Row) -> bool:
            number = read(row)
            if number is None:
                return False
            if compare is not None:
                return compare(number, wanted.value)
            return wanted.is_close_to(number) is (sign != OTHER)

        return test

    return build


def of_set(
    read: Callable[[Row], frozenset[str]],
    fits: Callable[[str], Callable[[str], bool] | None],
) -> Builder[Row]:
    """Return the builder of a term over a set: `:` means a common member, `=` no others."""

    def build(sign: str, value: str) -> Test[Row] | None:
        parts = [fits(part) for part in value.split(",")]
        tests = [part for part in parts if part is not None]
        if len(tests) < len(parts):
            return None

        def test(row: Row) -> bool:
            members = read(row)
            found = (any(part(member) for part in tests) for member in members)
            if sign == LOOSE:
                return any(found)
            return bool(members) and all(found) is (sign == EXACT)

        return test

    return build


def in_range(text: str) -> Callable[[str], bool] | None:
    """Return the test of a number for `2` or `0-3`; None for anything else, such as a
    reversed range.
    """
    first, dash, last = text.partition("-")
    if not _is_number(first) or (dash and not _is_number(last)):
        return None
    low, high = int(first), int(last or first)
    if high < low:
        return None
    return lambda number: _is_number(number) and low <= int(number) <= high


def on_gpus(text: str) -> Callable[[str], bool] | None:
    """Return the test of a label for `2`, `0-3` or the MIG instance `0:1`; None for others.

    A MIG instance matches its parent too.
    """
    if ":" in text:
        parts = text.split(":")
        return text.__eq__ if len(parts) == 2 and all(map(_is_number, parts)) else None
    fits = in_range(text)
    if fits is None:
        return None
    return lambda label: fits(label.partition(":")[0])


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def is_type(text: str) -> Callable[[str], bool] | None:
    """Return the test for a process type; None for any other word."""
    letter = text.upper()
    return letter.__eq__ if letter in ("C", "G", "M") else None
