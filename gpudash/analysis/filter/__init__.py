"""Which processes are shown: `alice train`, `gpu:0-3 mem>10G sm<5`, `-user:root idle>10m`.

Plain words are looked for in PID, owner, command and job, terms look at one value; all of them
must fit. A - or ! before a word negates it, quotes keep spaces and make any text a plain word.
"""

from __future__ import annotations

from msgspec import Struct

from gpudash.analysis.filter.predicates import LOOSE, Test, of_text
from gpudash.analysis.filter.terms import BY_NAME, TERMS, Term, Word, hint, quoted, searched, split
from gpudash.analysis.table import ProcessRow
from gpudash.model.errors import FilterError

__all__ = ["EVERYTHING", "LIMIT", "TERMS", "Filter", "Term", "hint", "parse", "quoted"]

LIMIT = 1000
"""Characters that a filter may have."""

_ANYWHERE = of_text(searched)


class Clause(Struct, frozen=True):
    """One word of a filter: a test, and whether it must fail instead."""

    test: Test
    negated: bool


class Filter(Struct, frozen=True):
    """A question to each process, all of whose clauses must be answered with yes."""

    text: str
    """As it was typed."""
    clauses: tuple[Clause, ...] = ()

    def matches(self, row: ProcessRow) -> bool:
        """Whether a process is to be shown."""
        return all(clause.test(row) is not clause.negated for clause in self.clauses)

    def __str__(self) -> str:
        return self.text


EVERYTHING = Filter("")
"""The filter that was not typed yet."""


def parse(text: str) -> Filter:
    """Return the filter that a text asks for; an empty one shows everything.

    Raises FilterError, which names what is valid, also for a term that is not yet whole.
    """
    if len(text) > LIMIT:
        raise FilterError(f"the filter is longer than {LIMIT} characters", LIMIT, len(text))
    return Filter(text, tuple(_clause(word) for word in split(text)))


def _clause(word: Word) -> Clause:
    if not word.sign:
        return Clause(_plain(word.plain), word.negated)
    term = BY_NAME.get(word.name.lower().replace("-", "_"))
    if term is not None:
        return Clause(_test(term, word), word.negated)
    if not word.name and word.sign[0] in "<>":
        raise _error(word, f"needs a term right before the {word.sign[0]}, such as sm<5")
    # Options are written with = (lr=0.1), and what begins with a sign can be no name.
    if word.name and "=" not in word.sign and not word.name.startswith("-"):
        choices = " ".join(term.example for term in TERMS)
        raise _error(word, f"is no term: quote it to find the text, or choose from {choices}")
    return Clause(_plain(word.plain), word.negated)


def _plain(text: str) -> Test:
    test = _ANYWHERE(LOOSE, text)
    assert test is not None
    return test


def _test(term: Term, word: Word) -> Test:
    if word.sign not in term.operators:
        choices = " ".join(word.name + sign for sign in term.operators)
        raise _error(word, f"compares what has no order: choose from {choices}")
    if not word.value:
        raise _error(word, f"is not whole: {term.values} comes next")
    test = term.test(word.sign, word.value)
    if test is None:
        raise _error(word, f"cannot be compared: expected {term.values}")
    return test


def _error(word: Word, problem: str) -> FilterError:
    return FilterError(f'"{word.written}" {problem}', word.start, word.end)
