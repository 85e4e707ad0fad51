"""The registries of rules and checks, and the symptoms that checks find in a sample.

A finding, of one host or of many, is declared once, by `rule` of the registry, beside the check
that yields its symptoms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from math import isfinite
from typing import Generic, TypeVar, cast

from msgspec import Struct

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.labels import whose
from gpudash.model.device import AnyDevice, Device
from gpudash.model.fields import declared_fields, label
from gpudash.model.process import Holder, Process, ProcessDevice
from gpudash.model.snapshot import Evidence, Finding, FindingLevel
from gpudash.model.state import State
from gpudash.model.units import Unit, readable

RESET = "detach gpudash from the driver with X, then: sudo nvidia-smi --gpu-reset -i INDEX"
"""How to reset a GPU once its jobs have ended; a monitor that has it open prevents that too."""

LEFT_OUT = "left_out_count"
"""Name of the evidence that counts processes or devices whose evidence is left out."""

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
    """A kind of finding, and how long its symptoms must last, or be absent, to take effect."""

    rank: int
    """Among findings of one level, a lower rank matters more."""
    id: str
    help: str
    """Its meaning, for the table of rules."""
    status: State | None = None
    """The state of the devices concerned; UNUSABLE if it is critical."""
    appears_after_seconds: float = 0.0
    goes_after_seconds: float = 0.0


class Symptom(Struct, frozen=True):
    """A condition that holds in this sample.

    `fact` is the sentence after the name of a GPU, or of several, in the form for `inflected`;
    equal facts with the same rule, level and advice become one finding. `sentence` stands alone and
    is not merged with others.
    """

    rule: Rule
    subject: Hashable
    """Its identity, the same from sample to sample."""
    level: FindingLevel
    advice: str
    """What to do; INDEX in it is replaced by the indices of the GPUs, as for nvidia-smi."""
    fact: str = ""
    sentence: str = ""
    devices: tuple[AnyDevice, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    hosts: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    held_seconds: float | None = None
    """How long it has held, if known better than from when it was first seen."""
    newest_seconds: float | None = None
    """How long its newest part has held, None if all are about as old."""
    acknowledged: str | None = None
    """Why it is not news, None if it is not acknowledged."""


ContextT = TypeVar("ContextT")
CheckT = TypeVar("CheckT", bound=Callable[..., object])


class Registry(Generic[ContextT]):
    """The rules whose checks examine one kind of context: a sample of a host, or of many."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}
        """By id; complete once the modules of the rules have been imported."""
        self._checks: list[Callable[..., object]] = []

    def rule(
        self,
        rank: int,
        id: str,
        help: str,
        *,
        status: State | None = None,
        appears_after_seconds: float = 0.0,
        goes_after_seconds: float = 0.0,
    ) -> Rule:
        """Declare a rule; see the fields of Rule."""
        declared = Rule(rank, id, help, status, appears_after_seconds, goes_after_seconds)
        if id in self.rules:
            raise ValueError(f"two rules are called {id}")
        for other in self.rules.values():
            if other.rank == rank:
                raise ValueError(f"{id} has the rank of {other.id}: {rank}")
        self.rules[id] = declared
        return declared

    def check(self, declared: CheckT) -> CheckT:
        """Register a check: a function, or a class that each diagnosis instantiates."""
        self._checks.append(declared)
        return declared

    def ranked(self) -> tuple[Rule, ...]:
        """Return every rule by rank: among findings of a level, earlier rules matter more."""
        return tuple(sorted(self.rules.values(), key=lambda rule: rule.rank))

    def checks(self) -> tuple[Callable[[ContextT], Iterable[Symptom]], ...]:
        """Return the checks of one diagnosis, which yield the symptoms of each sample."""
        found = (each() if isinstance(each, type) else each for each in self._checks)
        return cast("tuple[Callable[[ContextT], Iterable[Symptom]], ...]", tuple(found))


HOST: Registry[RuleContext] = Registry()
"""The rules of one host."""
rule, check = HOST.rule, HOST.check


def proof(of: str, sample: Struct, *names: str) -> tuple[Evidence, ...]:
    """Return the values of fields, without absent ones."""
    values = ((name, getattr(sample, name)) for name in names)
    return tuple(number(name, value, of) for name, value in values if value is not None)


def about(
    context: RuleContext,
    device: Device,
    which: Rule,
    level: FindingLevel,
    fact: str,
    advice: str,
    *proofs: str,
) -> Symptom:
    """Return a symptom of one device, with fields of it as evidence."""
    evidence = proof(context.name(device), device, *proofs)
    return Symptom(which, device.key, level, advice, fact, devices=(device,), evidence=evidence)


def bounded(proofs: Iterable[Sequence[Evidence]], total: int, limit: int) -> tuple[Evidence, ...]:
    """Return about `limit` pieces of evidence, never splitting those of one subject.

    The last is the number of subjects left out, of `total`.
    """
    kept: list[Evidence] = []
    for index, of_one in enumerate(proofs):
        if kept and len(kept) + len(of_one) > limit:
            return (*kept, number(LEFT_OUT, total - index))
        kept += of_one
    return tuple(kept)


def number(name: str, value: object, of: str | None = None) -> Evidence:
    """Return a value as evidence, with the unit given by the end of the name."""
    return Evidence(name=name, value=_plain(value), unit=_unit(name), of=of)


def _plain(value: object) -> bool | int | float | str:
    """Return a value that JSON can carry: infinite numbers become text."""
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
    """Return the process with its owner: `bob's python (PID 4242)`."""
    return whose(process.name, process.username, process.pid)


def who_holds(holder: Holder) -> str:
    """Return the same for a process that has a GPU open and is listed on none."""
    program = (holder.command_line or ("",))[0].rpartition("/")[2]
    return whose(program, holder.username, holder.pid)


def rough_duration(seconds: float) -> str:
    """Return a span in one unit, rounded so that it changes rarely: `40 s`, `12 min`, `3 h`."""
    if seconds < 60:
        return f"{int(seconds) // 10 * 10 or int(seconds)} s"
    if seconds < 2 * 3600:
        return f"{int(seconds) // 60} min"
    hours = int(seconds) // 3600
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def since(finding: Finding, now: datetime) -> str:
    """Return `since 02:54` in local time, with the date for another day; empty if unknown.

    With a newer part: `since 02:54, newest 3 min ago`.
    """
    if finding.held_seconds is None:
        return ""
    newest = finding.newest_seconds
    newer = "" if newest is None else f", newest {rough_duration(newest)} ago"
    return since_clock(finding.held_seconds, now) + newer


def since_clock(seconds: float, now: datetime) -> str:
    """Return the local time at which a state this many seconds old began."""
    began = (now - timedelta(seconds=seconds)).astimezone()
    day = "" if began.date() == now.astimezone().date() else "%m-%d "
    return began.strftime(f"since {day}%H:%M")


_AGO = {"age_seconds": "Last seen", "xid_seconds": "Reported"}
"""The event that was so long ago, by the name of the span."""
_UNITS_BY_SUFFIX = {unit.suffix: unit for unit in Unit}


def proof_text(proof: Evidence, *others: Evidence) -> str:
    """Return values of one name as text: `Power usage 412.3 W`, `Holder A, B`.

    A span is written as in a sentence. The number of subjects left out ends the list: `and 18
    more`.
    """
    if proof.name == LEFT_OUT:
        return f"and {readable(proof.value, Unit.NONE)} more"
    values = ", ".join(map(_value_text, (proof, *others)))
    if proof.name in _AGO:
        return f"{_AGO[proof.name]} {values} ago"
    return f"{_label(proof.name)} {values}"


def _value_text(proof: Evidence) -> str:
    if proof.unit == Unit.SECOND.suffix and isinstance(proof.value, (int, float)):
        return rough_duration(proof.value)
    return readable(proof.value, _UNITS_BY_SUFFIX.get(proof.unit, Unit.NONE))


def _label(name: str) -> str:
    return _labels().get(name) or label(name)


@cache
def _labels() -> dict[str, str]:
    return {field.name: field.label for field in declared_fields(ProcessDevice)}
