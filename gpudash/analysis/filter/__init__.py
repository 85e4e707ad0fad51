"""The filter of processes: `alice train`, `gpu:0-3 mem>10G sm<5`, `-user:root idle>10m`.

Plain words are searched for in PID, owner, command and job, terms test one value; all must match.
A - or ! before a word negates it, quotes keep spaces and make any text a plain word.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from gpudash.analysis.filter.predicates import EXACT, LOOSE, Test, in_range, of_text
from gpudash.analysis.filter.terms import BY_NAME, TERMS, Term, searched
from gpudash.analysis.filter.words import Word, split
from gpudash.analysis.labels import index_ranges
from gpudash.analysis.table import ProcessRow
from gpudash.model.errors import FilterError

MAX_LENGTH = 1000
"""Characters of a filter."""

_ANYWHERE = of_text(searched)


class Clause(Struct, frozen=True):
    """One word of a filter: a test, and whether it must fail instead."""

    test: Test
    negated: bool


class Filter(Struct, frozen=True):
    """A condition on processes: all clauses must hold."""

    text: str
    """As it was typed."""
    clauses: tuple[Clause, ...] = ()

    def matches(self, row: ProcessRow) -> bool:
        """Whether a process matches."""
        return all(clause.test(row) is not clause.negated for clause in self.clauses)

    def __str__(self) -> str:
        return self.text


EVERYTHING = Filter("")
"""The empty filter."""


def parse(text: str) -> Filter:
    """Return the filter of a text; an empty one matches everything.

    Raises FilterError, which names what is valid, also for a term that is still incomplete.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(
            f"the filter is longer than {MAX_LENGTH} characters", MAX_LENGTH, len(text)
        )
    return Filter(text, tuple(_clause(word) for word in split(text)))


def names_term(text: str, name: str) -> bool:
    """Whether a filter tests this term; raises FilterError for a quote that is not closed."""
    return any(word.sign and _term(word) is BY_NAME[name] for word in split(text))


def _clause(word: Word) -> Clause:
    if not word.sign:
        return Clause(_plain(word.plain), word.negated)
    term = _term(word)
    if term is not None:
        return Clause(_test(term, word), word.negated)
    if not word.name and word.sign[0] in "<>":
        raise _error(word, f"needs a term before the {word.sign[0]}, such as sm<5")
    # Options of commands are written with = (lr=0.1), and no name begins with a dash.
    if word.name and "=" not in word.sign and not word.name.startswith("-"):
        choices = " ".join(term.example for term in TERMS)
        raise _error(
            word, f"is not a filter term: quote it to search for the text, or choose from {choices}"
        )
    return Clause(_plain(word.plain), word.negated)


def _plain(text: str) -> Test:
    test = _ANYWHERE(LOOSE, text)
    assert test is not None
    return test


def _test(term: Term, word: Word) -> Test:
    if word.sign not in term.operators:
        choices = " ".join(word.name + sign for sign in term.operators)
        raise _error(word, f"cannot be ordered: choose from {choices}")
    if not word.value:
        raise _error(word, f"is incomplete: expected {term.values}")
    test = term.test(word.sign, word.value)
    if test is None:
        raise _error(word, f"cannot be compared: expected {term.values}")
    return test


def _error(word: Word, problem: str) -> FilterError:
    return FilterError(f'"{word.written}" {problem}', word.start, word.end)


def _term(word: Word) -> Term | None:
    return BY_NAME.get(word.name.lower().replace("-", "_"))


_OR_SIGNS = "|()"


def hint(text: str, labels: Collection[str]) -> str:
    """Return what the author may have meant instead, empty if no word of the filter is suspicious.

    `labels` are those of the existing devices. Raises FilterError for an invalid filter.
    """
    hints = (_hint(word, labels) for word in split(text) if not word.negated)
    return next(filter(None, hints), "")


def _hint(word: Word, labels: Collection[str]) -> str:
    term = _term(word)
    if term is None:
        return _plain_hint(word)
    if term is BY_NAME["gpu"] and word.sign in (LOOSE, EXACT):
        return _gpu_hint(word.value, labels)
    if ">" in term.operators and word.sign in (LOOSE, EXACT):
        return f"{word.written} means about equal; {word.name}>{word.value} means more"
    return ""


def _plain_hint(word: Word) -> str:
    if word.written.startswith(('"', "'")) or not set(_OR_SIGNS) & set(word.plain):
        return ""
    return f"{word.written} is searched for literally: there is no OR, all words must match"


def _gpu_hint(value: str, labels: Collection[str]) -> str:
    tests = [test for part in value.split(",") if (test := in_range(part))]
    if not labels or any(test(label) for test in tests for label in labels):
        return ""
    there = index_ranges(int(label) for label in labels if label.isdecimal())
    return f"there is no GPU {value}: choose from {there}"
