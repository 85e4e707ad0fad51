"""What came of a signal, once all was waited for: one line for all, or one for each process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from gpudash.actions.kill import patience
from gpudash.actions.kill.outcome import Outcome, outcome
from gpudash.actions.kill.release import Release
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.target import Target
from gpudash.model.snapshot import Snapshot

_MOST_NAMED = 3


class Line(NamedTuple):
    """What came of one process, in words for people."""

    target: Target
    outcome: Outcome
    text: str


class Report(NamedTuple):
    """What is known of each target: `roots` were meant themselves, `below` with their trees."""

    roots: tuple[Target, ...]
    below: tuple[Target, ...]
    signal: Signal
    waited_seconds: float
    refused: dict[int, str]
    """Why the signal did not reach some, by PID."""
    waited_until: float = 0.0
    """When their end was no longer waited for, on the monotonic clock."""
    release: Release | None = None
    """What became of the memory, None while that is not known and where none was held."""
    survivors: tuple[Target, ...] = ()
    """Processes below that were spared and keep a device open whose memory is not released."""

    @property
    def ended(self) -> tuple[Target, ...]:
        """All that do not run any more."""
        return tuple(target for target in (*self.roots, *self.below) if not target.alive())

    @property
    def done(self) -> bool:
        """Whether what was wanted has happened to all."""
        return all(line.outcome.done for line in self.lines())

    @property
    def stubborn(self) -> tuple[Target, ...]:
        """Those that SIGKILL would still end, memory being held by them or not."""
        ignored = tuple(line.target for line in self.lines() if line.outcome.offer_kill)
        return ignored or self.survivors

    @property
    def offer(self) -> str:
        """The question whether to end those by SIGKILL."""
        if self.stubborn != self.survivors:
            return "send SIGKILL?"
        return "kill it, too?" if len(self.survivors) == 1 else "kill them, too?"

    def at(self, after: Snapshot) -> Report:
        """Return it with what a later snapshot shows of the memory."""
        seen = self.release
        return self if seen is None else self._replace(release=seen.at(after))

    @property
    def summary(self) -> str:
        """One line about all."""
        lines = list(self.lines())
        count, memory = len(self.roots), self.memory
        failed = [line.text for line in lines if not line.outcome.done]
        if count == 1:
            told = [lines[0].text, *(failed if lines[0].outcome.done else failed[1:])]
        else:
            told = [self._sum(sum(line.outcome.done for line in lines[:count])), *failed]
        if memory and count > 1:
            told[0] += f": {memory}"
        if ended := self.ended_below:
            told.insert(1, f"{ended} below {'it' if count == 1 else 'them'} ended too")
        return "; ".join(told)

    def lines(self) -> Iterator[Line]:
        """Yield what came of each root, then of each below that still runs."""
        for target in self.roots:
            yield self._line(target, self.memory if len(self.roots) == 1 else "")
        for target in self.below:
            if target.alive():
                yield self._line(target, "")

    def _line(self, target: Target, memory: str) -> Line:
        result = outcome(
            target.process,
            self.signal,
            target.state(),
            waited_seconds=self.waited_seconds,
            freed=memory,
            refused=self.refused.get(target.process.pid),
            is_reaping_due=time.monotonic() - self.waited_until >= patience.REAP_SECONDS,
        )
        return Line(target, result, result.text)

    @property
    def memory(self) -> str:
        """What became of the memory that all held together, empty where none was."""
        if self.release is None:
            return ""
        return "; ".join(part for part in (self.release.text, self._kept_by()) if part)

    def _kept_by(self) -> str:
        """Return who keeps the memory, as far as that is known."""
        if self.survivors:
            pids = [str(target.process.pid) for target in self.survivors]
            if len(pids) == 1:
                return f"its child {pids[0]} still runs and has a GPU open"
            return f"{_some(pids)} that it started still run and have GPUs open"
        if self.release is None or not self.release.holders:
            return ""
        holders = [str(holder) for holder in self.release.holders]
        who = f"{holders[0]} has" if len(holders) == 1 else f"{_some(holders)} have"
        return f"{who} a GPU open without being listed"

    @property
    def ended_below(self) -> int:
        """How many ended that were meant with the trees."""
        return sum(not target.alive() for target in self.below)

    def _sum(self, done: int) -> str:
        name, count = f"SIG{self.signal.name}", len(self.roots)
        if not self.signal.ends:
            return f"{name} sent to {done} of {count} processes"
        return f"{done} of {count} processes ended after {name}"


def _some(names: list[str]) -> str:
    few = len(names) <= _MOST_NAMED
    named = f" ({', '.join(names)})" if few else ""
    return f"{len(names)} processes{named}"
