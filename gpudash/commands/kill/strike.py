"""Signalling what was aimed at, waiting for its end, and saying what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpudash import stdout
from gpudash.actions import Signal, Target, freed, outcome, wait_all
from gpudash.commands.kill.aim import Hit
from gpudash.errors import ActionError, DriverError
from gpudash.snapshot import Snapshot
from gpudash.sources import Source

_PATIENCE_SECONDS = 5.0
_ROOT_FIRST_SECONDS = 2.0
"""How long a process may take to end its children itself, before they get the signal too."""

_RELEASE_SECONDS = 2.0
"""How long the driver may take to forget a process that has ended."""

_LOOK_SECONDS = 0.1


def strike(hits: Sequence[Hit], signal: Signal, before: Snapshot, source: Source) -> bool:
    """Signal all, wait up to 5 s, and print a line for each; returns whether all went well."""
    refused = _send(hits, signal)
    if signal.ends:
        refused |= _wait(hits, signal, refused)
    after = _after(hits, before, source)
    told = [_report(hit, signal, refused, before, after) for hit in hits]
    return all(told)


def _send(hits: Sequence[Hit], signal: Signal) -> dict[int, str]:
    """Send the signal, and return the reasons of those that did not get it by PID."""
    refused: dict[int, str] = {}
    for hit in hits:
        if hit.tree:
            refused |= {each.process.pid: each.reason for each in hit.tree.send(signal.number)}
            continue
        try:
            hit.target.send(signal.number)
        except ActionError as error:
            refused[hit.target.process.pid] = str(error)
    return refused


def _wait(hits: Sequence[Hit], signal: Signal, refused: dict[int, str]) -> dict[int, str]:
    """Wait for all that got it; members that their root leaves behind get it themselves."""
    hits = [hit for hit in hits if hit.target.process.pid not in refused]
    targets = [target for hit in hits for target in hit.targets]
    wait_all(targets, _ROOT_FIRST_SECONDS)
    orphaned = [hit.tree for hit in hits if hit.tree and not hit.target.alive()]
    refused_later = {
        refusal.process.pid: refusal.reason
        for tree in orphaned
        for refusal in tree.send_to_rest(signal.number)
    }
    wait_all(targets, _PATIENCE_SECONDS - _ROOT_FIRST_SECONDS)
    return refused_later


def _after(hits: Sequence[Hit], before: Snapshot, source: Source) -> Snapshot:
    """Return the host once the driver has forgotten what ended, or as it is after 2 s."""
    ended = {t.process.pid for hit in hits for t in hit.targets if not t.alive()}
    deadline = time.monotonic() + _RELEASE_SECONDS
    after = before
    while ended:
        try:
            after = source.sample()
        except DriverError:  # What became of the processes is worth saying all the same.
            return after
        listed = {process.pid for process in after.processes}
        if not listed & ended or time.monotonic() >= deadline:
            break
        stdout.wait(_LOOK_SECONDS)
    return after


def _report(
    hit: Hit, signal: Signal, refused: dict[int, str], before: Snapshot, after: Snapshot
) -> bool:
    """Print what came of a process, and of those below it that live on."""
    ended = [target.process for target in hit.targets if not target.alive()]
    released = freed(ended, before, after) if after is not before else ""
    told = [_line(hit.target, signal, refused, released)]
    told += [_line(target, signal, refused, "") for target in hit.targets[1:] if target.alive()]
    below = sum(not target.alive() for target in hit.targets[1:])
    lines = [text for text, _ in told]
    if below:
        lines[0] += f", with {below} below it"
    stdout.write("".join(f"{line}\n" for line in lines).encode(errors="backslashreplace"))
    return all(done for _, done in told)


def _line(
    target: Target, signal: Signal, refused: dict[int, str], released: str
) -> tuple[str, bool]:
    result = outcome(
        target.process,
        signal,
        target.state(),
        waited_seconds=_PATIENCE_SECONDS,
        freed=released,
        refused=refused.get(target.process.pid),
    )
    hint = ": --signal KILL ends it" if result.offer_kill else ""
    return f"{result.text}{hint}", result.done
