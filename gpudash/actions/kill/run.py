"""A signal from its sending to what came of it, for the shell and the screen alike.

`strike` is a generator: each time it yields, whoever drives it lets a moment pass in its own way,
so that nothing here holds an event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import NamedTuple

from gpudash.actions.kill import signals
from gpudash.actions.kill.pin import Target, named
from gpudash.actions.kill.report import Release, Report, Share, release, shares
from gpudash.actions.kill.signals import Signal
from gpudash.actions.kill.tree import Refusal, Tree, members, send_all
from gpudash.model.snapshot import Snapshot
from gpudash.system import processes

Latest = Callable[[], Snapshot]
Say = Callable[[str], None]
Steps = Generator[None, None, Report]

_MOST_LOOKED_AT = 512


class Hit(NamedTuple):
    """A process that is to get a signal."""

    target: Target
    tree: Tree | None
    """What is below it, None where that is not known yet."""
    whole: bool
    """Whether what is below it is meant too."""


class Sending(NamedTuple):
    """A signal that was sent to a process, or why it was not."""

    target: Target
    signal: Signal
    refusal: str | None


Record = Callable[[Sequence[Sending]], None]


def strike(
    hits: Sequence[Hit],
    signal: Signal,
    before: Snapshot,
    *,
    latest: Latest,
    say: Say = lambda _: None,
    record: Record = lambda _: None,
) -> Steps:
    """Send a signal, wait for what it leads to, and return what that is.

    `before` shows what is held, `latest` gives the newest snapshot, `say` tells how it goes on and
    `record` takes note of what was sent.
    """
    seconds = signals.KILL_SECONDS if signal.name == "KILL" else signals.END_SECONDS
    refused = _send(hits, signal, record)
    waiting = [hit for hit in hits if hit.target.process.pid not in refused]
    if waiting and signal.ends:
        whose = "its end" if len(waiting) == 1 else "their end"
        limit = f"up to {seconds:.0f} s for {whose}"
        say(f"SIG{signal.name} sent to {_whom(waiting)}, waiting {limit}")
        refused |= yield from _wait(waiting, signal, seconds, record)
    report = Report(
        roots=tuple(hit.target for hit in hits),
        below=_below(hits),
        signal=signal,
        waited_seconds=seconds,
        refused=refused,
        waited_until=time.monotonic(),
    )
    held = shares((target.process for target in report.ended), before)
    if not held:
        return report
    say(f"{report.summary}; waiting for the driver to release the memory")
    seen = yield from _release(held, before, latest)
    return report._replace(release=seen, survivors=_survivors(hits) if seen.kept else ())


def _send(hits: Sequence[Hit], signal: Signal, record: Record) -> dict[int, str]:
    """Send the signal, and return by PID why some did not get it.

    A tree is stopped, killed and not left in between: that is done in one go.
    """
    reached = signal.name == "KILL"
    gone = {target.process.key for target in _below(hits) if reached and not target.alive()}
    refusals: list[Refusal] = []
    for hit in hits:
        if hit.tree is not None and hit.whole:
            refusals += hit.tree.send(signal.number)
        else:
            refusals += send_all((hit.target,), signal.number)
    below = [each for each in _below(hits) if reached and each.process.key not in gone]
    return _noted((*(hit.target for hit in hits), *below), signal, refusals, record)


def _noted(
    targets: Iterable[Target], signal: Signal, refusals: Iterable[Refusal], record: Record
) -> dict[int, str]:
    """Take note of what was sent, and return the reasons why some did not get it."""
    refused = {refusal.process.pid: refusal.reason for refusal in refusals}
    record([Sending(each, signal, refused.get(each.process.pid)) for each in targets])
    return refused


def _wait(
    waiting: Sequence[Hit], signal: Signal, seconds: float, record: Record
) -> Generator[None, None, dict[int, str]]:
    """Wait for all; members that their root leaves behind get the signal themselves."""
    deadline = time.monotonic() + seconds
    if not _below(waiting):
        yield from _ended((hit.target for hit in waiting), deadline)
        return {}
    first = time.monotonic() + min(signals.ROOT_FIRST_SECONDS, seconds / 2)
    yield from _ended(_all(waiting), first)
    refused: dict[int, str] = {}
    for hit in waiting:
        if hit.tree is not None and hit.whole and not hit.target.alive():
            gone = {each.process.key for each in hit.tree.targets if not each.alive()}
            refusals = hit.tree.send_to_rest(signal.number)
            rest = [each for each in hit.tree.targets if each.process.key not in gone]
            refused |= _noted(rest, signal, refusals, record)
    yield from _ended(_all(waiting), deadline)
    return refused


def _ended(targets: Iterable[Target], deadline: float) -> Generator[None, None, None]:
    """Return when none of them runs any more, or at the deadline."""
    left = [target for target in targets if target.alive()]
    while left and time.monotonic() < deadline:
        yield
        left = [target for target in left if target.alive()]


def _release(
    held: Collection[Share], before: Snapshot, latest: Latest
) -> Generator[None, None, Release]:
    """Return what became of memory once all of it is seen to be free, or after a while."""
    start, seen, after = time.monotonic(), 0, before
    found = release(held, before, after)
    while True:
        fresh = latest()
        if fresh is not after:
            seen, after = seen + 1, fresh
            found = release(held, before, after)
        waited = time.monotonic() - start
        patient = waited <= signals.RELEASE_SECONDS or seen < signals.RELEASE_SNAPSHOTS
        if found.settled or waited > signals.RELEASE_MAX_SECONDS or not patient:
            return found
        yield


def _survivors(hits: Sequence[Hit]) -> tuple[Target, ...]:
    """Return what was spared below roots that ended and has a device open itself."""
    trees = [hit.tree for hit in hits if hit.tree and not hit.whole and not hit.target.alive()]
    spared = [member.target for member in members(trees)][:_MOST_LOOKED_AT]
    roots = {hit.target.process.key for hit in hits}
    return tuple(
        target
        for target in spared
        if target.process.key not in roots
        and target.alive()
        and processes.holds_a_device(target.process.pid)
    )


def _below(hits: Sequence[Hit]) -> tuple[Target, ...]:
    """Return what is meant below the roots and is none itself, each once."""
    trees = [hit.tree for hit in hits if hit.tree is not None and hit.whole]
    roots = {hit.target.process.key for hit in hits}
    return tuple(m.target for m in members(trees) if m.process.key not in roots)


def _all(hits: Sequence[Hit]) -> tuple[Target, ...]:
    return (*(hit.target for hit in hits), *_below(hits))


def _whom(hits: Sequence[Hit]) -> str:
    return named(hits[0].target.process) if len(hits) == 1 else f"{len(hits)} processes"
