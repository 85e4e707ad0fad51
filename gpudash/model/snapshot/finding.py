"""What a sample means: something wrong or wasteful, in words, with the numbers that prove it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.units import Unit

FindingLevel = Literal["info", "warn", "critical"]

_finding = partial(metric, Group.FINDING)


class Evidence(Struct, frozen=True, kw_only=True):
    """One number or word that proves a finding."""

    # fmt: off
    name: Annotated[str, _finding(Unit.NONE, "The field that it was read from, or what it is.")]
    value: Annotated[bool | int | float | str, _finding(Unit.NONE, "Its value.")]
    unit: Annotated[str, _finding(Unit.NONE, "Its unit, empty for a bare value.")] = ""
    of: Annotated[str | None, _finding(Unit.NONE,
        "Whose it is where several are concerned: GPU 3, PID 4242.")] = None
    # fmt: on


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong or wasteful, and what to do about it."""

    # fmt: off
    rule: Annotated[str, _finding(Unit.NONE, "Which rule found it, such as power-capped.")]
    level: Annotated[FindingLevel, _finding(Unit.NONE, "info, warn or critical.")]
    sentence: Annotated[str, _finding(Unit.NONE, "What is the matter, in one sentence.")]
    advice: Annotated[str, _finding(Unit.NONE, "What to do about it.")] = ""
    evidence: Annotated[tuple[Evidence, ...], _finding(Unit.NONE,
        "What proves it, as it was last seen.")] = ()
    uuids: Annotated[tuple[str, ...], _finding(Unit.NONE,
        "The devices that it concerns; empty for the whole host.")] = ()
    indices: Annotated[tuple[int, ...], _finding(Unit.NONE,
        "Indices of their GPUs, also of one lost before it told its UUID.")] = ()
    pids: Annotated[tuple[int, ...], _finding(Unit.NONE,
        "The processes of this document that it concerns.")] = ()
    held_seconds: Annotated[float | None, _finding(Unit.SECOND,
        "For how long it has been seen; null in a first sample.")] = None
    # fmt: on
