"""The result of a signal: which processes ended, whether memory was freed, and its text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpudash.actions.kill.pin import ProcessState, Target, named
from gpudash.actions.kill.signals import Signal
from gpudash.analysis.labels import used_gpus
from gpudash.model.device import Device
from gpudash.model.process import Holder, Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import unreadable_state
from gpudash.model.units import grouped, size, sum_known

MemoryState = Literal["freed", "listed", "unowned", "unknown"]
"""Freed; still listed by the driver; in use without a listed process; or unknown."""

_KEPT_SHARE = 0.5
"""Unlisted memory that grew by this share of what ended processes held is still theirs."""

_MIN_BYTES = 64 << 20
"""Smaller changes occur on their own: contexts, the driver's own needs."""

_MAX_NAMED = 3


class Share(NamedTuple):
    """GPU memory that a process held on a device, and its present state."""

    process: Process
    device: ProcessDevice
    state: MemoryState = "unknown"
    reason: str = ""
    """Why its state is unknown."""


class Result(NamedTuple):
    """The result of the signal for one process."""

    target: Target
    state: ProcessState
    refusal: str | None = None
    """Why it did not get the signal."""
    is_member: bool = False
    """Whether it was signalled as part of a tree, rather than chosen itself."""

    @property
    def ended(self) -> bool:
        """Whether it has stopped running."""
        return self.state.name in ("gone", "zombie")


class KillReport(Struct, frozen=True, kw_only=True):
    """The result of a signal after waiting for its effect; later samples may add to it."""

    signal: Signal
    results: tuple[Result, ...]
    before: Snapshot
    """Shows what was held."""
    with_tree: bool = False
    """Whether processes below the chosen ones were signalled too."""
    waited_seconds: float = 0.0
    reap_due_at: float = 0.0
    """Monotonic time from which a zombie is reported: its parent may be about to reap it."""
    memory: tuple[Share, ...] = ()
    """What the ended processes held; empty if that was not checked."""
    holders: tuple[Holder, ...] = ()
    """Processes that have a device open whose memory stays in use, as far as known."""
    survivors: tuple[Target, ...] = ()
    """Spared members of a tree that have such a device open."""

    @property
    def done(self) -> bool:
        """Whether all ended, or got a signal that does not end a process."""
        return all(self.is_done(result) for result in self.results)

    @property
    def stubborn(self) -> tuple[Target, ...]:
        """Those that SIGKILL could still end: they ignored the signal, or keep memory in use."""
        ignored = (result.target for result in self.results if self._has_ignored(result))
        return tuple(ignored) or self.survivors

    @property
    def heads(self) -> tuple[Target, ...]:
        """The stubborn ones whose trees contain the others; all if no tree was signalled."""
        if not self.with_tree:
            return self.stubborn
        pids = {target.process.pid for target in self.stubborn}
        return tuple(each for each in self.stubborn if each.process.parent_pid not in pids)

    @property
    def is_memory_freed(self) -> bool:
        """Whether all memory that was held is seen to be free; True if there was none."""
        return all(share.state == "freed" for share in self.memory)

    @property
    def is_memory_kept(self) -> bool:
        """Whether memory is seen to be still in use."""
        return any(share.state in ("listed", "unowned") for share in self.memory)

    def refreshed(self, after: Snapshot | None = None) -> KillReport:
        """Return it with the processes' present states, and their memory in a later snapshot."""
        results = tuple(each._replace(state=each.target.state()) for each in self.results)
        report = replace(self, results=results)
        return report if after is None else report.with_memory(self.memory, after)

    def with_memory(self, held: Iterable[Share], after: Snapshot) -> KillReport:
        """Return it with a later snapshot's view of the memory that was held."""
        memory = judged(held, self.before, after)
        return replace(self, memory=memory, holders=_holders(memory, after))

    def is_done(self, result: Result) -> bool:
        """Whether the desired effect on one process has occurred."""
        return result.ended or (result.refusal is None and not self.signal.ends)

    def _has_ignored(self, result: Result) -> bool:
        is_able = result.state.name == "alive" and self.signal.name != "KILL"
        return is_able and result.refusal is None and not self.is_done(result)


def held_by(processes: Iterable[Process], snapshot: Snapshot) -> tuple[Share, ...]:
    """Return the holdings of processes in a snapshot, else as last shown."""
    shown = {process.key: process for process in snapshot.processes}
    return tuple(
        Share(process, device)
        for process in processes
        for device in shown.get(process.key, process).devices
    )


def judged(held: Iterable[Share], before: Snapshot, after: Snapshot) -> tuple[Share, ...]:
    """Return a later snapshot's view of the memory of processes that have ended since."""
    found = [_judged(share, before, after) for share in held]
    kept = _kept_devices((share for share in found if share.state == "freed"), before, after)
    return tuple(
        share._replace(state="unowned")
        if share.state == "freed" and share.device.uuid in kept
        else share
        for share in found
    )


def _judged(share: Share, before: Snapshot, after: Snapshot) -> Share:
    reason = "no newer sample has arrived" if after is before else _doubt(share, after)
    if reason is not None:
        return share._replace(state="unknown", reason=reason)
    listed = any(_holds(process, share) for process in after.processes)
    return share._replace(state="listed" if listed else "freed", reason="")


def _doubt(share: Share, after: Snapshot) -> str | None:
    """Return why a snapshot cannot show whether a share is free, None if it can."""
    device = _device(share.device, after)
    if device is None:
        return "the GPU is no longer shown"
    parent = next((d for d in after.devices if d.uuid == device.parent_uuid), device)
    for each in (device, parent):
        if unreadable := unreadable_state(each):
            return f"the GPU {unreadable.sentence}"
    blind = {None, device.uuid, parent.uuid}
    if any(fault.source == "processes" and fault.uuid in blind for fault in after.errors):
        return "its processes could not be listed"
    if any(_has_its_pid(process, share) for process in after.processes):
        return "its PID has been reused"
    return None


def _device(share: ProcessDevice, snapshot: Snapshot) -> Device | None:
    for device in snapshot.devices:
        same = device.index == share.index and not device.is_mig
        if device.uuid == share.uuid if share.uuid else same:
            return device
    return None


def _holds(process: Process, share: Share) -> bool:
    """Whether the PID of a share is on its device, whatever its process."""
    device = share.device.uuid, share.device.index if share.device.uuid is None else None
    return process.pid == share.process.pid and any(
        (each.uuid, each.index if each.uuid is None else None) == device for each in process.devices
    )


def _has_its_pid(process: Process, share: Share) -> bool:
    """Whether it is another process; one without a start time may be a remnant of the same."""
    is_identified = process.key[1] is not None
    return is_identified and process.key != share.process.key and _holds(process, share)


def _kept_devices(
    shares: Iterable[Share], before: Snapshot, after: Snapshot
) -> frozenset[str | None]:
    """Return the devices whose unlisted memory grew by about as much as these shares."""
    held: dict[str, int] = {}
    for share in shares:
        if share.device.uuid is not None:
            amount = share.device.used_gpu_memory_bytes or 0
            held[share.device.uuid] = held.get(share.device.uuid, 0) + amount
    return frozenset(
        uuid
        for uuid, amount in held.items()
        if amount >= _MIN_BYTES and _growth(uuid, before, after) >= amount * _KEPT_SHARE
    )


def _growth(uuid: str, before: Snapshot, after: Snapshot) -> int:
    """Return by how many bytes memory in use without a listed process has grown."""
    first, last = (
        next((d.memory_unaccounted_bytes for d in each.devices if d.uuid == uuid), None)
        for each in (before, after)
    )
    return 0 if first is None or last is None else last - first


def _holders(memory: Iterable[Share], after: Snapshot) -> tuple[Holder, ...]:
    kept = [share for share in memory if share.state in ("listed", "unowned")]
    devices = [_device(share.device, after) for share in kept]
    uuids = {uuid for device in devices if device for uuid in (device.uuid, device.parent_uuid)}
    held = [device for device in after.devices if device.uuid in uuids]
    return tuple({h.pid: h for device in held for h in after.holders_of(device)}.values())


VERBS = {
    "KILL": ("Kill", "killed"),
    "TERM": ("Terminate", "terminated"),
    "INT": ("Interrupt", "interrupted"),
    "STOP": ("Pause", "paused"),
    "CONT": ("Resume", "resumed"),
}
"""Signals with verbs of their own, in present and past tense."""

_AMOUNTS: dict[MemoryState, str] = {
    "freed": "{} freed on GPU {}",
    "listed": "the driver still counts {} on GPU {}",
    "unowned": "{} still in use on GPU {}, where the driver lists no owner",
}


def children(count: int) -> str:
    """Return `1 child`, `2 children`, for processes below at any depth."""
    return "1 child" if count == 1 else f"{count} children"


def describe(report: KillReport) -> tuple[str, ...]:
    """Return the result of a signal in sentences; the first is about all chosen processes."""
    chosen = [result for result in report.results if not result.is_member]
    members = [result for result in report.results if result.is_member]
    memory = describe_memory(report)
    also: list[str] = []
    if len(chosen) == 1:
        (only,) = chosen
        first = _sentence(report, only)
        if not only.ended or only.refusal is not None:
            memory = ()
        elif only.state.unreaped and time.monotonic() >= report.reap_due_at:
            also = [only.state.unreaped]
    else:
        first = _count(report, chosen)
    if memory:
        first = f"{first}: {memory[0]}"
    if ended := sum(result.ended for result in members):
        also.append(f"{children(ended)} ended too")
    others = members if len(chosen) == 1 else [*chosen, *members]
    failed = [_sentence(report, result) for result in others if not report.is_done(result)]
    if len(failed) > _MAX_NAMED:
        failed[_MAX_NAMED:] = [f"{len(failed) - _MAX_NAMED} more still run"]
    return (first, *memory[1:], *also, *failed)


def offer(report: KillReport) -> str:
    """Return why to ask about those that are left: `PID 4242 ignored SIGTERM for 10 s.`"""
    pids = [target.process.pid for target in report.heads]
    alone = len(pids) == 1
    who = f"PID {pids[0]}" if alone else f"{len(pids)} processes"
    if report.stubborn == report.survivors:
        return f"{who} still {'runs and has a GPU' if alone else 'run and have GPUs'} open."
    return f"{who} ignored SIG{report.signal.name} for {report.waited_seconds:.0f} s."


def _count(report: KillReport, chosen: Sequence[Result]) -> str:
    name, done = f"SIG{report.signal.name}", sum(map(report.is_done, chosen))
    if not report.signal.ends:
        return f"{name} sent to {done} of {len(chosen)} processes"
    return f"{done} of {len(chosen)} processes ended after {name}"


def _sentence(report: KillReport, result: Result) -> str:
    process, signal, state = named(result.target.process), report.signal, result.state
    waited = f"{report.waited_seconds:.0f} s"
    if result.ended and result.refusal is not None:
        return f"{process} already exited"
    if result.ended:
        if signal.ends and signal.name in VERBS:
            return f"{VERBS[signal.name][1]} {process}"
        return f"{process} ended after SIG{signal.name}"
    if result.refusal is not None:
        return result.refusal
    if not signal.ends:
        return f"SIG{signal.name} sent to {process}"
    if state.name == "uninterruptible":
        call = f" in {state.waits_in}" if state.waits_in else ""
        later = "it gets the signal when its system call returns"
        return f"{process} is still in D state{call} after {waited}; {later}"
    if signal.name == "KILL":
        return f"{process} has not ended after {waited}; the kernel is still taking it down"
    return f"{process} ignored SIG{signal.name} for {waited}"


def describe_memory(report: KillReport) -> tuple[str, ...]:
    """Return what happened to the memory, in sentences; empty if none was held."""
    return (*_amounts(report), *_keepers(report))


def _amounts(report: KillReport) -> Iterator[str]:
    by_state = grouped((share.state, share) for share in report.memory)
    for state, sentence in _AMOUNTS.items():
        shares = by_state.get(state, ())
        held = sum_known(share.device.used_gpu_memory_bytes for share in shares)
        if held is not None:
            yield sentence.format(size(held), _gpus(report, shares))
    unknown = grouped((share.reason, share) for share in by_state.get("unknown", ()))
    for reason, shares in unknown.items():
        yield f"cannot tell whether memory was freed on GPU {_gpus(report, shares)}: {reason}"


def _gpus(report: KillReport, shares: Iterable[Share]) -> str:
    return used_gpus((share.device for share in shares), report.before.devices)


def _keepers(report: KillReport) -> Iterator[str]:
    """Yield which processes keep the memory, as far as known."""
    if report.survivors:
        pids = [str(target.process.pid) for target in report.survivors]
        if len(pids) == 1:
            yield f"its child {pids[0]} still runs and has a GPU open"
        else:
            yield f"{_listed(pids)} that it started still run and have GPUs open"
    elif report.holders:
        holders = [str(holder) for holder in report.holders]
        subject = f"{holders[0]} has" if len(holders) == 1 else f"{_listed(holders)} have"
        yield f"{subject} a GPU open, not listed by the driver"


def _listed(names: Sequence[str]) -> str:
    shown = f" ({', '.join(names)})" if len(names) <= _MAX_NAMED else ""
    return f"{len(names)} processes{shown}"
