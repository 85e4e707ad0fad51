"""The terms of a filter: the values that `user:`, `mem>`, `idle>` ... test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple

from msgspec import Struct

from gpudash.analysis.filter.predicates import (
    NUMBER_OPERATORS,
    WORD_OPERATORS,
    Builder,
    Row,
    in_range,
    is_type,
    of_number,
    of_set,
    of_text,
    on_gpus,
)
from gpudash.analysis.labels import command, owner
from gpudash.analysis.table import ProcessRow
from gpudash.model import units
from gpudash.model.units import ABSENT, Quantity


class Term(Struct, Generic[Row], frozen=True):
    """One term; the first of its names is shown."""

    names: tuple[str, ...]
    example: str
    help: str
    values: str
    """The values allowed after the operator, for error messages."""
    test: Builder[Row]
    operators: tuple[str, ...] = WORD_OPERATORS


class Quantities(NamedTuple):
    """The notation of a number, in words, and its parser."""

    values: str
    parse: Callable[[str], Quantity | None]


SIZE = Quantities("a size such as 10G or 512M", units.parse_size)
SPAN = Quantities("a time such as 10m or 2h", units.parse_span)
SHARE = Quantities("a percentage", units.parse_percentage)


def named(
    names: tuple[str, ...], example: str, help: str, read: Callable[[Row], Iterable[str]]
) -> Term[Row]:
    """Return a term over names, several of which may be given."""
    values = "a name, or several such as alice,bob"
    return Term(names, example, help, values, of_text(read, several=True))


def number(
    names: tuple[str, ...],
    example: str,
    help: str,
    written: Quantities,
    read: Callable[[Row], float | None],
) -> Term[Row]:
    """Return a term over a number."""
    test = of_number(read, written.parse)
    return Term(names, example, help, written.values, test, NUMBER_OPERATORS)


def _gpus(row: ProcessRow) -> frozenset[str]:
    """Return the indices of GPUs that it uses as a whole, and the labels of its MIG instances."""
    instances = {label for label in row.gpus.split(",") if ":" in label}
    parents = {label.partition(":")[0] for label in instances}
    indices = {str(device.index) for device in row.process.devices}
    return frozenset(indices - parents | instances)


def _user(row: ProcessRow) -> Iterable[str]:
    name = owner(row.process)
    return () if name is None else (name,)


def _job(row: ProcessRow) -> Iterable[str]:
    """Return the names of a job: the one shown, its kind, and its full ids."""
    job = row.process.job
    if job is None:
        return ()
    return filter(None, (job.label, job.kind, job.id, job.runtime, job.container))


def _command(row: ProcessRow) -> Iterable[str]:
    return [text for text in (command(row.process), row.process.name) if text and text != ABSENT]


def searched(row: ProcessRow) -> Iterable[str]:
    """Return the texts to search for a plain word: PID, owner, command and job."""
    return (str(row.process.pid), *_user(row), *_command(row), *_job(row))


TERMS: tuple[Term[ProcessRow], ...] = (
    named(
        ("user", "owner"),
        "user:alice",
        "owner or a part of the name, or several: alice,bob; user=alice is the whole name",
        _user,
    ),
    Term(
        ("gpu", "gpus"),
        "gpu:0-3,6",
        "uses one of these GPUs; gpu=0 uses no other",
        "GPUs such as 2, 0-3,6 or the MIG instance 0:1",
        of_set(_gpus, on_gpus),
    ),
    number(
        ("mem", "memory", "gpu_mem", "gpu_memory"),
        "mem>10G",
        "GPU memory over all its GPUs",
        SIZE,
        lambda row: row.process.used_gpu_memory_bytes,
    ),
    number(
        ("util", "utilization"),
        "util<5",
        "time in which it runs kernels in percent, the mean of its GPUs",
        SHARE,
        lambda row: row.process.sm_utilization_percent,
    ),
    Term(
        ("type",),
        "type:C",
        "C compute, G graphics, M client of an MPS server, or several",
        "C, G or M, or several such as C,M",
        of_set(lambda row: frozenset(filter(None, row.process.type.split("+"))), is_type),
    ),
    Term(
        ("pid",),
        "pid:4242",
        "process id, a range or several",
        "PIDs such as 4242 or 4000-4999,77",
        of_set(lambda row: frozenset((str(row.process.pid),)), in_range),
    ),
    named(
        ("job",),
        "job:slurm",
        "container, pod, Slurm job or unit: kind, name or id, or several",
        _job,
    ),
    Term(
        ("cmd", "command"),
        'cmd:"train.py --lr"',
        "a part of the command line",
        "a text",
        of_text(_command),
    ),
    number(
        ("cpu",),
        "cpu>50",
        "CPU time in percent, 100 is a core",
        SHARE,
        lambda row: row.process.cpu_percent,
    ),
    number(
        ("rss", "resident_memory"),
        "rss>1G",
        "host memory",
        SIZE,
        lambda row: row.process.resident_memory_bytes,
    ),
    number(("time", "age"), "time>2h", "time since it started", SPAN, lambda row: row.age_seconds),
    number(
        ("idle",),
        "idle>10m",
        "time since it last used a GPU",
        SPAN,
        lambda row: row.process.idle_seconds,
    ),
)
"""Every term, in the order in which help and messages name them."""

BY_NAME: Mapping[str, Term[ProcessRow]] = {name: term for term in TERMS for name in term.names}
