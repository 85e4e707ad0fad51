"""Taking leases: all GPUs of a request or none, held until the command has ended."""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gpudash.actions.lease.choose import choose
from gpudash.actions.lease.request import NONE, GpuRequest, filter_candidates
from gpudash.analysis.columns.leases import lease_holder
from gpudash.collect.leases import LeaseTable, lease_fault, lock_key, lock_path, no_leases
from gpudash.feed.sampler import Sampler
from gpudash.model.device import Device
from gpudash.model.errors import GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.system import locks, processes
from gpudash.system.fork import detach
from gpudash.system.process_tree import ancestor_pids

_ROUNDS = 5
_RETRY_SECONDS = 0.05
_TAKEN = "just taken by another process"
NO_LEASES = (
    "GPUs cannot be leased: {}; each needs its directory in /sys/bus/pci/devices, or a file named "
    "by its UUID in GPUDASH_LOCK_DIR, owned by root"
)


class Leased(NamedTuple):
    """GPUs leased while the descriptors, or copies of them, are open."""

    devices: tuple[Device, ...]
    descriptors: tuple[int, ...]

    def release(self) -> None:
        """End the lease."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def lease(sampler: Sampler, request: GpuRequest, taken: Mapping[str, str] = NONE) -> Leased | str:
    """Lease GPUs that meet the request, and return them, or the shortage in one line.

    `taken` has the reason for each UUID that is left to others. GPUs of a lease that this process
    runs in need no other lease. Two commands that want several may briefly block each other, so it
    is tried a few times. Raises GpudashError if GPUs cannot be leased.
    """
    own = own_leases(sampler.samples[-1])
    for attempt in range(_ROUNDS):
        if attempt:
            time.sleep(random.uniform(1, 1 + attempt) * _RETRY_SECONDS)
            sampler.next_sample()
        unavailable = {**taken, **_without_lock_file(sampler.samples[-1].devices)}
        excluded = dict(unavailable)
        found = _lease_once(sampler, request, own, excluded)
        if isinstance(found, Leased) or excluded == unavailable or request.count == 1:
            break
    return found


def require_lock_files(devices: Sequence[Device]) -> None:
    """Raise GpudashError if no GPU can be leased."""
    why = no_leases(devices)
    if why is not None:
        raise GpudashError(NO_LEASES.format(why))


def blocked(now: Snapshot, table: LeaseTable) -> dict[str, str]:
    """Return by UUID why devices cannot be leased, for the shared locks that a table lists."""
    return {
        each.uuid: f"has a shared lock of {lease_holder(each, now)}, which is no lease"
        for each in table.blocked(now.devices)
    }


def own_leases(now: Snapshot) -> frozenset[str]:
    """Return the UUIDs of GPUs leased for this process by `gpudash run`.

    The proof is an open file of the lease here, or an ancestor that took it; a variable of the
    environment is not. Must be called before this process has taken any itself.
    """
    above = ancestor_pids(os.getpid())
    lineage = {(pid, stat.start_ticks) for pid in above if (stat := processes.read_stat(pid))}
    inherited = locks.carried()
    found = {each.uuid for each in now.leases if (each.pid, each.start_ticks) in lineage}
    found |= {each.uuid or "" for each in now.devices if lock_key(each) in inherited}
    return frozenset(found)


def hold_until_exit(leased: Leased) -> None:
    """Start a process that also holds the leases until this one has ended.

    Some commands close every descriptor that they inherit, and the lease with it. Only SIGKILL ends
    that process, and it is not a child of the command, which did not start it.
    """
    if not leased.descriptors:
        return
    try:
        job = os.pidfd_open(os.getpid())
    except OSError:  # a kernel before 5.3
        return
    poll = select.poll()
    poll.register(job, select.POLLIN)
    detach(poll.poll, keep=(job, *leased.descriptors))
    os.close(job)


def _without_lock_file(devices: Sequence[Device]) -> dict[str, str]:
    """Return a reason for each device that cannot be leased; raises GpudashError if none can."""
    require_lock_files(devices)
    found: dict[str, str] = {}
    for device in devices:
        why = lease_fault(device)
        if device.uuid and why is not None:
            # Knowing that there is none needs no path for each of many instances.
            is_there = os.path.lexists(lock_path(device) or "")
            found[device.uuid] = f"cannot be leased: {why}" if is_there else "cannot be leased"
    return found


def _lease_once(
    sampler: Sampler, request: GpuRequest, own: Collection[str], excluded: dict[str, str]
) -> Leased | str:
    """Choose and lease; add GPUs that another process took first to `excluded`."""
    while True:
        choice = choose(tuple(sampler.samples), request, os.environ, own=own, excluded=excluded)
        if not choice.devices:
            return choice.shortage
        taken = _take_all(choice.devices, own, excluded)
        if taken is None:
            continue
        gone = _gone(sampler, request, taken)
        if not gone:
            return taken
        taken.release()
        excluded.update(dict.fromkeys(gone, _TAKEN))


def _take_all(
    devices: Sequence[Device], own: Collection[str], excluded: dict[str, str]
) -> Leased | None:
    """Take all locks in the order of the indices, or none: no process holds some and waits."""
    taken: list[int] = []
    for device in devices:
        if device.uuid in own:
            continue
        descriptor = _take(device)
        if descriptor is None:
            excluded[device.uuid or ""] = _TAKEN
            Leased(tuple(devices), tuple(taken)).release()
            return None
        taken.append(descriptor)
    return Leased(tuple(devices), tuple(taken))


def _take(device: Device) -> int | None:
    path = lock_path(device) or ""
    try:
        return locks.acquire(path)
    except OSError as error:
        raise GpudashError(NO_LEASES.format(locks.reason(path, error))) from None


def _gone(sampler: Sampler, request: GpuRequest, taken: Leased) -> set[str]:
    """Return the UUIDs that no longer fit: programs without a lease may have started there."""
    try:
        sampler.next_sample()
    except GpudashError:
        taken.release()
        raise
    own = {device.uuid or "" for device in taken.devices}
    candidates, _ = filter_candidates(tuple(sampler.samples), request, os.environ, own)
    return own - {each.device.uuid or "" for each in candidates}
