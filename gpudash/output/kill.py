"""What `gpudash kill` shows: before it asks whom it hits, afterwards what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.report import Report
from gpudash.actions.kill.tree import Member
from gpudash.analysis.labels import command
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.units import duration, size

_COMMAND_LIMIT = 1000
_MEMBERS = 20


def render(
    row: ProcessRow,
    members: Sequence[Member],
    cautions: Sequence[str],
    *,
    show_secrets: bool = False,
) -> str:
    """Return a process, its command, the members of its tree and the cautions, a line each."""
    named = command if show_secrets else masked_command
    return "".join(f"{line}\n" for line in _lines(row, members, cautions, named))


def told(report: Report) -> Iterator[str]:
    """Yield a line for each process that was meant, and one for what they held together."""
    below = report.ended_below
    for place, line in enumerate(report.lines()):
        hint = ": --signal KILL ends it" if line.outcome.offer_kill else ""
        ended = f"; {below} below ended too" if below and not place else ""
        yield f"{line.text}{hint}{ended}"
    if len(report.roots) > 1 and report.memory:
        yield report.memory
    if report.survivors:
        pids = " ".join(str(target.process.pid) for target in report.survivors)
        yield f"to end them: gpudash kill --signal KILL {pids}"


def _lines(
    row: ProcessRow,
    members: Sequence[Member],
    cautions: Sequence[str],
    named: Callable[[Process], str],
) -> Iterator[str]:
    process = row.process
    age = None if row.age_seconds is None else f"started {duration(row.age_seconds)} ago"
    job = None if process.job is None else process.job.label
    held = f"{size(process.used_gpu_memory_bytes)} on GPU {row.gpus}" if process.devices else None
    parts = (f"PID {process.pid}", process.username, age, job, held or "no GPU memory")
    yield ", ".join(part for part in parts if part)
    yield f"    {_cut(named(process))}"
    for member in members[:_MEMBERS]:
        share = size(member.process.used_gpu_memory_bytes) if member.process.devices else ""
        line = f"{member.pid} {member.username or ''} {share}".rstrip()
        yield f"  {'  ' * member.depth}+ {line}: {_cut(named(member.process))}"
    if len(members) > _MEMBERS:
        yield f"    + {len(members) - _MEMBERS} more below it"
    for caution in cautions:
        yield f"  ! {caution}"


def _cut(text: str) -> str:
    return text if len(text) <= _COMMAND_LIMIT else f"{text[:_COMMAND_LIMIT]}…"
