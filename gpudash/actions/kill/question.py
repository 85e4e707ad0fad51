"""The question before a signal, in the words of both the shell and the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.report import VERBS, children
from gpudash.actions.kill.selection import KillSelection, listed
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.tree import Member
from gpudash.analysis.labels import used_gpus
from gpudash.analysis.table import age_seconds
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import Level
from gpudash.model.units import ABSENT, duration, size, sum_known

_MAX_MEMBERS = 200
_MAX_DEPTH = 8

Command = Callable[[Process], str]


class Statement(NamedTuple):
    """A line of information before an answer."""

    text: str
    level: Level = "ok"


class Question(NamedTuple):
    """A question, with the information needed to answer it."""

    title: str
    """The question, or that nothing can be signalled."""
    action: str | None
    """The effect of yes: `Kill`; None if nothing can be signalled."""
    facts: tuple[Statement, ...]
    """Each is shown in full."""
    processes: tuple[Statement, ...]
    """Those chosen, if there are several, and the members of affected trees, a line each."""


def question(
    selection: KillSelection,
    signal: Signal,
    *,
    now: Snapshot,
    with_tree: bool,
    offer: str = "",
    again: bool = False,
    command: Command = masked_command,
) -> Question:
    """Return the question; `offer` precedes it after a signal that was ignored.

    The ages are those at the time of `now`. `again` asks a second time, about processes that are
    not plain jobs.
    """
    action = VERBS[signal.name][0] if signal.name in VERBS else f"Send SIG{signal.name}"
    asked = action if signal.name in VERBS else f"{action} to"
    whom = _whom(selection, with_tree=with_tree, known=bool(offer))
    if again:
        pids = selection.dangerous_pids(with_tree=with_tree)
        title, action = f"{doubt(*pids)}. {asked} {whom} anyway?", f"{action} anyway"
    else:
        title = f"{offer} {asked} {whom}?".strip()
    living = bool(selection.living)
    if not living:
        title = f"{listed([each.pid for each in selection.chosen])} cannot be signalled"
    return Question(
        title[0].upper() + title[1:],
        action if living else None,
        tuple(_facts(selection, signal, now, with_tree=with_tree, command=command)),
        tuple(_processes(selection, now, with_tree=with_tree, command=command)),
    )


def doubt(*pids: int) -> str:
    """Return why a second answer is needed: `PID 4242 is not a plain job`."""
    return f"{listed(pids)} {'is not a plain job' if len(pids) == 1 else 'are not plain jobs'}"


def _whom(selection: KillSelection, *, with_tree: bool, known: bool = False) -> str:
    """Return the subject of the question: `PID 4242 and its child`, `it` if already known."""
    found = selection.processes(with_tree=with_tree)
    if len(selection.processes(with_tree=False)) > 1:
        return f"these {len(found)} processes"
    one, *below = found
    tree = f" and its {children(len(below)).removeprefix('1 ')}" if below else ""
    return f"{'it' if known else f'PID {one.pid}'}{tree}"


def _facts(
    selection: KillSelection, signal: Signal, now: Snapshot, *, with_tree: bool, command: Command
) -> Iterator[Statement]:
    """Yield the facts about all, the command of a single one last, as it may be long."""
    chosen, living, refused = selection.chosen, selection.living, selection.refused
    if len(chosen) == 1:
        yield Statement(describe_process(chosen[0], selection.snapshot, now))
    held = selection.processes(with_tree=with_tree)
    if living and signal.ends and len(held) > 1:
        yield Statement(f"{held_memory(held, selection.snapshot)} will be freed")
    if refused:
        reason = next(iter(refused.values())) if len(refused) == 1 else ""
        meant = VERBS[signal.name][1] if signal.name in VERBS else f"sent SIG{signal.name}"
        count = f"{len(living)} of {len(chosen)} will be {meant}" if len(chosen) > 1 else ""
        yield Statement("; ".join(filter(None, (reason, count))), "critical")
    if living:
        for warning in selection.warnings(with_tree=with_tree):
            yield Statement(f"! {warning.text}", "critical" if warning.dangerous else "warn")
        yield from _children(selection, signal, with_tree=with_tree)
    if len(chosen) == 1:
        yield Statement(f"command: {command(chosen[0])}")


def _children(selection: KillSelection, signal: Signal, *, with_tree: bool) -> Iterator[Statement]:
    members = selection.members
    if selection.trees is None:
        yield Statement("looking for children")
    elif members:
        held = held_memory([member.process for member in members], selection.snapshot)
        text = f"{children(len(members))} ({held}) will"
        is_passed_on = signal.ends and signal.name != "KILL"
        rest = " if still running soon after" if is_passed_on else ""
        get = f"get SIG{signal.name} too{rest}"
        yield Statement(f"{text} {get if with_tree else 'keep running'}")
    elif not selection.is_above_gpudash:
        yield Statement("no children")


def _processes(
    selection: KillSelection, now: Snapshot, *, with_tree: bool, command: Command
) -> Iterator[Statement]:
    refused = selection.refused
    for process in selection.chosen if len(selection.chosen) > 1 else ():
        about = describe_process(process, selection.snapshot, now)
        yield Statement(f"{about}: {command(process)}")
        if process.pid in refused:
            yield Statement(f"  {refused[process.pid]}", "critical")
    members = selection.members if with_tree else ()
    for member in members[:_MAX_MEMBERS]:
        yield Statement(describe_member(member, command))
    if len(members) > _MAX_MEMBERS:
        yield Statement(f"and {len(members) - _MAX_MEMBERS} more")


def held_memory(processes: Iterable[Process], snapshot: Snapshot) -> str:
    """Return the total holdings of processes: `16.0 GiB on GPU 0-1`, `no GPU memory`."""
    shares = [share for each in processes for share in each.devices]
    labels = used_gpus(shares, snapshot.devices)
    if labels == ABSENT:
        return "no GPU memory"
    held = sum_known(share.used_gpu_memory_bytes for share in shares)
    return f"{'an unknown amount' if held is None else size(held)} on GPU {labels}"


def describe_process(process: Process, snapshot: Snapshot, now: Snapshot) -> str:
    """Return PID, owner, age, job and memory.

    `PID 4242, alice, started 3h ago, 16.0 GiB on GPU 0`.
    """
    age = age_seconds(process, now)
    started = None if age is None else f"started {duration(age)} ago"
    job = None if process.job is None else process.job.label
    held = held_memory((process,), snapshot)
    parts = f"PID {process.pid}", process.username, started, job, held
    return ", ".join(part for part in parts if part)


def describe_member(member: Member, command: Command = masked_command) -> str:
    """Return PID, owner, memory and command line: `+ 4300 alice 3.0 GiB: python worker.py`."""
    process = member.process
    held = size(process.used_gpu_memory_bytes) if process.devices else None
    parts = (str(process.pid), process.username, held)
    indent = "  " * min(member.depth - 1, _MAX_DEPTH)
    return f"{indent}+ {' '.join(part for part in parts if part)}: {command(process)}"
