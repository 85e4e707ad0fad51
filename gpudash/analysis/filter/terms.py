"""The terms of a filter: what `user:`, `mem>`, `idle>` ... look at, and what they compare it to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from gpudash.analysis.filter.predicates import (
    EXACT,
    LOOSE,
    NUMBER_OPERATORS,
    WORD_OPERATORS,
    Builder,
    in_range,
    is_type,
    of_number,
    of_set,
    of_text,
)
from gpudash.analysis.labels import command, index_ranges
from gpudash.analysis.table import ProcessRow, sm_utilization_percent
from gpudash.model import units
from gpudash.model.errors import FilterError
from gpudash.model.text import SafeText, clean
from gpudash.model.units import ABSENT


class Term(Struct, frozen=True, kw_only=True):
    """One term: its names, the first of which is told, an example, and how its tests are made."""

    names: tuple[str, ...]
    example: str
    help: str
    values: str
    """What may stand behind the operator, for the message about a wrong value."""
    operators: tuple[str, ...]
    test: Builder


def _gpus(row: ProcessRow) -> frozenset[str]:
    """Return the indices of the GPUs that it uses whole, and the labels of its MIG instances."""
    instances = {label for label in row.gpus.split(",") if ":" in label}
    parents = {label.partition(":")[0] for label in instances}
    indices = {str(device.index) for device in row.process.devices}
    return frozenset(indices - parents | instances)


def _types(row: ProcessRow) -> frozenset[str]:
    return frozenset(filter(None, row.process.type.split("+")))


def _user(row: ProcessRow) -> Iterable[str]:
    return () if row.process.username is None else (row.process.username,)


def _job(row: ProcessRow) -> Iterable[str]:
    """Return what a job is called: as it is shown, its kind, and its ids in full."""
    job = row.process.job
    if job is None:
        return ()
    return filter(None, (job.label, job.kind, job.id, job.runtime, job.container))


def _command(row: ProcessRow) -> Iterable[str]:
    return [text for text in (command(row.process), row.process.name) if text and text != ABSENT]


def searched(row: ProcessRow) -> Iterable[str]:
    """Return what a plain word is looked for in: PID, owner, command and job."""
    return (str(row.process.pid), *_user(row), *_command(row), *_job(row))


_SIZE, _SPAN, _SHARE = "a size such as 10G or 512M", "a time such as 10m or 2h", "a percentage"
_NAMES = "a name, or several such as alice,bob"

TERMS: tuple[Term, ...] = (
    Term(
        names=("user", "owner"),
        example="user:alice",
        help="owner or a part of the name, or several: alice,bob; user=alice is the whole name",
        values=_NAMES,
        operators=WORD_OPERATORS,
        test=of_text(_user, several=True),
    ),
    Term(
        names=("gpu", "gpus"),
        example="gpu:0-3,6",
        help="uses one of these GPUs; gpu=0 uses no other",
        values="GPUs such as 2, 0-3,6 or the MIG instance 0:1",
        operators=WORD_OPERATORS,
        test=of_set(_gpus, in_range),
    ),
    Term(
        names=("mem", "memory", "gpu_mem", "gpu_memory"),
        example="mem>10G",
        help="GPU memory over all its GPUs",
        values=_SIZE,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: row.process.used_gpu_memory_bytes, units.parse_size),
    ),
    Term(
        names=("sm",),
        example="sm<5",
        help="SM utilization in percent over all its GPUs",
        values=_SHARE,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: sm_utilization_percent(row.process), units.parse_percentage),
    ),
    Term(
        names=("type",),
        example="type:C",
        help="C compute, G graphics, M client of an MPS server, or several",
        values="C, G or M, or several such as C,M",
        operators=WORD_OPERATORS,
        test=of_set(_types, is_type),
    ),
    Term(
        names=("pid",),
        example="pid:4242",
        help="process id, a range or several",
        values="PIDs such as 4242 or 4000-4999,77",
        operators=WORD_OPERATORS,
        test=of_set(lambda row: frozenset((str(row.process.pid),)), in_range),
    ),
    Term(
        names=("job",),
        example="job:slurm",
        help="container, pod, Slurm job or unit: kind, name or id, or several",
        values=_NAMES,
        operators=WORD_OPERATORS,
        test=of_text(_job, several=True),
    ),
    Term(
        names=("cmd", "command"),
        example='cmd:"train.py --lr"',
        help="a part of the command line",
        values="a text",
        operators=WORD_OPERATORS,
        test=of_text(_command),
    ),
    Term(
        names=("cpu",),
        example="cpu>50",
        help="CPU time in percent, 100 is a core",
        values=_SHARE,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: row.process.cpu_percent, units.parse_percentage),
    ),
    Term(
        names=("rss", "resident_memory"),
        example="rss>1G",
        help="host memory",
        values=_SIZE,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: row.process.resident_memory_bytes, units.parse_size),
    ),
    Term(
        names=("age", "time"),
        example="age>2h",
        help="time since it started",
        values=_SPAN,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: row.age_seconds, units.parse_span),
    ),
    Term(
        names=("idle",),
        example="idle>10m",
        help="time since it last used a GPU",
        values=_SPAN,
        operators=NUMBER_OPERATORS,
        test=of_number(lambda row: row.idle_seconds, units.parse_span),
    ),
)
"""Every term, in the order in which help and messages name them."""

BY_NAME: Mapping[str, Term] = {name: term for term in TERMS for name in term.names}


_QUOTES = "\"'"
_SIGNS = (">=", "<=", "!=", "==", ">", "<", "=", ":")
"""The longer ones first, of which the shorter are a part."""

_SHOWN = 40


class Word(NamedTuple):
    """A word of a filter: `-mem>10G` is negated, has a name, a sign and a value."""

    start: int
    end: int
    written: SafeText
    """As it was typed, cut and cleaned for messages."""
    negated: bool
    name: str
    """What stands before the sign; empty in a word that is quoted or has no sign."""
    sign: str
    value: str
    """What stands behind the sign, without its quotes."""
    plain: str
    """The word without its negation and its quotes."""


def quoted(text: str) -> str:
    """Return the word that looks for exactly this text, whatever it holds."""
    return '"' + text.replace('"', '""') + '"'


def split(text: str) -> Iterator[Word]:
    """Return the words of a filter.

    Raises FilterError for a quote that is not closed and a negation of nothing.
    """
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word = _word(text, at)
        yield word
        at = word.end


def _word(text: str, start: int) -> Word:
    negated = _is_negated(text, start)
    body = start + negated
    if body == len(text) or text[body].isspace():
        raise FilterError(
            f'"{text[start:body]}" negates nothing: put a word behind it', start, body
        )
    behind = body
    while behind < len(text) and _is_of_name(text[behind]):
        behind += 1
    sign = next((sign for sign in _SIGNS if text.startswith(sign, behind)), "")
    value, end = _value(text, behind + len(sign) if sign else body)
    return Word(
        start=start,
        end=end,
        written=clean(text[start:end], _SHOWN),
        negated=negated,
        name=text[body:behind] if sign else "",
        sign="=" if sign == "==" else sign,
        value=value,
        plain=text[body : behind + len(sign)] + value if sign else value,
    )


def _is_of_name(char: str) -> bool:
    return char in "-_" or (char.isascii() and char.isalpha())


def _is_negated(text: str, start: int) -> bool:
    """Whether a word begins with - or !, and is no long option such as --batch."""
    return text[start] in "-!" and not text.startswith("--", start)


def _value(text: str, start: int) -> tuple[str, int]:
    """Return the text up to the next space, or its quotes, and where it ends."""
    if start < len(text) and text[start] in _QUOTES:
        return _in_quotes(text, start)
    end = start
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[start:end], end


def _in_quotes(text: str, start: int) -> tuple[str, int]:
    """Return what is quoted, where two quotes stand for one, and where the quotes end."""
    quote, parts = text[start], []
    begin = start + 1
    while True:
        end = text.find(quote, begin)
        if end < 0:
            shown = clean(text[start:], _SHOWN)
            raise FilterError(f"{shown} is not closed: end it with {quote}", start, len(text))
        parts.append(text[begin:end])
        if not text.startswith(quote, end + 1):
            return quote.join(parts), end + 1
        begin = end + 2


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
