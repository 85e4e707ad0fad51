"""Taking leases: all GPUs of a request or none, held until the command has ended."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from gpudash.actions.lease.choose import choose
from gpudash.actions.lease.request import GpuRequest, filter_candidates
from gpudash.feed.sampler import Sampler
from gpudash.model.device import Device
from gpudash.model.errors import GpudashError
from gpudash.system import locks

_ROUNDS = 5
_RETRY_SECONDS = 0.05
_TAKEN = "just taken by another process"
_MAX_DESCRIPTORS = 256
NO_LEASES = (
    "GPUs cannot be leased: {}; each needs its directory in /sys/bus/pci/devices, or a file named "
    "by its UUID in GPUDASH_LOCK_DIR, owned by root"
)


class Leased(NamedTuple):
    """GPUs that are leased while the descriptors, or copies of them, are open."""

    devices: tuple[Device, ...]
    descriptors: tuple[int, ...]

    def release(self) -> None:
        """End the lease."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def lease(sampler: Sampler, request: GpuRequest) -> Leased | str:
    """Lease GPUs that fit, and return them, or the shortage in one line.

    Two that want several may block each other for a moment, so it is tried a few times. Raises
    GpudashError where GPUs cannot be leased.
    """
    for attempt in range(_ROUNDS):
        without_lock_file = _without_lock_file(sampler.samples[-1].devices)
        excluded = dict(without_lock_file)
        found = _lease_once(sampler, request, excluded)
        if isinstance(found, Leased) or excluded == without_lock_file or request.count == 1:
            return found
        time.sleep(random.uniform(1, 2 + attempt) * _RETRY_SECONDS)
        sampler.next_sample()
    return found


def require_lock_files(devices: Sequence[Device]) -> None:
    """Raise GpudashError if no GPU can be leased."""
    if not any(map(_has_lock_file, devices)):
        known = next(filter(None, map(_lock_path, devices)), None)
        reason = f"{known} does not exist" if known else "no GPU has a PCI address"
        raise GpudashError(NO_LEASES.format(reason))


def hold_until_exit(leased: Leased) -> None:
    """Start a process that also holds the leases until this one has ended.

    Some commands close every descriptor that they inherit, and the lease with it.
    """
    try:
        job = os.pidfd_open(os.getpid())
    except OSError:  # a kernel before 5.3
        return
    child = os.fork()
    if child:
        os.close(job)
        os.waitpid(child, 0)
        return
    try:
        # Twice, so that the command is not the parent of a process that it did not start.
        if os.fork() == 0:
            _hold(job, leased)
    finally:
        os._exit(0)


def _hold(job: int, leased: Leased) -> NoReturn:
    """Hold nothing but the leases until the process of a pidfd has ended."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    kept = {0, 1, 2, job, *leased.descriptors}
    for descriptor in range(3, _MAX_DESCRIPTORS):
        if descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    poll = select.poll()
    poll.register(job, select.POLLIN)
    poll.poll()
    os._exit(0)


def _without_lock_file(devices: Sequence[Device]) -> dict[str, str]:
    """Return a reason for each device that cannot be leased; raises GpudashError if none can."""
    require_lock_files(devices)
    return {
        device.uuid: "cannot be leased"
        for device in devices
        if device.uuid and not _has_lock_file(device)
    }


def _has_lock_file(device: Device) -> bool:
    path = _lock_path(device)
    return path is not None and os.path.exists(path)


def _lock_path(device: Device) -> str | None:
    """Return the file that a lease locks; a MIG instance has one only in GPUDASH_LOCK_DIR."""
    return locks.lease_path(device.uuid, None if device.is_mig else device.pci_bus_id)


def _lease_once(sampler: Sampler, request: GpuRequest, excluded: dict[str, str]) -> Leased | str:
    """Choose and lease; add to `excluded` what another process took first."""
    while True:
        choice = choose(tuple(sampler.samples), request, os.environ, excluded=excluded)
        if not choice.devices:
            return choice.shortage
        taken = _take_all(choice.devices, excluded)
        if taken is None:
            continue
        gone = _gone(sampler, request, taken)
        if not gone:
            return taken
        taken.release()
        excluded.update(dict.fromkeys(gone, _TAKEN))


def _take_all(devices: Sequence[Device], excluded: dict[str, str]) -> Leased | None:
    """Take every lock in the order of the indices, or none: no process holds some and waits."""
    taken: list[int] = []
    for device in devices:
        descriptor = _take(device)
        if descriptor is None:
            excluded[device.uuid or ""] = _TAKEN
            Leased(tuple(devices), tuple(taken)).release()
            return None
        taken.append(descriptor)
    return Leased(tuple(devices), tuple(taken))


def _take(device: Device) -> int | None:
    path = _lock_path(device) or ""
    try:
        return locks.acquire(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}" if error.strerror else str(error)
        raise GpudashError(NO_LEASES.format(reason)) from None


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
