"""Why a filter that is no mistake lets nothing through, where its words alone tell."""

from __future__ import annotations

from collections.abc import Collection

from gpudash.analysis.filter.predicates import EXACT, LOOSE, in_range
from gpudash.analysis.filter.terms import BY_NAME
from gpudash.analysis.filter.words import Word, split
from gpudash.analysis.labels import index_ranges

_OR_SIGNS = "|()"


def hint(text: str, labels: Collection[str]) -> str:
    """Return what its author may have meant otherwise, empty if no word of the filter tells.

    `labels` are those of the devices that there are. Raises FilterError for what is no filter.
    """
    hints = (_hint(word, labels) for word in split(text) if not word.negated)
    return next(filter(None, hints), "")


def _hint(word: Word, labels: Collection[str]) -> str:
    term = BY_NAME.get(word.name.lower().replace("-", "_"))
    if term is None:
        return _of_plain(word)
    if term is BY_NAME["gpu"] and word.sign in (LOOSE, EXACT):
        return _of_gpus(word.value, labels)
    if ">" in term.operators and word.sign in (LOOSE, EXACT):
        return f"{word.written} is about equal: {word.name}>{word.value} is more"
    return ""


def _of_plain(word: Word) -> str:
    if word.written.startswith(('"', "'")) or not set(_OR_SIGNS) & set(word.plain):
        return ""
    return f"{word.written} is looked for as it stands: there is no or, all words must fit"


def _of_gpus(value: str, labels: Collection[str]) -> str:
    tests = [test for part in value.split(",") if (test := in_range(part))]
    if not labels or any(test(label) for test in tests for label in labels):
        return ""
    there = index_ranges(int(label) for label in labels if label.isdecimal())
    return f"there is no GPU {value}: choose from {there}"
