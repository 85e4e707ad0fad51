"""Whom a question is about: pinned when it is put, whatever the list shows later."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence

from gpudash.actions.kill.pin import Target
from gpudash.actions.kill.run import Hit
from gpudash.actions.kill.tree import Member, Refusal, Tree, members, pin_all
from gpudash.actions.kill.warnings import Caution, cautions
from gpudash.analysis.labels import used_gpus
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.system import process_tree as kin

_BLOCKED = "it is in D state: a signal reaches it when its system call returns"
_MOST_NAMED = 3


class Aim:
    """Processes of a snapshot, each pinned or refused, and once they are known those below."""

    def __init__(self, rows: Sequence[ProcessRow], snapshot: Snapshot) -> None:
        self.rows = tuple(rows)
        self.snapshot = snapshot
        self.targets: tuple[Target, ...]
        self.refusals: tuple[Refusal, ...]
        self.targets, self.refusals = pin_all((row.process for row in rows), snapshot.host)
        self.cautions = tuple(_merged(self.targets))
        self._ancestors = frozenset(kin.ancestor_pids(os.getpid()))
        self.trees: tuple[Tree, ...] | None = None
        """The tree of each target, None before they are known."""
        self._held = self.targets
        self._lock = threading.Lock()
        self._looking = self._closed = False

    @property
    def living(self) -> tuple[Target, ...]:
        """The targets that still run, none once all were let go."""
        return () if self._closed else tuple(each for each in self.targets if each.alive())

    @property
    def members(self) -> tuple[Member, ...]:
        """All below the targets that are no targets themselves, each once."""
        roots = {target.process.key for target in self.targets}
        below = members(tree for tree in self.trees or () if tree.root in self.targets)
        return tuple(member for member in below if member.process.key not in roots)

    @property
    def above_gpudash(self) -> bool:
        """Whether gpudash runs below one of the targets; its own processes are no members."""
        return any(target.process.pid in self._ancestors for target in self.targets)

    @property
    def grave(self) -> bool:
        """Whether one of those that still run is no plain job and wants a second answer."""
        return any(caution.grave for caution in self.cautions)

    def hits(self, *, whole: bool) -> tuple[Hit, ...]:
        """Return what a signal is for, with what is below them if `whole`."""
        trees = {tree.root: tree for tree in self.trees or ()}
        return tuple(Hit(target, trees.get(target), whole) for target in self.targets)

    def processes(self, *, whole: bool) -> tuple[Process, ...]:
        """Return those that a signal is for, with all below them if `whole`.

        Where none of them runs or every one is refused, those that were chosen.
        """
        chosen = tuple(target.process for target in self.living or self.targets)
        if not chosen:
            return tuple(row.process for row in self.rows)
        return chosen + (tuple(member.process for member in self.members) if whole else ())

    def look_below(self) -> None:
        """Look for the trees in a thread of their own: /proc may hold its reader for ever."""
        if not self.targets or self._looking:
            return
        self._looking = True
        threading.Thread(target=self._look, daemon=True).start()

    def keep(self, targets: Collection[Target]) -> None:
        """Leave out all but some of the targets and of the members of their trees."""
        self.rows = tuple(self._row(target.process) for target in targets)
        self.targets, self.refusals = tuple(targets), ()
        self.cautions = tuple(_merged(self.targets))

    def close(self) -> None:
        """Let go of all, at the latest when nobody looks below them any more."""
        with self._lock:
            self._closed = True
            if self._looking:
                return
        self._let_go()

    def _look(self) -> None:
        trees: list[Tree] = []
        try:
            trees += (Tree(target, self.snapshot.processes) for target in self.targets)
        finally:
            with self._lock:
                self._looking, self.trees = False, tuple(trees)
                closed = self._closed
            if closed:
                self._let_go()

    def _let_go(self) -> None:
        for tree in self.trees or ():
            tree.close()
        for target in self._held:
            target.close()

    def _row(self, process: Process) -> ProcessRow:
        age = None
        if process.create_time is not None:
            age = self.snapshot.taken_at.timestamp() - process.create_time
        return ProcessRow(process, gpus((process,), self.snapshot), age)


def gpus(processes: Iterable[Process], snapshot: Snapshot) -> str:
    """Return the labels of all devices that processes use: `0-3`."""
    shares = [share for process in processes for share in process.devices]
    return used_gpus(shares, snapshot.devices)


def _merged(targets: Sequence[Target]) -> Iterator[Caution]:
    """Say each caution once, with whom it is about where there are several."""
    about: dict[Caution, list[int]] = {}
    for target in targets:
        blocked = (Caution(_BLOCKED),) if target.state().state == "uninterruptible" else ()
        for caution in (*cautions(target), *blocked):
            about.setdefault(caution, []).append(target.process.pid)
    for caution, pids in sorted(about.items(), key=lambda item: not item[0].grave):
        yield caution._replace(text=_about(caution.text, pids, len(targets)))


def _about(sentence: str, pids: Sequence[int], count: int) -> str:
    if count == 1:
        return sentence
    if len(pids) == count:
        return f"{sentence} (all of them)"
    few = len(pids) <= _MOST_NAMED
    return f"{', '.join(map(str, pids)) if few else f'{len(pids)} of them'}: {sentence}"
