"""What a person must know before they say yes, in words: pure functions over an aim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.tree import Member
from gpudash.analysis.health.levels import Level
from gpudash.analysis.labels import device_labels
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import ABSENT, duration, size
from gpudash.tui.actions.kill.aim import Aim, gpus

_VERBS = {
    "KILL": "Kill",
    "TERM": "Terminate",
    "INT": "Interrupt",
    "STOP": "Pause",
    "CONT": "Resume",
}
_REFUSED = "refused"
_MEMBERS = 200
_INDENTED = 8


class Fact(NamedTuple):
    """A label and what is to be said of it, in parts that are not broken."""

    label: str
    parts: tuple[str, ...]
    names: bool = False
    """Whether it says who is meant: without it in view there is no answer."""


class Entry(NamedTuple):
    """A piece of the part that scrolls, under a label; one line of it unless `whole`."""

    label: str
    text: str
    level: Level = "ok"
    whole: bool = False


class Notice(NamedTuple):
    """A sentence that must be read first: why something is refused, or what else would be hit."""

    label: str
    text: str
    level: Level = "warn"


class Question(NamedTuple):
    """Everything that the dialog says; without an action there is nothing to be done."""

    title: str
    notices: tuple[Notice, ...]
    facts: tuple[Fact, ...]
    entries: tuple[Entry, ...]
    action: str | None
    signal: Signal | None
    """The one that is chosen, None where there is nothing to choose."""
    whole: bool | None
    """Whether those below go with it, None if there are none."""


def question(
    aim: Aim, signal: Signal, *, whole: bool, offer: str = "", again: bool = False
) -> Question:
    """Return the question; `offer` is what it asks after a signal that was ignored.

    Once more, where that is no plain job, it is put in other words.
    """
    possible = bool(aim.living)
    members = aim.members
    verb = _VERBS.get(signal.name, f"Send SIG{signal.name}")
    title = offer or _title(aim, verb if signal.name in _VERBS else f"{verb} to")
    if again:
        title = f"No plain job is meant. {verb} all the same?"
        verb = f"{verb} all the same"
    return Question(
        title if possible else _reason(aim),
        tuple(_notices(aim)),
        tuple(_facts(aim, signal, whole=whole, brief=bool(offer))),
        tuple(_entries(aim, members if whole else ())),
        verb if possible else None,
        signal if possible and not offer and not again else None,
        whole if possible and members and not again else None,
    )


def _title(aim: Aim, verb: str) -> str:
    count = len(aim.living)
    return f"{verb} this process?" if count == 1 else f"{verb} these {count} processes?"


def _reason(aim: Aim) -> str:
    """Return why nothing can be done."""
    one = len(aim.rows) == 1
    if aim.targets:
        return f"{'It has' if one else 'They have'} ended: there is nothing to signal"
    return f"{'This process' if one else 'These processes'} cannot be signalled"


def _notices(aim: Aim) -> Iterator[Notice]:
    if len(aim.rows) == 1:
        yield from (Notice(_REFUSED, each.reason, "critical") for each in aim.refusals)
    elif aim.refusals:
        reasons = {refusal.reason for refusal in aim.refusals}
        why = f": {reasons.pop()}" if len(reasons) == 1 else ", see below"
        count = f"{len(aim.refusals)} of {len(aim.rows)}"
        yield Notice(_REFUSED, f"{count} cannot be signalled{why}", "critical")
    living = len(aim.living)
    if 0 < living < len(aim.targets):
        gone = len(aim.targets) - living
        verb = "has" if gone == 1 else "have"
        text = f"{gone} of {len(aim.targets)} {verb} ended: nothing is sent there"
        yield Notice("ended", text)
    if living:
        for caution in aim.cautions:
            yield Notice("warning", caution.text, "critical" if caution.grave else "warn")


def _facts(aim: Aim, signal: Signal, *, whole: bool, brief: bool) -> Iterator[Fact]:
    if len(aim.rows) == 1:
        (row,) = aim.rows
        yield Fact("PID", (str(row.process.pid),), names=True)
        yield Fact("owner", (row.process.username or "not known",))
        if not brief:
            yield Fact("age", (duration(row.age_seconds),))
            if row.process.job is not None:
                yield Fact("job", (row.process.job.label,))
    else:
        owners = {each.username or "not known" for each in aim.processes(whole=False)}
        yield Fact("owners", (", ".join(sorted(owners)),))
    held = aim.processes(whole=whole)
    if brief and not any(process.devices for process in held):
        return
    yield Fact("frees" if signal.ends and aim.targets else "holds", (_held(held, aim.snapshot),))
    shares = _shares(held, aim.snapshot)
    if len(shares) > 1 and not brief:
        yield Fact("", tuple(shares))
    if aim.targets and not brief:
        yield Fact("children", (_children(aim, signal, whole=whole),))


def _held(processes: Iterable[Process], snapshot: Snapshot) -> str:
    amounts = [process.used_gpu_memory_bytes for process in processes]
    known = [amount for amount in amounts if amount is not None]
    amount = size(sum(known)) if known else "an unknown amount"
    labels = gpus(processes, snapshot)
    return "no GPU memory" if labels == ABSENT else f"{amount} on GPU {labels}"


def _shares(processes: Iterable[Process], snapshot: Snapshot) -> list[str]:
    """Return what is held on each device: `GPU 0 9.3 GiB`."""
    labels = device_labels(snapshot.devices)
    held: dict[str, int | None] = {}
    for process in processes:
        for share in process.devices:
            label = labels.get(share.uuid or "", str(share.index))
            amount, more = held.get(label), share.used_gpu_memory_bytes
            held[label] = more if amount is None else amount + (more or 0)
    return [f"GPU {label} {size(amount)}" for label, amount in held.items()]


def _children(aim: Aim, signal: Signal, *, whole: bool) -> str:
    if aim.trees is None:
        return "not known yet"
    members = aim.members
    if not members:
        return "1: gpudash itself runs below it" if aim.above_gpudash else "none"
    held = _held([member.process for member in members], aim.snapshot)
    text = f"{len(members)}, with {held}"
    if aim.above_gpudash:
        text = f"{text}, and gpudash itself"
    if not whole:
        return f"{text}: they stay"
    return text if signal.name == "KILL" else f"{text}: those that outlive it get the signal too"


def _entries(aim: Aim, members: tuple[Member, ...]) -> Iterator[Entry]:
    if len(aim.rows) == 1:
        yield Entry("command", masked_command(aim.rows[0].process), whole=True)
    else:
        refused = {refusal.process.key: refusal.reason for refusal in aim.refusals}
        ended = {each.process.key for each in aim.targets} - {e.process.key for e in aim.living}
        for row in aim.rows:
            yield Entry(str(row.process.pid), _told(row))
            if row.process.key in refused:
                yield Entry("", refused[row.process.key], "critical")
            elif row.process.key in ended:
                yield Entry("", "it has ended by itself", "warn")
    for place, member in enumerate(members[:_MEMBERS]):
        yield Entry("" if place else "with it", _member(member))
    if len(members) > _MEMBERS:
        yield Entry("", f"and {len(members) - _MEMBERS} more")


def _told(row: ProcessRow) -> str:
    process = row.process
    held = process.devices and f"{size(process.used_gpu_memory_bytes)} on GPU {row.gpus}"
    parts = (process.username, duration(row.age_seconds), held)
    return f"{', '.join(part for part in parts if part)}: {masked_command(process)}"


def _member(member: Member) -> str:
    held = size(member.process.used_gpu_memory_bytes) if member.process.devices else ""
    words = " ".join(part for part in (str(member.pid), member.username, held) if part)
    return f"{'  ' * min(member.depth - 1, _INDENTED)}+ {words}: {masked_command(member.process)}"
