"""A pinned process with all its descendants: launchers start workers in separate sessions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gpudash.actions.kill.pin import Target, hold, is_own, open_pidfd, pin
from gpudash.model.errors import ActionError
from gpudash.model.process import Process
from gpudash.model.snapshot import Host
from gpudash.system import process_tree, processes

_MAX_PINNED = 128
"""Maximum number of descriptors; further members are identified by their start time."""

_MAX_SCANS = 8
"""Rounds, each of which stops processes forked in the round before."""

_STOP_SECONDS = 0.1
_POLL_SECONDS = 0.002
_CANNOT_FORK = frozenset({"stopped", "tracing-stop", "disk-sleep", "zombie", "dead"})
_DEFERRED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Refusal(NamedTuple):
    """A process to which nothing was sent, and why."""

    process: Process
    reason: str


def pin_all(
    processes: Iterable[Process], host: Host
) -> tuple[tuple[Target, ...], tuple[Refusal, ...]]:
    """Pin as many as possible; the caller closes the targets."""
    targets: list[Target] = []
    refusals: list[Refusal] = []
    for process in processes:
        try:
            targets.append(pin(process, host))
        except ActionError as error:
            refusals.append(Refusal(process, str(error)))
    return tuple(targets), tuple(refusals)


class Attempt(NamedTuple):
    """A signal that was sent to a process, or why it was not."""

    target: Target
    refusal: str | None = None


def send_all(targets: Iterable[Target], signal_number: int) -> list[Attempt]:
    """Send a signal to each."""
    return [_sent(target, signal_number) for target in targets]


def _sent(target: Target, signal_number: int) -> Attempt:
    try:
        target.send(signal_number)
    except ActionError as error:
        return Attempt(target, str(error))
    return Attempt(target)


class Member(NamedTuple):
    """A descendant, `depth` steps below the process that was chosen."""

    target: Target
    depth: int

    @property
    def process(self) -> Process:
        """The process, with its devices if the snapshot shows any."""
        return self.target.process

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self.target.process.pid


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
        """Add processes started since the last scan; return whether there were any.

        A brief scan never waits for the kernel and omits owners and command lines.
        """
        held = {self.root.process.pid: 0, **{member.pid: member.depth for member in self.members}}
        roots = (t.process.pid for t in self.targets if t.alive())
        relatives = process_tree.descendants(*roots, brief=brief)
        # Those that still run kept their PIDs while /proc was read.
        depths = {t.process.pid: held[t.process.pid] for t in self.targets if t.alive()}
        found: list[Member] = []
        for process, *_ in relatives:
            above = depths.get(process.parent_pid or 0)
            if above is None or process.pid in held or _is_own(process, brief=brief):
                continue
            if len(self.members) + len(found) >= process_tree.MAX_DESCENDANTS:
                break
            target = self._pin(process, len(self.members) + len(found) < _MAX_PINNED)
            if target is not None:
                found.append(Member(target, above + 1))
                depths[process.pid] = above + 1
        self.members = (*self.members, *found)
        return bool(found)

    def send(self, signal_number: int, *, root_first: bool = True) -> list[Attempt]:
        """Send SIGKILL to all; any other signal to the root, which may pass it on, or to all.

        With `root_first`, the others get it at once only if the root cannot.
        """
        if signal_number == signal.SIGKILL:
            with _undisturbed():
                self._freeze()
                attempts = self._send_to_all(signal_number)
        elif root_first:
            attempts = send_all((self.root,), signal_number)
            if attempts[0].refusal is not None:
                attempts += self.send_to_rest(signal_number)
        else:
            attempts = self._send_to_all(signal_number)
        if any(each.target is self.root for each in attempts):
            return attempts
        return [Attempt(self.root, self.root.end), *attempts]

    def send_to_rest(
        self, signal_number: int, reached: Container[tuple[int, float | None]] = ()
    ) -> list[Attempt]:
        """Send a signal to the running members, except for those whose keys it has `reached`.

        Members that end meanwhile are left out.
        """
        self.rescan(brief=True)
        rest = [m.target for m in self.members if m.process.key not in reached]
        attempts = send_all((each for each in rest if each.alive()), signal_number)
        return [each for each in attempts if each.refusal is None or each.target.alive()]

    def _send_to_all(self, signal_number: int) -> list[Attempt]:
        """Send a signal to the root, if it still runs, and to the members."""
        roots = [self.root] if self.root.alive() else []
        return send_all(roots, signal_number) + self.send_to_rest(signal_number)

    def close(self) -> None:
        """Release the members; the caller that pinned the root closes it."""
        for member in self.members:
            member.target.close()

    def _pin(self, process: Process, by_descriptor: bool) -> Target | None:
        process = self._known.get(process.key, process)
        try:
            return hold(process, open_pidfd(process.pid) if by_descriptor else None)
        except ActionError:  # It ended meanwhile.
            return None

    def _freeze(self) -> None:
        """Stop all: a stopped process neither forks nor leaves its children to init."""
        stopped = 0
        for _ in range(_MAX_SCANS):
            fresh = self.targets[stopped:]
            attempts = send_all(fresh, signal.SIGSTOP)
            _wait_for_stop(each.target for each in attempts if each.refusal is None)
            stopped += len(fresh)
            if not self.rescan(brief=True):
                break


def _is_own(process: Process, *, brief: bool) -> bool:
    """Whether it is gpudash's own; a brief scan assumes that all our children are collectors."""
    if brief and process.parent_pid == os.getpid():
        return True
    return is_own(process.pid, process.parent_pid)


def _wait_for_stop(targets: Iterable[Target]) -> None:
    """Wait until all have stopped, for at most a moment: a debugger may hold some."""
    deadline = time.monotonic() + _STOP_SECONDS
    for target in targets:
        while (stat := processes.read_stat(target.process.pid)) and stat.status not in _CANNOT_FORK:
            if time.monotonic() >= deadline:
                return
            time.sleep(_POLL_SECONDS)


def members(trees: Iterable[Tree]) -> tuple[Member, ...]:
    """Return the members of several trees, each once, even if the trees overlap."""
    found: dict[tuple[int, float | None], Member] = {}
    for each in trees:
        for member in each.members:
            found.setdefault(member.process.key, member)
    return tuple(found.values())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block signals that would end gpudash: stopped processes must get their SIGKILL."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
