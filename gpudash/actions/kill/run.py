"""A signal in progress: sent, recorded, and waited for until processes and memory are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.actions.kill.audit import Sending
from gpudash.actions.kill.pin import Target, named
from gpudash.actions.kill.report import KillReport, Result, Share, children, describe, held_by
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.tree import Attempt, Tree, members, send_all
from gpudash.model.snapshot import Snapshot
from gpudash.system import processes

_POLL_SECONDS = 0.05
_MAX_SURVIVORS = 512


class KillRequest(NamedTuple):
    """A process to be signalled."""

    target: Target
    tree: Tree | None
    """Its descendants, None if not known yet."""
    with_tree: bool
    """Whether its descendants are to be signalled too."""


class Timeouts(NamedTuple):
    """Timeouts of a kill, in seconds."""

    kill: float = 5.0
    """For the exit after SIGKILL."""
    end: float = 10.0
    """For the exit after any other signal: training jobs write a checkpoint."""
    root_first: float = 2.0
    """For a process to end its children itself, before they get the signal too."""
    reap: float = 5.0
    """For a parent to reap a process that ended: many check only now and then."""
    release: float = 7.0
    """For the driver to free memory: longer than a silent GPU keeps its last values."""
    release_max: float = 15.0
    """The same if samples are rare."""
    release_samples: int = 3
    """Samples that may repeat an old list of processes."""


TIMEOUTS = Timeouts()
"""Used unless a caller has others."""


class Kill:
    """One signal to some processes: `send` sends it, `wait` returns its result.

    They are separate so that `send` can be called where nothing interrupts it: a tree that is to
    be killed is stopped first, and must not stay stopped. `record` gets what was sent, and must not
    block.
    """

    def __init__(
        self,
        requests: Sequence[KillRequest],
        signal: Signal,
        *,
        record: Callable[[Sequence[Sending]], None] = lambda _: None,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self.requests = tuple(requests)
        self.signal = signal
        self.sendings: list[Sending] = []
        """All that was sent so far, or why it was not."""
        self._record = record
        self._timeouts = timeouts

    @property
    def reached(self) -> tuple[Target, ...]:
        """Those that got the signal so far."""
        sent = (each.target for each in self.sendings if each.refusal is None)
        return tuple({target.process.key: target for target in sent}.values())

    def send(self) -> None:
        """Send the signal to all, with their trees if requested."""
        for request in self.requests:
            if request.tree is not None and request.with_tree:
                # A root to be ended may end the others in order; a paused one cannot.
                first = self.signal.ends
                attempts = request.tree.send(self.signal.number, root_first=first)
            else:
                attempts = send_all((request.target,), self.signal.number)
            self._note(attempts)

    def wait(
        self,
        before: Snapshot,
        *,
        latest: Callable[[], Snapshot],
        progress: Callable[[str], object] = lambda _: None,
        pause: Callable[[float], object] = time.sleep,
    ) -> KillReport:
        """Wait for the exit of all and for the release of their memory, within the timeouts.

        `before` shows what is held, `latest` returns the newest snapshot, `progress` gets a text
        about what is awaited; `pause` sleeps, and may raise to give up.
        """
        refused, reached = self._refused, self.reached
        chosen = [each.target for each in self.requests if each.target.process.pid not in refused]
        seconds = self._timeouts.kill if self.signal.name == "KILL" else self._timeouts.end
        if reached and self.signal.ends:
            # If a tree's root had already ended, the rest of it.
            sent = chosen or reached
            target = named(sent[0].process) if len(sent) == 1 else f"{len(sent)} processes"
            progress(self._waiting_for(target, len(sent), seconds))
            self._wait_for_end(seconds, progress, pause)
        report = self._report(before, seconds)
        held = held_by((each.target.process for each in report.results if each.ended), before)
        if not held:
            return report
        progress(f"{'; '.join(describe(report))}; waiting for the driver to release the memory")
        report = self._wait_for_release(report, held, latest, pause)
        survivors = self._survivors() if report.is_memory_kept else ()
        return replace(report.refreshed(), survivors=survivors)

    @property
    def _refused(self) -> dict[int, str]:
        return {each.target.process.pid: each.refusal for each in self.sendings if each.refusal}

    def _note(self, attempts: Iterable[Attempt]) -> None:
        """Note what was sent, and record it; one that got it within another's tree has ended."""
        reached = {each.process.key for each in self.reached}
        fresh = [
            Sending(target, self.signal, refusal)
            for target, refusal in attempts
            if refusal is None or target.process.key not in reached
        ]
        self.sendings += fresh
        self._record(fresh)

    def _waiting_for(self, target: str, count: int, seconds: float) -> str:
        limit = f"waiting up to {seconds:.0f} s for {'it' if count == 1 else 'them'} to end"
        return f"SIG{self.signal.name} sent to {target}; {limit}"

    def _wait_for_end(
        self, seconds: float, progress: Callable[[str], object], pause: Callable[[float], object]
    ) -> None:
        """Wait for all; members that still run after a moment get the signal themselves."""
        deadline, refused = time.monotonic() + seconds, self._refused
        waiting = [each for each in self.requests if each.target.process.pid not in refused]
        if self._members(waiting):
            first = time.monotonic() + min(self._timeouts.root_first, seconds / 2)
            self._poll(waiting, first, pause)
            if count := self._send_to_rest(waiting):
                # Each has the whole time to exit.
                deadline = time.monotonic() + seconds
                progress(self._waiting_for(f"{children(count)} too", count, seconds))
        self._poll(waiting, deadline, pause)

    def _send_to_rest(self, requests: Iterable[KillRequest]) -> int:
        """Send the signal to descendants that did not get it; return their number."""
        before = len(self.sendings)
        for request in requests:
            if request.tree is not None and request.with_tree:
                reached = {each.process.key for each in self.reached}
                self._note(request.tree.send_to_rest(self.signal.number, reached))
        return sum(each.refusal is None for each in self.sendings[before:])

    def _poll(
        self, waiting: Sequence[KillRequest], deadline: float, pause: Callable[[float], object]
    ) -> None:
        """Return when no signalled process or member runs, or at the end."""
        targets = [*self.reached, *self._members(waiting)]
        while (targets := [each for each in targets if each.alive()]) and (
            time.monotonic() < deadline
        ):
            pause(_POLL_SECONDS)

    def _wait_for_release(
        self,
        report: KillReport,
        held: Collection[Share],
        latest: Callable[[], Snapshot],
        pause: Callable[[float], object],
    ) -> KillReport:
        """Return the report once all memory is seen to be free, or after a while."""
        start, samples, after = time.monotonic(), 0, report.before
        report = report.with_memory(held, after)
        limits = self._timeouts
        while True:
            fresh = latest()
            if fresh is not after:
                samples, after = samples + 1, fresh
                report = report.with_memory(held, after)
            waited = time.monotonic() - start
            is_over = waited > limits.release and samples >= limits.release_samples
            if report.is_memory_freed or is_over or waited > limits.release_max:
                return report
            pause(_POLL_SECONDS)

    def _report(self, before: Snapshot, seconds: float) -> KillReport:
        refused = self._refused
        roots = [(request.target, False) for request in self.requests]
        results = [
            Result(
                target,
                target.state(),
                refused.get(target.process.pid),
                is_member,
            )
            for target, is_member in (*roots, *((each, True) for each in self._members()))
        ]
        return KillReport(
            signal=self.signal,
            results=tuple(results),
            before=before,
            with_tree=any(request.with_tree for request in self.requests),
            waited_seconds=seconds,
            reap_due_at=time.monotonic() + self._timeouts.reap,
        )

    def _members(self, requests: Sequence[KillRequest] | None = None) -> tuple[Target, ...]:
        """Return the signalled descendants that were not chosen themselves, each once."""
        asked = self.requests if requests is None else requests
        trees = [each.tree for each in asked if each.tree is not None and each.with_tree]
        roots = {each.target.process.key for each in asked}
        return tuple(m.target for m in members(trees) if m.process.key not in roots)

    def _survivors(self) -> tuple[Target, ...]:
        """Return spared descendants of ended processes that have a device open."""
        trees = [
            each.tree
            for each in self.requests
            if each.tree and not each.with_tree and not each.target.alive()
        ]
        spared = [member.target for member in members(trees)][:_MAX_SURVIVORS]
        roots = {each.target.process.key for each in self.requests}
        return tuple(
            target
            for target in spared
            if target.process.key not in roots
            and target.alive()
            and processes.has_device_open(target.process.pid)
        )


def describe_unfinished(kill: Kill) -> str:
    """Return what was sent, after the wait for its effect was given up."""
    name, reached = f"SIG{kill.signal.name}", kill.reached
    if not reached:
        return f"{name} was not delivered"
    ended, count = sum(not target.alive() for target in reached), len(reached)
    memory = "; cannot tell whether GPU memory was freed" if ended == count else ""
    if count == 1:
        fate = "has ended" if ended else "still runs"
        return f"{name} was sent to {named(reached[0].process)}, which {fate}{memory}"
    have = "has" if ended == 1 else "have"
    return f"{name} was sent to {count} processes, of which {ended} {have} ended{memory}"
