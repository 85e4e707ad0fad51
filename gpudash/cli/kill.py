"""A kill on the shell: shows what it affects, asks, signals, and reports the result.

Imported once gpudash is known not to be read-only, as it can signal.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from select import POLLOUT, poll

from gpudash.actions.kill.audit import AuditTrail
from gpudash.actions.kill.pin import masked_command, refuse_host, refuse_pid
from gpudash.actions.kill.question import Question, doubt, question
from gpudash.actions.kill.report import KillReport, describe
from gpudash.actions.kill.run import Kill, Timeouts, describe_unfinished
from gpudash.actions.kill.selection import KillSelection, parse_name, select
from gpudash.actions.kill.signals import Signal, find_signal
from gpudash.analysis.labels import command
from gpudash.feed.sampler import Sampler
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.system import terminal

_INTERVAL = 0.5
_POLL_SECONDS = 0.05
_MAX_LINE = 1000

_END_SECONDS = 1.0
"""A shorter wait for the exit shows no progress."""

_MEMORY_SECONDS = 3.0
"""The same for memory, which the driver releases later and samples show later still."""

_AUDIT_SECONDS = 1.0
"""Limit on writing the audit record after Ctrl-C; there is none otherwise."""


def kill(
    collector: Sequence[str],
    *,
    pids: Sequence[str],
    signal: str,
    tree: bool,
    yes: bool,
    show_secrets: bool,
    timeouts: Timeouts,
) -> int:
    """Signal processes that use GPUs; return 0 if all ended, or if `signal` does not end any.

    `collector` is the command that queries the driver, in a child since it may hang. Raises
    UsageError for an invalid PID or signal and without a terminal to ask on, ActionError if nothing
    can be signalled at all.
    """
    names, chosen = list(dict.fromkeys(map(parse_name, pids))), find_signal(signal)
    if not yes and not os.isatty(0):
        for name in names:
            refuse_pid(name.pid)
        raise UsageError("kill asks before it acts and there is no terminal: add --yes")
    with ExitStack() as stack:
        sampler = Sampler(collector, interval=_INTERVAL, keep=1, allow_empty=True)
        stack.enter_context(closing(sampler))
        sampler.fill()
        before = sampler.samples[-1]
        refuse_host(before.host)
        selection, refused = select(names, before, with_tree=tree)
        stack.enter_context(closing(selection))
        _print_errors(refused)
        if not selection.targets:
            return ExitStatus.FAILURE
        shown = command if show_secrets else masked_command
        asks = question(selection, chosen, now=before, with_tree=tree, command=shown)
        if not _is_agreed(asks, selection.dangerous_pids(with_tree=tree), yes=yes):
            terminal.write_message("nothing was sent\n")
            return ExitStatus.FAILURE
        latest = partial(_newest, sampler)
        is_done = signal_and_report(
            selection, chosen, before, with_tree=tree, latest=latest, timeouts=timeouts
        )
    return ExitStatus.OK if is_done and not refused else ExitStatus.FAILURE


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}…"


def _is_agreed(asks: Question, dangerous: Sequence[int], *, yes: bool) -> bool:
    """Print and ask the question; `yes` answers only for plain jobs.

    Raises UsageError if a dangerous one needs an answer and there is no terminal.
    """
    terminal.write_lines(_cut(line.text) for line in (*asks.facts, *asks.processes))
    if dangerous and not os.isatty(0):
        raise UsageError(f"{doubt(dangerous[0])} and there is no terminal to confirm it on")
    if not yes and (
        asks.action is None or terminal.ask(f"{asks.title} [y/N] ").lower() not in (b"y", b"yes")
    ):
        return False
    return all(
        terminal.ask(f"{doubt(pid)}; type {pid} to confirm: ") == str(pid).encode()
        for pid in dangerous
    )


def signal_and_report(
    selection: KillSelection,
    signal: Signal,
    before: Snapshot,
    *,
    with_tree: bool,
    latest: Callable[[], Snapshot],
    timeouts: Timeouts,
) -> bool:
    """Signal all, wait, and print the result; return whether all went well.

    Ctrl-C ends the wait with a line about what was sent.
    """
    trail = AuditTrail()
    requests = selection.requests(with_tree=with_tree)
    kill = Kill(requests, signal, record=trail.record, timeouts=timeouts)
    audit_seconds: float | None = _AUDIT_SECONDS
    try:
        with ctrl_c_deferred() as pause:
            kill.send()
            progress = _WaitNotice(pause)
            try:
                report = kill.wait(
                    before, latest=latest, progress=progress.begin, pause=progress.pause
                )
                wait_for_reader(pause)
            except KeyboardInterrupt:
                # The terminal has echoed ^C at the start of the line.
                start = "\n" if terminal.progress_is_shown() else ""
                terminal.write_message(f"{start}gpudash: {describe_unfinished(kill)}\n")
                raise
            terminal.write_lines(_result_lines(report))
        audit_seconds = None
    finally:
        _print_errors(trail.errors(audit_seconds))
    return report.done


@contextmanager
def ctrl_c_deferred() -> Iterator[Callable[[float], None]]:
    """Block Ctrl-C except in the `pause` that this yields.

    It thus never interrupts sending or printing. A parent's SIG_IGN stays in force.
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
        # One that came too late to end the wait must not affect anything later.
        signal.sigtimedwait(interrupt, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_for_reader(pause: Callable[[float], None]) -> None:
    """Wait until stdout accepts the result: a full pipe may never do so."""
    stdout = poll()
    stdout.register(1, POLLOUT)
    while not stdout.poll(0):
        pause(_POLL_SECONDS)


class _WaitNotice:
    """Shows what is awaited, once that has lasted for a moment."""

    def __init__(self, pause: Callable[[float], None]) -> None:
        self._pause = pause
        self._text, self._due, self._delay = "", 0.0, _END_SECONDS

    def begin(self, text: str) -> None:
        """Set what is awaited: the exit, then the memory."""
        self._text, self._due = text, time.monotonic() + self._delay
        self._delay = _MEMORY_SECONDS

    def pause(self, seconds: float) -> None:
        """Let a moment pass; raises KeyboardInterrupt on Ctrl-C."""
        if self._text and time.monotonic() >= self._due:
            terminal.write_message(f"{self._text}\n")
            self._text = ""
        self._pause(seconds)


def _result_lines(report: KillReport) -> Iterator[str]:
    yield from describe(report)
    if report.heads:
        pids = " ".join(str(target.process.pid) for target in report.heads)
        which = "it" if len(report.stubborn) == 1 else "them"
        tree = "--tree " if report.with_tree else ""
        yield f"to end {which}: gpudash kill --signal KILL {tree}{pids}"


def _newest(sampler: Sampler) -> Snapshot:
    """Return the last sample; the result is worth printing without a newer one."""
    with suppress(GpudashError):
        sampler.poll(0)
    return sampler.samples[-1]


def _print_errors(reasons: Iterable[str]) -> None:
    for reason in reasons:
        with suppress(OSError):
            os.write(2, f"gpudash: {clean(reason)}\n".encode())
