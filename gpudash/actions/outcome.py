"""What came of a signal, in words: pure functions over what was seen before and after."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpudash.actions.signals import Signal
from gpudash.actions.target import Standing
from gpudash.labels import device_labels, gpu_ranges
from gpudash.snapshot import Process, ProcessDevice, Snapshot
from gpudash.units import size

_VERBS = {"KILL": "killed", "TERM": "terminated", "INT": "interrupted"}


class Outcome(NamedTuple):
    """One line for people, and whether what they wanted has happened."""

    text: str
    done: bool
    offer_kill: bool = False
    """Whether SIGKILL would help."""

    @property
    def question(self) -> str:
        """The text, with SIGKILL offered where that would help."""
        return f"{self.text}: send SIGKILL?" if self.offer_kill else self.text


def outcome(
    process: Process,
    signal: Signal,
    standing: Standing,
    *,
    waited_seconds: float,
    freed: str = "",
    refused: str | None = None,
) -> Outcome:
    """Return what came of a signal after so long; `refused` is why it was not delivered."""
    who = named(process)
    if standing.state in ("gone", "zombie"):
        if refused is not None:
            return Outcome(f"{who} already exited", True)
        verb = _VERBS.get(signal.name)
        text = f"{verb} {who}" if verb else f"{who} ended after SIG{signal.name}"
        return Outcome(f"{text}{freed and f': {freed}'}{_unreaped(standing)}", True)
    if refused is not None:
        return Outcome(refused, False)
    if not signal.ends:
        return Outcome(f"SIG{signal.name} sent to {who}", True)
    waited = f"{waited_seconds:.0f} s"
    if standing.state == "uninterruptible":
        later = "the kernel delivers the signal when its system call returns"
        return Outcome(f"{who} still in D state after {waited}: {later}", False)
    if signal.name == "KILL":
        later = "the kernel is still taking it down"
        return Outcome(f"{who} has not ended after {waited}: {later}", False)
    return Outcome(f"{who} ignored SIG{signal.name} for {waited}", False, True)


def named(process: Process) -> str:
    """Return PID and owner: `4242 (alice)`."""
    return f"{process.pid} ({process.username})" if process.username else str(process.pid)


def freed(ended: Iterable[Process], before: Snapshot, after: Snapshot) -> str:
    """Return what processes that ended gave back: `74.2 GiB freed on GPU 0-7`.

    Says too what the driver still counts as theirs; empty if they held nothing that is known.
    """
    pids = {process.pid for process in ended}
    held, holding = _shares(pids, before), _shares(pids, after)
    released = {key: share for key, share in held.items() if key not in holding}
    total, rest = _total(released.values()), still_held(pids, after)
    gone = total is not None and f"{size(total)} freed on GPU {_gpus(released.values(), before)}"
    stays = rest and f"the driver still counts {rest}"
    return "; ".join(part for part in (gone, stays) if part)


def still_held(pids: Iterable[int], snapshot: Snapshot) -> str:
    """Return the memory that a snapshot shows for PIDs: `39.0 GiB on GPU 0`, empty for none."""
    shares = _shares(set(pids), snapshot)
    total = _total(shares.values())
    return "" if total is None else f"{size(total)} on GPU {_gpus(shares.values(), snapshot)}"


def _unreaped(standing: Standing) -> str:
    if standing.state != "zombie":
        return ""
    name = f" ({standing.parent_name})" if standing.parent_name else ""
    return f"; zombie: parent {standing.parent_pid}{name} must reap it"


def _shares(pids: set[int], snapshot: Snapshot) -> dict[tuple[int, str | None], ProcessDevice]:
    return {
        (process.pid, device.uuid): device
        for process in snapshot.processes
        if process.pid in pids
        for device in process.devices
    }


def _total(shares: Iterable[ProcessDevice]) -> int | None:
    known = [s.used_gpu_memory_bytes for s in shares if s.used_gpu_memory_bytes is not None]
    return sum(known) if known else None


def _gpus(shares: Iterable[ProcessDevice], snapshot: Snapshot) -> str:
    labels = device_labels(snapshot.devices)
    instances = {d.key: labels[d.key] for d in snapshot.devices if d.is_mig}
    unique = {share.uuid or str(share.index): share for share in shares}
    return gpu_ranges(unique.values(), instances)
