"""The processes chosen to be signalled: pinned when the question is asked, or refused."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from gpudash.actions.kill.pin import Target, exited
from gpudash.actions.kill.report import children
from gpudash.actions.kill.run import KillRequest
from gpudash.actions.kill.tree import Member, Refusal, Tree, members, pin_all
from gpudash.actions.kill.warnings import KillWarning, dangers_below, warnings
from gpudash.model.errors import ActionError, UsageError
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.units import grouped
from gpudash.system import process_tree, processes

_MAX_NAMED = 3
_NAME = re.compile(r"([0-9]{1,19})(?::([0-9]{1,19}))?")
"""Decimals within 64 bits: int() rejects one of thousands of digits."""


class KillSelection:
    """Processes of a snapshot, each pinned or refused, with their descendants once known."""

    def __init__(self, chosen: Iterable[Process], snapshot: Snapshot) -> None:
        self.chosen = tuple(chosen)
        """All of them, including refused or ended ones."""
        self.snapshot = snapshot
        """Shows what they hold."""
        self.targets: tuple[Target, ...]
        """Those that can be signalled."""
        self.refusals: tuple[Refusal, ...]
        """Why the others cannot be signalled."""
        self.targets, self.refusals = pin_all(self.chosen, snapshot.host)
        self._warnings = {each.process.pid: warnings(each) for each in self.targets}
        self._dangers_below: dict[int, tuple[KillWarning, ...]] = {}
        """By PID of each member, once the trees are known."""
        self.trees: tuple[Tree, ...] | None = None
        """The tree of each target, None before they are known."""
        self._earlier_trees: tuple[Tree, ...] = ()
        self._ancestors = frozenset(process_tree.ancestor_pids(os.getpid()))
        self._pinned = self.targets
        self._lock = threading.Lock()
        self._is_searching = self._is_closed = False

    @property
    def living(self) -> tuple[Target, ...]:
        """The targets that still run; none once it is closed."""
        return () if self._is_closed else tuple(each for each in self.targets if each.alive())

    @property
    def members(self) -> tuple[Member, ...]:
        """All descendants of targets that are not targets themselves, each once."""
        roots = {target.process.key for target in self.targets}
        below = members(tree for tree in self.trees or () if tree.root in self.targets)
        return tuple(member for member in below if member.process.key not in roots)

    @property
    def is_above_gpudash(self) -> bool:
        """Whether gpudash runs below a target; its own processes are not members."""
        return any(target.process.pid in self._ancestors for target in self.targets)

    @property
    def refused(self) -> dict[int, str]:
        """By PID, why some of the chosen ones are not signalled."""
        living = self.living
        ended = (each.process.pid for each in self.targets if each not in living)
        reasons = {each.process.pid: each.reason for each in self.refusals}
        return {**reasons, **{pid: exited(pid) for pid in ended}}

    def warnings(self, *, with_tree: bool) -> tuple[KillWarning, ...]:
        """Return what else a signal would affect, each once, dangers first.

        The PIDs concerned are named unless only one process was chosen.
        """
        warned = self._warned(with_tree=with_tree)
        about = grouped((warning, pid) for pid, each in warned.items() for warning in each)
        alone = [self.targets[0].process.pid] if len(self.targets) == 1 else []
        found = (
            each if pids == alone else each._replace(text=f"{listed(pids)}: {_of(pids, each.text)}")
            for each, pids in about.items()
        )
        return tuple(sorted(found, key=lambda warning: not warning.dangerous))

    def dangerous_pids(self, *, with_tree: bool) -> tuple[int, ...]:
        """Return the PIDs of processes that are not plain jobs and need a second confirmation."""
        found = self._warned(with_tree=with_tree).items()
        return tuple(pid for pid, each in found if any(w.dangerous for w in each))

    def requests(self, *, with_tree: bool) -> tuple[KillRequest, ...]:
        """Return what is to be signalled."""
        trees = {tree.root: tree for tree in self.trees or ()}
        return tuple(KillRequest(each, trees.get(each), with_tree) for each in self.targets)

    def processes(self, *, with_tree: bool) -> tuple[Process, ...]:
        """Return the processes to be signalled.

        If none of them runs or all are refused, those that were chosen.
        """
        chosen = tuple(target.process for target in self.living or self.targets)
        if not chosen:
            return self.chosen
        below = (member.process for member in self.members) if with_tree else ()
        return (*chosen, *below)

    def find_trees(self) -> None:
        """Find the descendants of the targets; reading /proc may block for ever."""
        trees = tuple(Tree(target, self.snapshot.processes) for target in self.targets)
        found = {member.pid: dangers_below(member.process) for member in members(trees)}
        # Dangers first: once there are trees, members can be chosen.
        self._dangers_below, self.trees = found, trees

    def find_trees_in_thread(self) -> None:
        """Find the descendants of the targets in a separate thread."""
        if self.targets and not self._is_searching:
            self._is_searching = True
            threading.Thread(target=self._search, daemon=True).start()

    def keep(self, targets: Collection[Target]) -> None:
        """Drop all but these targets and members, and find their present descendants.

        Reading /proc may block for ever.
        """
        self.chosen = tuple(target.process for target in targets)
        self.targets, self.refusals = tuple(targets), ()
        self._warnings = {each.process.pid: warnings(each) for each in self.targets}
        # They hold the targets that were members.
        self._earlier_trees += self.trees or ()
        self.find_trees()

    def close(self) -> None:
        """Release all pins, at the latest when the search for trees has ended."""
        with self._lock:
            self._is_closed = True
            if self._is_searching:
                return
        self._release()

    def _warned(self, *, with_tree: bool) -> dict[int, tuple[KillWarning, ...]]:
        """Return the warnings about each signalled process, by PID; of members, only dangers."""
        found = self.members if with_tree else ()
        below = {member.pid: self._dangers_below.get(member.pid, ()) for member in found}
        return {**self._warnings, **below}

    def _search(self) -> None:
        try:
            self.find_trees()
        finally:
            with self._lock:
                self._is_searching, is_closed = False, self._is_closed
            if is_closed:
                self._release()

    def _release(self) -> None:
        for tree in (*self._earlier_trees, *(self.trees or ())):
            tree.close()
        for target in self._pinned:
            target.close()


def _of(pids: Sequence[int], sentence: str) -> str:
    """Return a sentence about a process, `it leads a session`, for each of these."""
    is_about_it = len(pids) > 1 and sentence.startswith("it ")
    return f"each {sentence.removeprefix('it ')}" if is_about_it else sentence


def listed(pids: Sequence[int]) -> str:
    """Return `PID 4242`, `PIDs 4242, 4300`, or for many only their number."""
    if len(pids) > _MAX_NAMED:
        return f"{len(pids)} processes"
    return f"PID{'s' * (len(pids) > 1)} {', '.join(map(str, pids))}"


class ProcessName(NamedTuple):
    """A process as the command line names it: `4242`, or `4242:303585` with its start ticks."""

    pid: int
    start_ticks: int | None = None


def parse_name(word: str) -> ProcessName:
    """Return the process that a word names; raises UsageError if it is not a PID."""
    match = _NAME.fullmatch(word)
    if match is None or not int(match[1]):
        raise UsageError(f"{clean(word, 80)!r} is not a PID: expected 4242 or 4242:START_TICKS")
    return ProcessName(int(match[1]), None if match[2] is None else int(match[2]))


def select(
    names: Iterable[ProcessName], snapshot: Snapshot, *, with_tree: bool
) -> tuple[KillSelection, tuple[str, ...]]:
    """Pin the named processes; return them, and why each of the others is not signalled."""
    chosen: list[Process] = []
    reasons: list[str] = []
    for name in names:
        try:
            chosen.append(_find(name, snapshot))
        except ActionError as error:
            reasons.append(str(error))
    selection = KillSelection(chosen, snapshot)
    reasons += [refusal.reason for refusal in selection.refusals]
    selection.find_trees()
    kept: list[Target] = []
    for tree in selection.trees or ():
        reason = _why_not(tree, snapshot, with_tree=with_tree)
        if reason is None:
            kept.append(tree.root)
        else:
            reasons.append(reason)
    if reasons:
        selection.keep(kept)
    return selection, tuple(reasons)


def _find(name: ProcessName, snapshot: Snapshot) -> Process:
    """Return the process of a PID; raises ActionError if there is none, or another one."""
    shown = (each for each in snapshot.processes if each.pid == name.pid)
    process = next(shown, None) or process_tree.process_of(name.pid)
    if process is None:
        raise ActionError(f"there is no process of PID {name.pid}")
    if name.start_ticks not in (None, process.start_ticks):
        raise ActionError(f"PID {name.pid} now belongs to another process; nothing was sent")
    return process


def _why_not(tree: Tree, snapshot: Snapshot, *, with_tree: bool) -> str | None:
    """Return why a process may not be signalled: neither it, nor `with_tree` its tree, uses a GPU.

    The driver does not list processes that have a GPU open without a context of their own, such as
    forked workers.
    """
    process, pid = tree.root.process, tree.root.process.pid
    below = sum(bool(member.process.devices) for member in tree.members)
    if process.devices or (with_tree and below) or processes.has_device_open(pid):
        return None
    if below:
        use = "does" if below == 1 else "do"
        return f"PID {pid} uses no GPU itself, but {children(below)} {use}; add --tree"
    faults = [each for each in snapshot.errors if each.source in ("nvml", "processes")]
    faults += [each.fault for each in snapshot.devices if each.fault is not None]
    if faults:
        return f"unknown whether PID {pid} uses a GPU: {faults[0].message}"
    return f"PID {pid} uses no GPU; to end it anyway: kill {pid}"
