"""Whether the memory of processes that ended came back, told only by devices that answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

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
