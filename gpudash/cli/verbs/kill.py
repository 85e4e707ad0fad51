"""`gpudash kill PID...`: shows what it affects, asks, signals, and reports the result."""

from __future__ import annotations

import argparse
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from select import POLLOUT, poll
from typing import TYPE_CHECKING, NamedTuple

from gpudash.cli.arguments import add_shared
from gpudash.cli.options import collector_command, forbids_signals
from gpudash.cli.parser import Parser
from gpudash.cli.verbs import Verb
from gpudash.model.errors import ActionError, ExitStatus, GpudashError, SettingsError, UsageError
from gpudash.model.text import clean
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.actions.kill.report import Report
    from gpudash.actions.kill.run import Kill, Timeouts
    from gpudash.actions.kill.selection import KillSelection
    from gpudash.actions.kill.signals import Signal
    from gpudash.actions.kill.tree import Member
    from gpudash.actions.kill.warnings import KillWarning
    from gpudash.analysis.table import ProcessRow
    from gpudash.feed.sampler import Sampler
    from gpudash.model.snapshot import Snapshot

# What can signal is imported in functions: a read-only gpudash does not even load it.

_SIGNAL = re.compile(r"-(\d{1,2}|[A-Z].*)")
_INTERVAL = 0.5
_POLL_SECONDS = 0.05
_MAX_DIGITS = 20
_MAX_COMMAND = 1000
_MAX_MEMBERS = 20

_END_SECONDS = 1.0
"""No progress is shown of a shorter wait for the end."""

_MEMORY_SECONDS = 3.0
"""The same of the wait for memory, which the driver releases later and samples show later still."""

_AUDIT_SECONDS = 1.0
"""Limit on writing the audit record after Ctrl-C; there is none otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash kill` takes."""
    assert isinstance(parser, Parser)
    parser.is_intermixed = True
    # Words for argparse, not options: the signal as the shell's kill takes it, -9 or -KILL.
    parser._negative_number_matcher = re.compile(r"-[0-9A-Z]")
    add = parser.add_argument
    text = "process id; 4242:303585 adds the start_ticks of --json, so that a reused PID is not hit"
    add("pids", nargs="+", metavar="PID", help=text)
    text = "TERM, KILL, INT, 9, ... (TERM); also -9, -KILL"
    add("-s", "--signal", metavar="NAME", help=text)
    add("--tree", action="store_true", help="also signal their descendants")
    add("--yes", action="store_true", help="do not ask about plain jobs")
    text = "send nothing, as with GPUDASH_READ_ONLY=1 or read_only in the settings"
    add_shared(parser, "show-secrets", "read-only", "no-config", "demo", read_only=text)


def run(options: argparse.Namespace) -> int:
    """Signal processes; see `kill`."""
    signal, pids = signal_and_pids(options)
    return kill(
        collector_command(options),
        pids=pids,
        signal=signal,
        tree=options.tree,
        yes=options.yes,
        read_only=options.read_only,
        config=not options.no_config,
        show_secrets=options.show_secrets,
    )


def signal_and_pids(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the name or number of the signal, and the PIDs; raises UsageError for two signals."""
    pids = [word for word in options.pids if _SIGNAL.fullmatch(word) is None]
    signals = [word for word in options.pids if _SIGNAL.fullmatch(word)] if pids else []
    if options.signal is not None:
        signals.append(f"--signal {options.signal}")
    if len(signals) > 1:
        raise UsageError(f"two signals: {' and '.join(signals)}")
    if not signals or options.signal is not None:
        return options.signal or "TERM", pids or options.pids
    return signals[0][1:], pids


def kill(
    collector: Sequence[str],
    *,
    pids: Sequence[str],
    signal: str = "TERM",
    tree: bool = False,
    yes: bool = False,
    read_only: bool = False,
    config: bool = True,
    show_secrets: bool = False,
    timeouts: Timeouts | None = None,
) -> int:
    """Signal processes that use GPUs; returns 0 if all ended or `signal` ends none.

    `collector` is the command that asks the driver, in a child since that may hang. Without
    `config` the file of settings is not read. Raises UsageError for an invalid PID or signal and
    without a terminal to ask on, ActionError when nothing can be signalled at all.
    """
    _refuse_read_only(asked=read_only, config=config)
    from gpudash.actions.kill.pin import refuse_host, refuse_pid
    from gpudash.actions.kill.run import TIMEOUTS
    from gpudash.actions.kill.signals import find_signal
    from gpudash.feed.sampler import Sampler

    names, chosen = list(dict.fromkeys(map(parse_name, pids))), find_signal(signal)
    if not yes and not os.isatty(0):
        for name in names:
            refuse_pid(name.pid)
        raise UsageError("kill asks before it acts and there is no terminal: add --yes")
    with ExitStack() as stack:
        asked = Sampler(collector, interval=_INTERVAL, keep=1, allow_empty=True)
        sampler = stack.enter_context(closing(asked))
        sampler.fill()
        before = sampler.samples[-1]
        refuse_host(before.host)
        selections: list[KillSelection] = []
        for name in names:
            try:
                selection = select(name, before, with_tree=tree)
            except ActionError as error:
                _print_error(str(error))
                continue
            stack.callback(selection.close)
            (row,), below = selection.rows, selection.members if tree else ()
            _print(question_lines(row, below, selection.warnings, show_secrets=show_secrets))
            selections.append(selection)
        if not selections or not _is_agreed(selections, chosen, with_tree=tree, yes=yes):
            return ExitStatus.FAILURE
        is_done = signal_and_report(
            selections,
            chosen,
            before,
            with_tree=tree,
            latest=lambda: _newest(sampler),
            timeouts=timeouts or TIMEOUTS,
        )
    return ExitStatus.OK if is_done and len(selections) == len(names) else ExitStatus.FAILURE


def _refuse_read_only(*, asked: bool, config: bool) -> None:
    """Raise ActionError where the command line, the host or the settings forbid signals."""
    forbidden_by = "--read-only" if asked else forbids_signals()
    if forbidden_by is not None:
        raise ActionError(f"gpudash is read-only ({forbidden_by}): nothing was sent")
    if not config:
        return
    from gpudash.config import is_read_only, path

    file = path()
    try:
        if is_read_only(file):
            raise ActionError(f"gpudash is read-only ({file}): nothing was sent")
    except SettingsError as error:
        raise ActionError(f"{error}; nothing was sent") from None


# Selection


class ProcessName(NamedTuple):
    """A process as the command line names it: `4242`, or `4242:303585` with its start ticks."""

    pid: int
    start_ticks: int | None = None


def parse_name(word: str) -> ProcessName:
    """Return the process that a word names; raises UsageError if it is not a PID."""
    pid, colon, ticks = word.partition(":")
    numbers = (pid, ticks) if colon else (pid,)
    if not all(map(_is_number, numbers)) or not int(pid):
        raise UsageError(f"{clean(word, 80)!r} is not a PID: expected 4242 or 4242:START_TICKS")
    return ProcessName(int(pid), int(ticks) if colon else None)


def _is_number(text: str) -> bool:
    """Whether it is a decimal within 64 bits; int() refuses one of thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS


def select(name: ProcessName, snapshot: Snapshot, *, with_tree: bool) -> KillSelection:
    """Pin the named process; raises ActionError when it must not be signalled."""
    from gpudash.actions.kill.selection import KillSelection

    selection = KillSelection([_row(name, snapshot)], snapshot)
    try:
        for refusal in selection.refusals:
            raise ActionError(refusal.reason)
        selection.find_trees()
        _refuse_without_gpu(selection, with_tree=with_tree)
    except ActionError:
        selection.close()
        raise
    return selection


def _row(name: ProcessName, snapshot: Snapshot) -> ProcessRow:
    """Return the process of a PID; raises ActionError if there is none, or another one."""
    from gpudash.analysis.table import ProcessRow, process_rows
    from gpudash.model.units import ABSENT
    from gpudash.system.process_tree import process_of

    row = next((each for each in process_rows(snapshot) if each.process.pid == name.pid), None)
    if row is None:
        process = process_of(name.pid)
        if process is None:
            raise ActionError(f"there is no process of PID {name.pid}")
        now = snapshot.taken_at.timestamp()
        age = None if process.create_time is None else max(0.0, now - process.create_time)
        row = ProcessRow(process, ABSENT, age)
    if name.start_ticks not in (None, row.process.start_ticks):
        raise ActionError(f"PID {name.pid} now belongs to another process; nothing was sent")
    return row


def _refuse_without_gpu(selection: KillSelection, *, with_tree: bool) -> None:
    """Raise unless the process, or with `with_tree` one of its tree, uses a GPU.

    The driver does not list processes that have a GPU open without a context of their own, such as
    forked workers.
    """
    from gpudash.system.processes import has_device_open

    (target,) = selection.targets
    process, pid = target.process, target.process.pid
    below = sum(bool(member.process.devices) for member in selection.members)
    if process.devices or (with_tree and below) or has_device_open(pid):
        return
    if below:
        count = "one process" if below == 1 else f"{below} processes"
        raise ActionError(f"PID {pid} uses no GPU itself, {count} below it: add --tree")
    faults = [each for each in selection.snapshot.errors if each.source in ("nvml", "processes")]
    faults += [each.fault for each in selection.snapshot.devices if each.fault is not None]
    if faults:
        raise ActionError(f"cannot tell whether PID {pid} uses a GPU: {faults[0].message}")
    raise ActionError(f"PID {pid} uses no GPU; to end it anyway: kill {pid}")


# Confirmation


def question_lines(
    row: ProcessRow,
    members: Sequence[Member],
    warnings: Sequence[KillWarning],
    *,
    show_secrets: bool = False,
) -> Iterator[str]:
    """Yield a process, its command, the members of its tree and the warnings, a line each."""
    from gpudash.actions.kill.pin import masked_command
    from gpudash.actions.kill.selection import describe_member, describe_process
    from gpudash.analysis.labels import command

    shown = command if show_secrets else masked_command
    yield f"PID {row.process.pid}, {describe_process(row)}"
    yield f"    {_cut(shown(row.process))}"
    for member in members[:_MAX_MEMBERS]:
        yield f"  {'  ' * member.depth}{_cut(describe_member(member, shown))}"
    if len(members) > _MAX_MEMBERS:
        yield f"    + {len(members) - _MAX_MEMBERS} more below it"
    for warning in warnings:
        yield f"  ! {warning.text}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_COMMAND else f"{text[:_MAX_COMMAND]}…"


def _is_agreed(
    selections: Sequence[KillSelection], signal: Signal, *, with_tree: bool, yes: bool
) -> bool:
    """Ask whether to send the signal; `yes` answers for plain jobs only.

    Raises UsageError where a dangerous one needs an answer and there is no terminal.
    """
    dangerous = [each.targets[0].process.pid for each in selections if each.is_dangerous]
    if dangerous and not os.isatty(0):
        pid = dangerous[0]
        raise UsageError(f"PID {pid} is not a plain job and there is no terminal to confirm it on")
    if not yes:
        count = sum(len(each.processes(with_tree=with_tree)) for each in selections)
        which = "this process" if count == 1 else f"these {count} processes"
        if terminal.ask(f"Send SIG{signal.name} to {which}? [y/N] ").lower() not in (b"y", b"yes"):
            return False
    return all(
        terminal.ask(f"PID {pid} is not a plain job; type {pid} to send it: ") == str(pid).encode()
        for pid in dangerous
    )


# Signalling


def signal_and_report(
    selections: Sequence[KillSelection],
    signal: Signal,
    before: Snapshot,
    *,
    with_tree: bool,
    latest: Callable[[], Snapshot],
    timeouts: Timeouts,
) -> bool:
    """Signal all, wait, and print the result; returns whether all went well.

    Ctrl-C ends the wait with a line about what was sent.
    """
    from gpudash.actions.kill.audit import AuditTrail
    from gpudash.actions.kill.run import Kill

    requests = chain.from_iterable(each.requests(with_tree=with_tree) for each in selections)
    trail = AuditTrail()
    kill = Kill(tuple(requests), signal, record=trail.record, timeouts=timeouts)
    audit_seconds: float | None = _AUDIT_SECONDS
    try:
        with _ctrl_c_deferred() as pause:
            kill.send()
            progress = _Progress(pause)
            try:
                report = kill.wait(
                    before, latest=latest, progress=progress.begin, pause=progress.pause
                )
                wait_for_reader(pause)
            except KeyboardInterrupt:
                # The terminal has put ^C where the line would begin.
                start = "\n" if terminal.progress_is_shown() else ""
                terminal.write_message(f"{start}gpudash: {_unfinished(kill)}\n")
                raise
            _print(_result_lines(report))
        audit_seconds = None
    finally:
        for error in trail.errors(audit_seconds):
            _print_error(error)
    return report.done


@contextmanager
def _ctrl_c_deferred() -> Iterator[Callable[[float], None]]:
    """Block Ctrl-C everywhere but in the `pause` that this gives.

    Nothing that is sent or printed is cut off by it. A caller's SIG_IGN stays in force.
    """
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    interrupt: set[signal.Signals] = set() if is_ignored else {signal.SIGINT}

    def pause(seconds: float) -> None:
        if signal.sigtimedwait(interrupt, seconds):
            raise KeyboardInterrupt

    before = signal.pthread_sigmask(signal.SIG_BLOCK, interrupt)
    try:
        yield pause
    finally:
        # One that came too late to end the wait is not for what comes after it.
        signal.sigtimedwait(interrupt, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_for_reader(pause: Callable[[float], None]) -> None:
    """Wait until stdout takes a result: a pipe that is full may never do so."""
    stdout = poll()
    stdout.register(1, POLLOUT)
    while not stdout.poll(0):
        pause(_POLL_SECONDS)


class _Progress:
    """Shows what is waited for, once that has lasted for a moment."""

    def __init__(self, pause: Callable[[float], None]) -> None:
        self._pause = pause
        self._text, self._due, self._delay = "", 0.0, _END_SECONDS

    def begin(self, text: str) -> None:
        """Set what is waited for: the end, then the memory."""
        self._text, self._due = text, time.monotonic() + self._delay
        self._delay = _MEMORY_SECONDS

    def pause(self, seconds: float) -> None:
        """Let a moment pass; raises KeyboardInterrupt on Ctrl-C."""
        if self._text and time.monotonic() >= self._due:
            terminal.write_message(f"{self._text}\n")
            self._text = ""
        self._pause(seconds)


def _unfinished(kill: Kill) -> str:
    """Return what was sent when the wait for its effect was given up."""
    from gpudash.actions.kill.pin import named

    name, reached = f"SIG{kill.signal.name}", kill.reached
    if not reached:
        return f"{name} was not delivered"
    ended, count = sum(not target.alive() for target in reached), len(reached)
    target = named(reached[0].process) if count == 1 else f"{count} processes"
    if ended == count:
        which = "which has ended" if count == 1 else "which have all ended"
        return f"{name} was sent to {target}, {which}: unknown whether GPU memory was freed"
    some = f", of which {ended} {'has' if ended == 1 else 'have'} ended" if ended else ""
    rest = "the outcome of the others" if ended else "its outcome"
    return f"{name} was sent to {target}{some}: {rest} is unknown"


def _result_lines(report: Report) -> Iterator[str]:
    from gpudash.actions.kill.report import describe

    yield from describe(report)
    if report.stubborn:
        pids = " ".join(str(target.process.pid) for target in report.stubborn)
        which = "it" if len(report.stubborn) == 1 else "them"
        yield f"to end {which}: gpudash kill --signal KILL {pids}"


def _newest(sampler: Sampler) -> Snapshot:
    """Return the last sample there is; the result is worth printing without a newer one."""
    with suppress(GpudashError):
        sampler.poll(0)
    return sampler.samples[-1]


def _print(lines: Iterator[str]) -> None:
    terminal.write("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))


def _print_error(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"gpudash: {clean(text)}\n".encode())


VERB = Verb(
    "signal processes, after a confirmation",
    add_arguments,
    run,
    "Shows the processes and asks; a reused PID is never hit. To signal a daemon of the driver, a "
    "display, a container's init or an ancestor of gpudash, its PID must be typed. Exit status: 0 "
    "all ended, 1 not all, 2 bad usage. ~/.local/state/gpudash/audit.jsonl records what was sent.",
)
