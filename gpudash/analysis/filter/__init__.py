"""The filter of processes: `alice train`, `gpu:0-3 mem>10G util<5`, `-user:root idle>10m`.

Plain words are searched for in PID, owner, command and job, terms test one value; all must match. A
- or ! before a word negates it; quotes keep spaces and make any text a plain word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Generic

from msgspec import Struct

from gpudash.analysis.filter.predicates import EXACT, LOOSE, Row, Test, containing, on_gpus
from gpudash.analysis.filter.terms import BY_NAME, TERMS, Term, searched
from gpudash.analysis.filter.words import Word, split
from gpudash.analysis.labels import index_ranges
from gpudash.analysis.table import ProcessRow
from gpudash.model.errors import FilterError

MAX_LENGTH = 1000
"""Characters of a filter."""


class Clause(Struct, Generic[Row], frozen=True):
    """One word of a filter: a test, and whether it must fail instead."""

    test: Test[Row]
    negated: bool
    term: str = ""
    """The first name of its term, empty for a plain word."""


class Filter(Struct, Generic[Row], frozen=True):
    """A condition on processes, or on other rows: all clauses must hold."""

    text: str
    """As typed."""
    clauses: tuple[Clause[Row], ...] = ()

    def matches(self, row: Row) -> bool:
        """Whether a row matches."""
        return all(clause.test(row) is not clause.negated for clause in self.clauses)

    def __str__(self) -> str:
        return self.text


EVERYTHING: Filter[ProcessRow] = Filter("")
"""The empty filter."""


class Grammar(Generic[Row]):
    """The terms and plain words allowed in filters of one kind of rows."""

    def __init__(
        self, terms: Sequence[Term[Row]], searched: Callable[[Row], Iterable[str]]
    ) -> None:
        """`searched` returns the texts of a row to search for plain words."""
        self._terms = tuple(terms)
        self._by_name = {name: term for term in terms for name in term.names}
        self._searched = searched

    def parse(self, text: str) -> Filter[Row]:
        """Return the filter of a text; an empty one matches everything.

        Raises FilterError, which lists valid values, even for an incomplete term.
        """
        if len(text) > MAX_LENGTH:
            raise FilterError(
                f"the filter is longer than {MAX_LENGTH} characters", MAX_LENGTH, len(text)
            )
        return Filter(text, tuple(self._clause(word) for word in split(text)))

    def understood(self, text: str) -> tuple[Filter[Row] | None, FilterError | None]:
        """Return the filter without its first invalid word, None if others are invalid too."""
        try:
            return self.parse(text), None
        except FilterError as error:
            try:
                return self.parse(text[: error.start] + text[error.end :]), error
            except FilterError:
                return None, error

    def term(self, word: Word) -> Term[Row] | None:
        """Return the term that a word names."""
        return self._by_name.get(word.name.lower().replace("-", "_"))

    def _clause(self, word: Word) -> Clause[Row]:
        if not word.sign:
            return Clause(self._plain(word.plain), word.negated)
        term = self.term(word)
        if term is not None:
            return Clause(_test(term, word), word.negated, term.names[0])
        if not word.name and word.sign[0] in "<>":
            raise _error(word, f"needs a term before the {word.sign[0]}, such as util<5")
        # Options of commands are written with = (lr=0.1), and no name begins with a dash.
        if word.name and word.sign != "=" and not word.name.startswith("-"):
            choices = " ".join(term.example for term in self._terms)
            raise _error(
                word,
                f"is not a filter term: quote it to search for the text, or choose from {choices}",
            )
        return Clause(self._plain(word.plain), word.negated)

    def _plain(self, text: str) -> Test[Row]:
        return containing(self._searched, (text.casefold(),))


def _test(term: Term[Row], word: Word) -> Test[Row]:
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


_PROCESSES = Grammar(TERMS, searched)
parse, understood, _term = _PROCESSES.parse, _PROCESSES.understood, _PROCESSES.term


def names_term(text: str, name: str) -> bool:
    """Whether a filter tests this term; raises FilterError for an unclosed quote."""
    return any(word.sign and _term(word) is BY_NAME[name] for word in split(text))


_OR_SIGNS = "|()"


def hint(text: str, labels: Collection[str]) -> str:
    """Return what the author may have meant instead, empty if no word is suspicious.

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
    tests = [test for part in value.split(",") if (test := on_gpus(part))]
    if not labels or any(test(label) for test in tests for label in labels):
        return ""
    there = index_ranges(int(label) for label in labels if label.isdecimal())
    return f"there is no GPU {value}: choose from {there}"
