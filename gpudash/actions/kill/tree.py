"""A pinned process with everything below it: launchers start workers in sessions of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpudash.actions.kill.pin import Target, hold, is_own, open_pidfd, pin
from gpudash.analysis.labels import command
from gpudash.model.errors import ActionError
from gpudash.model.process import Process
from gpudash.model.snapshot import Host
from gpudash.system import process_tree as kin
from gpudash.system import processes as proc_stat


class Refusal(NamedTuple):
    """A process to which nothing was sent, and why."""

    process: Process
    reason: str


def pin_all(
    processes: Iterable[Process], host: Host
) -> tuple[tuple[Target, ...], tuple[Refusal, ...]]:
    """Pin those that can be; the targets are closed by the caller."""
    targets: list[Target] = []
    refusals: list[Refusal] = []
    for process in processes:
        try:
            targets.append(pin(process, host))
        except ActionError as error:
            refusals.append(Refusal(process, str(error)))
    return tuple(targets), tuple(refusals)


def send_all(targets: Iterable[Target], signal_number: int) -> tuple[Refusal, ...]:
    """Send a signal to each, and return those that did not get it."""
    refusals: list[Refusal] = []
    for target in targets:
        try:
            target.send(signal_number)
        except ActionError as error:
            refusals.append(Refusal(target.process, str(error)))
    return tuple(refusals)


def wait_all(targets: Iterable[Target], timeout_seconds: float) -> tuple[Target, ...]:
    """Wait until all have ended, so long at most, and return those that have not."""
    deadline = time.monotonic() + timeout_seconds
    waited = ((target, max(0.0, deadline - time.monotonic())) for target in targets)
    return tuple(target for target, seconds in waited if not target.wait(seconds))


_MOST_PINNED = 128
"""Descriptors that a tree takes; members beyond are known by their start time."""

_SCANS = 8
"""Rounds in which those are stopped that were forked in the round before."""

_STOP_SECONDS = 0.1
_LOOK_SECONDS = 0.002
_CANNOT_FORK = frozenset({"stopped", "tracing-stop", "disk-sleep", "zombie", "dead"})
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Member(NamedTuple):
    """A descendant, so many steps below the process that was chosen."""

    target: Target
    depth: int

    @property
    def process(self) -> Process:
        """It, with its devices if the snapshot shows it on any."""
        return self.target.process

    @property
    def pid(self) -> int:
        """Its PID."""
        return self.target.process.pid

    @property
    def name(self) -> str | None:
        """Name of the executable."""
        return self.target.process.name

    @property
    def username(self) -> str | None:
        """Its owner."""
        return self.target.process.username

    @property
    def command(self) -> str:
        """Its command line as a shell would take it."""
        return command(self.target.process)

    @property
    def pinned(self) -> bool:
        """Whether the kernel pins it."""
        return self.target.protected


class Tree:
    """The process of `root` and its descendants, without gpudash itself and what it started."""

    def __init__(self, root: Target, known: Iterable[Process] = ()) -> None:
        self.root = root
        self.members: tuple[Member, ...] = ()
        self._known = {process.key: process for process in known}
        self.rescan()

    @property
    def targets(self) -> tuple[Target, ...]:
        """The root and all members, parents before their children."""
        return (self.root, *(member.target for member in self.members))

    def rescan(self, *, brief: bool = False) -> bool:
        """Add what was started since the last scan; return whether there was anything.

        A brief scan never waits for the kernel and leaves out owners and command lines.
        """
        held = {self.root.process.pid: 0, **{member.pid: member.depth for member in self.members}}
        roots = (t.process.pid for t in self.targets if t.alive())
        relatives = kin.descendants(*roots, brief=brief)
        # Those that still run had no other process under their PID while /proc was read.
        depths = {t.process.pid: held[t.process.pid] for t in self.targets if t.alive()}
        found: list[Member] = []
        for process, _ in relatives:
            above = depths.get(process.parent_pid or 0)
            if above is None or process.pid in held or _is_own(process, brief=brief):
                continue
            if len(self.members) + len(found) >= kin.MOST:
                break
            target = self._pin(process, len(self.members) + len(found) < _MOST_PINNED)
            if target is not None:
                found.append(Member(target, above + 1))
                depths[process.pid] = above + 1
        self.members = (*self.members, *found)
        return bool(found)

    def send(self, signal_number: int) -> tuple[Refusal, ...]:
        """Send SIGKILL to all, any other signal to the root, whose part it is to pass it on.

        Returns those that did not get it although they still run.
        """
        if signal_number != signal.SIGKILL:
            return send_all((self.root,), signal_number)
        with _undisturbed():
            self._freeze()
            return self.send_to_rest(signal_number)

    def send_to_rest(self, signal_number: int) -> tuple[Refusal, ...]:
        """Send a signal to all that still run, for when the root has ended without the others.

        Returns those that did not get it although they still run.
        """
        self.rescan(brief=True)
        rest = [target for target in self.targets if target.alive()]
        still = {target.process.key for target in rest}
        refusals = send_all(rest, signal_number)
        still &= {target.process.key for target in rest if target.alive()}
        return tuple(refusal for refusal in refusals if refusal.process.key in still)

    def wait(self, timeout_seconds: float) -> tuple[Target, ...]:
        """Wait for the end of all, so long at most, and return those that still run."""
        return wait_all(self.targets, timeout_seconds)

    def close(self) -> None:
        """Let go of the members; the root belongs to who pinned it."""
        for member in self.members:
            member.target.close()

    def _pin(self, process: Process, by_descriptor: bool) -> Target | None:
        process = self._known.get(process.key, process)
        try:
            return hold(process, open_pidfd(process.pid) if by_descriptor else None)
        except ActionError:  # It ended meanwhile.
            return None

    def _freeze(self) -> None:
        """Stop all: who is stopped neither forks nor leaves its children to init."""
        stopped = 0
        for _ in range(_SCANS):
            fresh = self.targets[stopped:]
            deaf = {refusal.process.key for refusal in send_all(fresh, signal.SIGSTOP)}
            _wait_for_stop([target for target in fresh if target.process.key not in deaf])
            stopped += len(fresh)
            if not self.rescan(brief=True):
                break


def _is_own(process: Process, *, brief: bool) -> bool:
    """Whether it is gpudash's own; what it started may be its collector, and is not asked then."""
    if brief and process.parent_pid == os.getpid():
        return True
    return is_own(process.pid, process.parent_pid)


def _wait_for_stop(targets: Iterable[Target]) -> None:
    """Wait until all have stopped, for a moment at most: a debugger may hold some."""
    deadline = time.monotonic() + _STOP_SECONDS
    for target in targets:
        while (stat := proc_stat.read(target.process.pid)) and stat.status not in _CANNOT_FORK:
            if time.monotonic() >= deadline:
                return
            time.sleep(_LOOK_SECONDS)


def tree(root: Target, known: Iterable[Process] = ()) -> tuple[Member, ...]:
    """Return the descendants of a process, each pinned, at most 4096; the caller closes them.

    `known` are the processes of a snapshot, which say what a member holds.
    """
    return Tree(root, known).members


def members(trees: Iterable[Tree]) -> tuple[Member, ...]:
    """Return the members of several trees, each once however they are related."""
    found: dict[tuple[int, float | None], Member] = {}
    for each in trees:
        for member in each.members:
            found.setdefault(member.process.key, member)
    return tuple(found.values())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep gpudash from ending in the midst: who was stopped must get its SIGKILL."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
