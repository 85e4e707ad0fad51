"""The processes that are chosen to be signalled: pinned when the question is put, or refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpudash.actions.kill.pin import Target, masked_command
from gpudash.actions.kill.run import KillRequest
from gpudash.actions.kill.tree import Member, Refusal, Tree, members, pin_all
from gpudash.actions.kill.warnings import KillWarning, dangers_below, warnings
from gpudash.analysis.labels import used_gpus
from gpudash.analysis.table import ProcessRow, age_seconds, process_rows
from gpudash.model.errors import ActionError, UsageError
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.units import ABSENT, duration, size, sum_known
from gpudash.system import process_tree, processes

_MAX_NAMED = 3
_MAX_DIGITS = 20


class KillSelection:
    """Processes of a snapshot, each pinned or refused, with what is below them once it is known."""

    def __init__(self, rows: Sequence[ProcessRow], snapshot: Snapshot) -> None:
        self.rows = tuple(rows)
        self.snapshot = snapshot
        self.targets: tuple[Target, ...]
        self.refusals: tuple[Refusal, ...]
        self.targets, self.refusals = pin_all((row.process for row in rows), snapshot.host)
        self._warnings = _warnings(self.targets)
        self._dangers_below: dict[int, tuple[KillWarning, ...]] = {}
        """Of each member, by PID, known once the trees are."""
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
        """All below the targets that are no targets themselves, each once."""
        roots = {target.process.key for target in self.targets}
        below = members(tree for tree in self.trees or () if tree.root in self.targets)
        return tuple(member for member in below if member.process.key not in roots)

    @property
    def is_above_gpudash(self) -> bool:
        """Whether gpudash runs below one of the targets; its own processes are no members."""
        return any(target.process.pid in self._ancestors for target in self.targets)

    def warnings(self, *, with_tree: bool) -> tuple[KillWarning, ...]:
        """Return what else a signal would affect, each once, dangers first.

        Of members there are dangers alone, each with the PIDs that it is about.
        """
        roots = _by_warning(self._warnings).items()
        below = _by_warning(self._below(with_tree=with_tree)).items()
        found = [
            each._replace(text=_about(each.text, pids, len(self.targets))) for each, pids in roots
        ]
        found += [each._replace(text=f"{listed(pids)}: {each.text}") for each, pids in below]
        return tuple(sorted(found, key=lambda warning: not warning.dangerous))

    def dangerous_pids(self, *, with_tree: bool) -> tuple[int, ...]:
        """Return the PIDs of those that are not plain jobs and need a second confirmation."""
        found = {**self._warnings, **self._below(with_tree=with_tree)}
        return tuple(pid for pid, each in found.items() if any(w.dangerous for w in each))

    def requests(self, *, with_tree: bool) -> tuple[KillRequest, ...]:
        """Return what is to be signalled."""
        trees = {tree.root: tree for tree in self.trees or ()}
        return tuple(KillRequest(each, trees.get(each), with_tree) for each in self.targets)

    def processes(self, *, with_tree: bool) -> tuple[Process, ...]:
        """Return the processes that a signal is for.

        Where none of them runs or every one is refused, those that were chosen.
        """
        chosen = tuple(target.process for target in self.living or self.targets)
        if not chosen:
            return tuple(row.process for row in self.rows)
        below = (member.process for member in self.members) if with_tree else ()
        return (*chosen, *below)

    def find_trees(self) -> None:
        """Find what is below the targets; reading /proc may block for ever."""
        trees = tuple(Tree(target, self.snapshot.processes) for target in self.targets)
        found = {member.pid: dangers_below(member.process) for member in members(trees)}
        # Dangers first: once there are trees, members can be chosen.
        self._dangers_below, self.trees = found, trees

    def find_trees_in_thread(self) -> None:
        """Find what is below the targets, in a thread of its own."""
        if self.targets and not self._is_searching:
            self._is_searching = True
            threading.Thread(target=self._search, daemon=True).start()

    def keep(self, targets: Collection[Target]) -> None:
        """Drop all but these targets and members, and find what is below them by now.

        Reading /proc may block for ever.
        """
        self.rows = tuple(self._row(target.process) for target in targets)
        self.targets, self.refusals = tuple(targets), ()
        self._warnings = _warnings(self.targets)
        # They hold the targets that were members.
        self._earlier_trees += self.trees or ()
        self.find_trees()

    def age_with(self, snapshot: Snapshot) -> None:
        """Give the rows the ages of a later snapshot."""
        self.rows = tuple(
            row._replace(age_seconds=age_seconds(row.process, snapshot)) for row in self.rows
        )

    def close(self) -> None:
        """Release all pins, at the latest when the search for trees has ended."""
        with self._lock:
            self._is_closed = True
            if self._is_searching:
                return
        self._release()

    def _below(self, *, with_tree: bool) -> dict[int, tuple[KillWarning, ...]]:
        """Return the dangers of each member that is signalled, by PID."""
        found = self.members if with_tree else ()
        return {member.pid: self._dangers_below.get(member.pid, ()) for member in found}

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

    def _row(self, process: Process) -> ProcessRow:
        age = age_seconds(process, self.snapshot)
        return ProcessRow(process, gpus((process,), self.snapshot), age)


def _warnings(targets: Iterable[Target]) -> dict[int, tuple[KillWarning, ...]]:
    return {target.process.pid: warnings(target) for target in targets}


def _by_warning(found: Mapping[int, Sequence[KillWarning]]) -> dict[KillWarning, list[int]]:
    """Return the PIDs that each warning is about."""
    about: dict[KillWarning, list[int]] = {}
    for pid, each in found.items():
        for warning in each:
            about.setdefault(warning, []).append(pid)
    return about


def _about(sentence: str, pids: Sequence[int], count: int) -> str:
    if count == 1:
        return sentence
    if len(pids) == count:
        return f"{sentence} (all of them)"
    is_few = len(pids) <= _MAX_NAMED
    return f"{listed(pids) if is_few else f'{len(pids)} of them'}: {sentence}"


def listed(pids: Iterable[int]) -> str:
    """Return PIDs in words: `4242, 4300`."""
    return ", ".join(map(str, pids))


def gpus(processes: Iterable[Process], snapshot: Snapshot) -> str:
    """Return the labels of all devices that processes use: `0-3`."""
    return used_gpus((share for each in processes for share in each.devices), snapshot.devices)


def describe_memory(processes: Collection[Process], snapshot: Snapshot) -> str:
    """Return what processes hold together: `16.0 GiB on GPU 0-1`, `no GPU memory`."""
    labels = gpus(processes, snapshot)
    if labels == ABSENT:
        return "no GPU memory"
    held = sum_known(process.used_gpu_memory_bytes for process in processes)
    return f"{'an unknown amount' if held is None else size(held)} on GPU {labels}"


def describe_process(row: ProcessRow) -> str:
    """Return owner, age, job and memory: `alice, started 3h ago, 16.0 GiB on GPU 0`."""
    process = row.process
    age = None if row.age_seconds is None else f"started {duration(row.age_seconds)} ago"
    job = None if process.job is None else process.job.label
    amount = process.used_gpu_memory_bytes
    held = f"{size(amount)} on GPU {row.gpus}" if process.devices else "no GPU memory"
    return ", ".join(part for part in (process.username, age, job, held) if part)


def describe_member(member: Member, command: Callable[[Process], str] = masked_command) -> str:
    """Return PID, owner, memory and command line: `+ 4300 alice 3.0 GiB: python worker.py`."""
    process = member.process
    held = size(process.used_gpu_memory_bytes) if process.devices else None
    parts = (str(process.pid), process.username, held)
    return f"+ {' '.join(part for part in parts if part)}: {command(process)}"


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
    row = next((each for each in process_rows(snapshot) if each.process.pid == name.pid), None)
    if row is None:
        process = process_tree.process_of(name.pid)
        if process is None:
            raise ActionError(f"there is no process of PID {name.pid}")
        row = ProcessRow(process, ABSENT, age_seconds(process, snapshot))
    if name.start_ticks not in (None, row.process.start_ticks):
        raise ActionError(f"PID {name.pid} now belongs to another process; nothing was sent")
    return row


def _refuse_without_gpu(selection: KillSelection, *, with_tree: bool) -> None:
    """Raise unless the process, or with `with_tree` one of its tree, uses a GPU.

    The driver does not list processes that have a GPU open without a context of their own, such as
    forked workers.
    """
    (target,) = selection.targets
    process, pid = target.process, target.process.pid
    below = sum(bool(member.process.devices) for member in selection.members)
    if process.devices or (with_tree and below) or processes.has_device_open(pid):
        return
    if below:
        count = "one process" if below == 1 else f"{below} processes"
        raise ActionError(f"PID {pid} uses no GPU itself, {count} below it: add --tree")
    faults = [each for each in selection.snapshot.errors if each.source in ("nvml", "processes")]
    faults += [each.fault for each in selection.snapshot.devices if each.fault is not None]
    if faults:
        raise ActionError(f"unknown whether PID {pid} uses a GPU: {faults[0].message}")
    raise ActionError(f"PID {pid} uses no GPU; to end it anyway: kill {pid}")
