"""What came of a signal, once all was waited for: one line for all, or one for each process."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gpudash.actions.kill import signals
from gpudash.actions.kill.pin import Standing, Target, named
from gpudash.actions.kill.signals import Signal
from gpudash.analysis.labels import used_gpus
from gpudash.model.device import Device
from gpudash.model.process import Holder, Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import state_words
from gpudash.model.units import size

_STAYS_SHARE = 0.5
"""Part of what was held that, used by nobody who is listed, is taken to be still held."""

_LEAST_BYTES = 64 << 20
"""Less than this comes and goes on its own: contexts, the driver's own needs."""


class Share(NamedTuple):
    """What one process held on one device, as it is told apart."""

    process: Process
    device: ProcessDevice


class Release(NamedTuple):
    """What came of the memory that processes held, each share in one place."""

    before: Snapshot
    freed: tuple[Share, ...] = ()
    listed: tuple[Share, ...] = ()
    """The driver still lists their process."""
    unlisted: tuple[Share, ...] = ()
    """Nobody is listed for them and the device has as much in use as before."""
    unknown: tuple[tuple[str, Share], ...] = ()
    """Of which nothing can be said, and why."""
    holders: tuple[Holder, ...] = ()
    """Who has devices open whose memory stays in use, as far as that was looked for."""

    @property
    def settled(self) -> bool:
        """Whether everything is seen to be free."""
        return not (self.listed or self.unlisted or self.unknown)

    @property
    def kept(self) -> bool:
        """Whether memory is seen to be in use still."""
        return bool(self.listed or self.unlisted)

    def at(self, after: Snapshot) -> Release:
        """Return what a later snapshot shows of the same."""
        doubted = tuple(share for _, share in self.unknown)
        held = (*self.freed, *self.listed, *self.unlisted, *doubted)
        return release(held, self.before, after)

    @property
    def text(self) -> str:
        """What is known, in words; empty if nothing was held."""
        return "; ".join(part for part in self._parts() if part)

    def _parts(self) -> Iterable[str]:
        if amount := self._amount(self.freed):
            yield f"{amount[0]} freed on GPU {amount[1]}"
        if amount := self._amount(self.listed):
            yield f"the driver still counts {amount[0]} on GPU {amount[1]}"
        if amount := self._amount(self.unlisted):
            yield f"{amount[0]} on GPU {amount[1]} stays in use, and the driver lists nobody for it"
        for reason in dict.fromkeys(reason for reason, _ in self.unknown):
            shares = [share for why, share in self.unknown if why == reason]
            where = f"GPU {_labels(shares, self.before)}"
            yield f"whether memory came free on {where} is not known: {reason}"

    def _amount(self, shares: Collection[Share]) -> tuple[str, str] | None:
        """Return how much and where; None for no share, and none that the driver told."""
        known = [share.device.used_gpu_memory_bytes for share in shares]
        told = [amount for amount in known if amount is not None]
        return (size(sum(told)), _labels(shares, self.before)) if told else None


def shares(processes: Iterable[Process], snapshot: Snapshot) -> tuple[Share, ...]:
    """Return what processes hold as a snapshot shows it, else as they were shown before."""
    shown = {process.key: process for process in snapshot.processes}
    return tuple(
        Share(process, device)
        for process in processes
        for device in shown.get(process.key, process).devices
    )


def release(held: Iterable[Share], before: Snapshot, after: Snapshot) -> Release:
    """Return what a later snapshot shows of what processes held that have ended since."""
    if after is before:
        return Release(before, unknown=tuple(("no sample came since", share) for share in held))
    freed, listed = [], []
    unknown: list[tuple[str, Share]] = []
    for share in held:
        reason = _doubt(share, after)
        if reason is not None:
            unknown.append((reason, share))
        elif _is_listed(share, after):
            listed.append(share)
        else:
            freed.append(share)
    kept = _kept_devices(freed, before, after)
    unlisted = tuple(share for share in freed if share.device.uuid in kept)
    freed = [share for share in freed if share.device.uuid not in kept]
    holders = _holders((*listed, *unlisted), after)
    return Release(before, tuple(freed), tuple(listed), unlisted, tuple(unknown), holders)


def _holders(kept: Iterable[Share], after: Snapshot) -> tuple[Holder, ...]:
    devices = [_device(share.device, after) for share in kept]
    uuids = {uuid for device in devices if device for uuid in (device.uuid, device.parent_uuid)}
    found = [h for device in after.devices if device.uuid in uuids for h in device.holders or ()]
    return tuple({(holder.pid, holder.start_ticks): holder for holder in found}.values())


def _doubt(share: Share, after: Snapshot) -> str | None:
    """Return why a snapshot cannot say whether a share is free, None if it can."""
    device = _device(share.device, after)
    if device is None:
        return "it is not shown any more"
    parent = next((d for d in after.devices if d.uuid == device.parent_uuid), device)
    for each in (device, parent):
        if each.state != "ok":
            return f"it {state_words(each).told}"
    blind = {None, device.uuid, parent.uuid}
    if any(fault.source == "processes" and fault.uuid in blind for fault in after.errors):
        return "its processes could not be listed"
    if any(_is_another(process, share) for process in after.processes):
        return "another process has its PID by now"
    return None


def _device(share: ProcessDevice, snapshot: Snapshot) -> Device | None:
    for device in snapshot.devices:
        same = device.index == share.index and not device.is_mig
        if device.uuid == share.uuid if share.uuid else same:
            return device
    return None


def _on_the_same(process: Process, share: Share) -> bool:
    place = share.device.uuid, share.device.index if share.device.uuid is None else None
    return process.pid == share.process.pid and any(
        (each.uuid, each.index if each.uuid is None else None) == place for each in process.devices
    )


def _has_identity(process: Process) -> bool:
    return process.key[1] is not None


def _is_listed(share: Share, after: Snapshot) -> bool:
    """Whether its PID is still on its device, under its own start time or none any more."""
    return any(_on_the_same(process, share) for process in after.processes)


def _is_another(process: Process, share: Share) -> bool:
    if not _has_identity(process) or process.key == share.process.key:
        return False
    return _on_the_same(process, share)


def _kept_devices(
    shares: Iterable[Share], before: Snapshot, after: Snapshot
) -> frozenset[str | None]:
    """Return the devices that have as much more in use by nobody as these shares were."""
    held: dict[str, int] = {}
    for share in shares:
        if share.device.uuid is not None:
            amount = share.device.used_gpu_memory_bytes or 0
            held[share.device.uuid] = held.get(share.device.uuid, 0) + amount
    return frozenset(
        uuid
        for uuid, amount in held.items()
        if amount >= _LEAST_BYTES and _rise(uuid, before, after) >= amount * _STAYS_SHARE
    )


def _rise(uuid: str, before: Snapshot, after: Snapshot) -> int:
    """Return by how much the memory grew that a device has in use and nobody is listed for."""
    amounts = [
        next((d.memory_unaccounted_bytes for d in each.devices if d.uuid == uuid), None)
        for each in (before, after)
    ]
    if amounts[0] is None or amounts[1] is None:
        return 0
    return amounts[1] - amounts[0]


def _labels(shares: Iterable[Share], snapshot: Snapshot) -> str:
    return used_gpus((share.device for share in shares), snapshot.devices)


_VERBS = {"KILL": "killed", "TERM": "terminated", "INT": "interrupted"}


class Outcome(NamedTuple):
    """One line for people, and whether what they wanted has happened."""

    text: str
    done: bool
    offer_kill: bool = False
    """Whether SIGKILL would help."""


def outcome(
    process: Process,
    signal: Signal,
    standing: Standing,
    *,
    waited_seconds: float,
    freed: str = "",
    refused: str | None = None,
    is_reaping_due: bool = True,
) -> Outcome:
    """Return what came of a signal after so long; `refused` is why it was not delivered.

    Unless `is_reaping_due` a zombie has ended and that is all: its parent may be about to reap it.
    """
    who = named(process)
    if standing.state in ("gone", "zombie"):
        if refused is not None:
            return Outcome(f"{who} already exited", True)
        verb = _VERBS.get(signal.name)
        text = f"{verb} {who}" if verb else f"{who} ended after SIG{signal.name}"
        unreaped = standing.unreaped if is_reaping_due else ""
        parts = (f"{text}{freed and f': {freed}'}", unreaped)
        return Outcome("; ".join(part for part in parts if part), True)
    if refused is not None:
        return Outcome(refused, False)
    if not signal.ends:
        return Outcome(f"SIG{signal.name} sent to {who}", True)
    waited = f"{waited_seconds:.0f} s"
    if standing.state == "uninterruptible":
        later = "the kernel delivers the signal when its system call returns"
        where = f" in {standing.waits_in}" if standing.waits_in else ""
        return Outcome(f"{who} still in D state{where} after {waited}: {later}", False)
    if signal.name == "KILL":
        later = "the kernel is still taking it down"
        return Outcome(f"{who} has not ended after {waited}: {later}", False)
    return Outcome(f"{who} ignored SIG{signal.name} for {waited}", False, True)


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
            is_reaping_due=time.monotonic() - self.waited_until >= signals.REAP_SECONDS,
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
