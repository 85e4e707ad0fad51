"""What a rule sees in one sample, before it has proven to last, and how it is written down."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from math import isfinite

from msgspec import Struct

from gpudash.analysis.labels import whose
from gpudash.model.device import Device
from gpudash.model.process import Process
from gpudash.model.snapshot import Evidence, FindingLevel
from gpudash.model.units import Unit

RESET = "gpudash lets go of it with X, then: sudo nvidia-smi --gpu-reset -i INDEX"
"""How a GPU is reset once its jobs have ended; a monitor, too, keeps it from being so."""

LEFT_OUT = "left_out_count"
"""What evidence calls the number of those whose proof is left out."""

_UNITS = (
    ("_per_second", Unit.PER_SECOND),
    ("_bytes", Unit.BYTE),
    ("_percent", Unit.PERCENT),
    ("_celsius", Unit.CELSIUS),
    ("_mw", Unit.MILLIWATT),
    ("_mhz", Unit.MEGAHERTZ),
    ("_seconds", Unit.SECOND),
    ("_count", Unit.COUNT),
)


class Rule(Struct, frozen=True):
    """What kind of finding a symptom becomes, and how long it must last, or be away, for that."""

    id: str
    help: str
    """What it finds, for the table of the rules."""
    word: str = ""
    """The status of a device that it concerns, empty where that is not worth one."""
    appears_after_seconds: float = 0.0
    goes_after_seconds: float = 0.0


class Symptom(Struct, frozen=True):
    """Something that holds in this sample.

    `fact` is what is said of one GPU and of several, behind their names; those of one rule, level,
    fact and advice become one finding. `sentence` stands alone and is not joined with others.
    """

    rule: Rule
    subject: Hashable
    """What it is about: the same from sample to sample."""
    level: FindingLevel
    advice: str
    """What to do; INDEX in it becomes the indices of the GPUs, as nvidia-smi takes them."""
    fact: tuple[str, str] = ("", "")
    sentence: str = ""
    devices: tuple[Device, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    pids: tuple[int, ...] = ()
    held_seconds: float | None = None
    """How long it has held, where that is known better than from when it was first seen."""


def proof(of: str, sample: Struct, *names: str) -> tuple[Evidence, ...]:
    """Return the values of fields, those that are absent left out."""
    values = ((name, getattr(sample, name)) for name in names)
    return tuple(number(name, value, of) for name, value in values if value is not None)


def bounded(proofs: Iterable[Sequence[Evidence]], total: int, most: int) -> tuple[Evidence, ...]:
    """Return about `most` proofs of the first of `total`, no one's in part, and how many lack."""
    kept: list[Evidence] = []
    for place, of_one in enumerate(proofs):
        if kept and len(kept) + len(of_one) > most:
            return (*kept, number(LEFT_OUT, total - place))
        kept += of_one
    return tuple(kept)


def number(name: str, value: object, of: str | None = None) -> Evidence:
    """Return a value as evidence, its unit told by the end of the name."""
    return Evidence(name=name, value=_plain(value), unit=_unit(name), of=of)


def _plain(value: object) -> bool | int | float | str:
    """Return a value as a document can carry it: one that nobody can reckon with as a word."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return round(value, 1) if isfinite(value) else str(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else float(value)
    return str(value)


@lru_cache(maxsize=256)
def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS if name.endswith(end)), Unit.NONE).suffix


def who(process: Process) -> str:
    """Return whose process it is, by its name and PID: `bob's python (PID 4242)`."""
    return whose(process.name, process.username, process.pid)


def lasted(seconds: float) -> float:
    """Return a span rounded down to tenths of a second: all that is written of it is of that.

    Words round it down, too; rounded up, a proof could tell more than the sentence it proves.
    """
    return int(10 * seconds) / 10


def spoken(seconds: float) -> str:
    """Return a span in one unit as people say it, which changes seldom: `40 s`, `12 min`, `3 h`."""
    if seconds < 60:
        return f"{int(seconds) // 10 * 10 or int(seconds)} s"
    if seconds < 2 * 3600:
        return f"{int(seconds) // 60} min"
    hours = int(seconds) // 3600
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"
