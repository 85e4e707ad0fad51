"""Signalling what was aimed at, waiting for its end, and saying what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from gpudash.actions import (
    Outcome,
    Refusal,
    Signal,
    Target,
    freed,
    outcome,
    send_all,
)
from gpudash.actions.outcome import named
from gpudash.snapshot import Process, Snapshot
from gpudash.tui.killing.aim import Aim

Say = Callable[[str], None]
Latest = Callable[[], Snapshot]

KILL_SECONDS = 5.0
PATIENCE_SECONDS = 10.0
"""How long a process has to end by any other signal than SIGKILL."""

_ROOT_FIRST_SECONDS = 2.0
"""How long a process may take to end its children itself, before they get the signal too."""

_RELEASE_SECONDS, _RELEASE_MAX_SECONDS = 3.0, 15.0
"""How long the driver may take to forget a process: at least, and where snapshots are rare."""

_RELEASE_SNAPSHOTS = 3
"""Snapshots that may repeat an old list of processes."""

_LOOK_SECONDS = 0.05


class Result(NamedTuple):
    """What came of a signal, and those that SIGKILL would still end."""

    text: str
    stubborn: tuple[Target, ...]


async def strike(
    aim: Aim, signal: Signal, *, whole: bool, latest: Latest, say: Say, patience: float = 0.0
) -> Result:
    """Send a signal, wait for what it leads to without holding the screen, and return that.

    `patience` is for how many seconds, by default as the signal deserves.
    """
    patience = patience or (KILL_SECONDS if signal.name == "KILL" else PATIENCE_SECONDS)
    before = latest()
    refused = _send(aim, signal, whole=whole)
    waiting = [target for target in aim.targets if target.process.pid not in refused]
    if waiting and signal.ends:
        say(f"SIG{signal.name} sent to {_whom(waiting)}, waiting for the end")
        refused |= await _wait(aim, signal, waiting, patience, whole=whole)
    targets = _all(aim, whole=whole)
    ended = [target.process for target in targets if not target.alive()]
    report = _Report(aim.targets, targets, signal, patience, refused)
    if not _held(ended, before):
        return report.result("")
    say(f"{report.result('').text}; waiting for the next sample")
    after = await _after(ended, before, latest)
    return report.result("" if after is before else freed(ended, before, after))


class _Report(NamedTuple):
    """What is known of each target once all was waited for."""

    roots: Sequence[Target]
    targets: Sequence[Target]
    signal: Signal
    patience: float
    refused: dict[int, str]

    def result(self, released: str) -> Result:
        """Return one line about all, and those that are left."""
        single = released if len(self.roots) == 1 else ""
        told = [(target, self._outcome(target, single)) for target in self.roots]
        below = self.targets[len(self.roots) :]
        left = [(target, self._outcome(target, "")) for target in below if target.alive()]
        failed = [(target, each) for target, each in (*told, *left) if not each.done]
        lines = [each.text for _, each in failed]
        if len(told) == 1:
            lines = [told[0][1].text, *(each.text for target, each in left if not each.done)]
        else:
            lines.insert(0, self._sum(sum(each.done for _, each in told), released))
        ended = sum(not target.alive() for target in below)
        if ended:
            lines.insert(1, f"{ended} below {'it' if len(told) == 1 else 'them'} ended too")
        stubborn = tuple(target for target, each in (*told, *left) if each.offer_kill)
        return Result("; ".join(lines), stubborn)

    def _sum(self, done: int, released: str) -> str:
        name, count = f"SIG{self.signal.name}", len(self.roots)
        if not self.signal.ends:
            return f"{name} sent to {done} of {count} processes"
        text = f"{done} of {count} processes ended after {name}"
        return f"{text}: {released}" if released else text

    def _outcome(self, target: Target, released: str) -> Outcome:
        return outcome(
            target.process,
            self.signal,
            target.state(),
            waited_seconds=self.patience,
            freed=released,
            refused=self.refused.get(target.process.pid),
        )


def _send(aim: Aim, signal: Signal, *, whole: bool) -> dict[int, str]:
    """Send the signal, and return by PID why some did not get it.

    A tree is stopped, killed and not left in between: that is done here and not in a thread.
    """
    trees = {tree.root: tree for tree in aim.trees or ()} if whole else {}
    refusals: list[Refusal] = []
    for target in aim.targets:
        tree = trees.get(target)
        refusals += tree.send(signal.number) if tree else send_all((target,), signal.number)
    return {refusal.process.pid: refusal.reason for refusal in refusals}


async def _wait(
    aim: Aim, signal: Signal, waiting: Sequence[Target], patience: float, *, whole: bool
) -> dict[int, str]:
    """Wait for all; members that their root leaves behind get the signal themselves."""
    deadline = time.monotonic() + patience
    if not whole or not aim.members:
        await _ended(waiting, deadline)
        return {}
    await _ended(_all(aim, whole=True), time.monotonic() + min(_ROOT_FIRST_SECONDS, patience / 2))
    refusals = [
        refusal
        for tree in aim.trees or ()
        if tree.root in waiting and not tree.root.alive()
        for refusal in tree.send_to_rest(signal.number)
    ]
    await _ended(_all(aim, whole=True), deadline)
    return {refusal.process.pid: refusal.reason for refusal in refusals}


async def _ended(targets: Sequence[Target], deadline: float) -> None:
    """Return when none of them runs any more, or at the deadline."""
    while any(target.alive() for target in targets) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_SECONDS)


async def _after(ended: Collection[Process], before: Snapshot, latest: Latest) -> Snapshot:
    """Return the first snapshot that shows none of them, or the last one that was waited for."""
    start, seen, after = time.monotonic(), 0, before
    while True:
        waited = time.monotonic() - start
        if latest() is not after:
            seen, after = seen + 1, latest()
            if not _held(ended, after):
                return after
        if waited > _RELEASE_MAX_SECONDS:
            return after
        if waited > _RELEASE_SECONDS and seen >= _RELEASE_SNAPSHOTS:
            return after
        await asyncio.sleep(_LOOK_SECONDS)


def _held(processes: Collection[Process], snapshot: Snapshot) -> bool:
    """Whether a snapshot still shows one of them."""
    pids = {process.pid for process in processes}
    return any(process.pid in pids for process in snapshot.processes)


def _all(aim: Aim, *, whole: bool) -> tuple[Target, ...]:
    members = aim.members if whole else ()
    return (*aim.targets, *(member.target for member in members))


def _whom(targets: Sequence[Target]) -> str:
    return named(targets[0].process) if len(targets) == 1 else f"{len(targets)} processes"
