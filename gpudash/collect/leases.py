"""The leases of this machine's GPUs, from the kernel's list of locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from threading import Thread

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.process import Lease, Process
from gpudash.model.secrets import mask_text
from gpudash.model.state import lists_processes
from gpudash.model.text import SafeText, clean
from gpudash.system import locks
from gpudash.system import processes as system_processes
from gpudash.system.processes import Facts

_MAX_ANCESTORS = 64
_READ_SECONDS = 1.5
_STARTED_FOR_OTHERS = frozenset({"container", "pod", "slurm"})
"""Jobs whose processes are children of a daemon rather than of the user's shell."""


class _Holder(Struct, frozen=True):
    """The process that took a lease; after its end, only its PID is known."""

    pid: int
    start_ticks: int | None = None
    create_time: float | None = None
    username: SafeText | None = None
    name: SafeText | None = None


class LeaseTable:
    """The leased GPUs, and the processes that leased them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reading: Thread | None = None
        self.listed: tuple[locks.Lock, ...] = ()
        """The kernel's locks when they were last read."""
        self._due = 0.0
        self._boot_time: float | None = None
        self._origins: dict[object, bool | None] = {}
        """Whether a process descends from a holder: later events never change that."""

    def begin(self) -> None:
        """Start reading the kernel's locks, in a thread: it stops all locking for some 10 ms.

        They are not read for every sample, so leases may be a second older than the rest.
        """
        now = self._clock()
        if self._reading is not None or now < self._due:
            return
        self._due = now + _READ_SECONDS
        self._reading = Thread(target=self._read_locks, daemon=True)
        try:
            self._reading.start()
        except RuntimeError:  # The system has no threads left.
            self._reading = None
            self._read_locks()

    def _read_locks(self) -> None:
        self.listed = locks.listed()

    def sample(
        self, devices: Sequence[Device], processes: Sequence[Process], unlisted: Set[str]
    ) -> tuple[Lease, ...]:
        """Return the leases in the order of the GPUs; `unlisted` are those without a listing."""
        self.begin()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.join()
        found = locks.holders(self.listed)
        held = list(_held(devices, found)) if locks.may_be_leases(found) else []
        holders = {lock: self._holder(lock) for lock in dict.fromkeys(lock for *_, lock in held)}
        before, self._origins = self._origins, {}
        leases = []
        for device, uuid, lock in held:
            users = _users(device, devices, processes)
            is_used = self._is_used(users, holders[lock], before)
            if not is_used and not lists_processes(device, unlisted):
                is_used = None
            leases.append(_lease(device, uuid, holders[lock], is_used))
        return tuple(leases)

    def blocked(self, devices: Sequence[Device]) -> tuple[Lease, ...]:
        """Return who prevents leases of devices by a shared lock, which is not a lease itself."""
        held = _held(devices, locks.holders(self.listed, shared=True))
        return tuple(_lease(device, uuid, self._holder(lock), None) for device, uuid, lock in held)

    def _holder(self, lock: locks.Leaseholder) -> _Holder:
        pid = lock.pid
        stat = system_processes.read_stat(pid) if pid else None
        # The PID alone may belong to a process that started since.
        if stat is None or (lock.starts and stat.start_ticks not in lock.starts):
            return _Holder(pid)
        if self._boot_time is None:
            # Read once, so that a start time does not move with the wall clock.
            self._boot_time = system_processes.boot_time()
        facts = system_processes.facts(pid, stat) or Facts()
        booted = self._boot_time
        return _Holder(
            pid=pid,
            start_ticks=stat.start_ticks,
            create_time=None if booted is None else booted + stat.started_seconds,
            username=facts.username,
            # A process may put anything into its title.
            name=None if facts.name is None else clean(mask_text(facts.name)),
        )

    def _is_used(
        self, users: Iterator[Process], holder: _Holder, before: dict[object, bool | None]
    ) -> bool | None:
        """Whether a process on a device descends from the holder, None if unknown."""
        if holder.start_ticks is None:
            return None
        is_used: bool | None = False
        for process in users:
            key = holder.pid, holder.start_ticks, process.key
            comes = before[key] if key in before else _comes_from(process, holder.pid)
            self._origins[key] = comes
            if comes is not False:
                is_used = is_used or comes
        return is_used


def _held(
    devices: Sequence[Device], holders: Mapping[locks.Key, locks.Leaseholder]
) -> Iterator[tuple[Device, str, locks.Leaseholder]]:
    """Yield each leased device, its UUID, and the holder.

    A file that was deleted and recreated has another lock, so each is looked up every time.
    """
    for device in devices:
        key = lock_key(device)
        if key is not None and key in holders and device.uuid is not None:
            yield device, device.uuid, holders[key]


def lock_path(device: Device) -> str | None:
    """Return the file that a lease locks; a MIG instance has one only in GPUDASH_LOCK_DIR."""
    return locks.lease_path(device.uuid, None if device.is_mig else device.pci_bus_id)


def lease_fault(device: Device) -> str | None:
    """Return why a device cannot be leased here, None if it can."""
    path = lock_path(device)
    if path is not None:
        return locks.fault(path)
    return "it has no UUID" if locks.shared_folder() else "it has no PCI address"


def no_leases(devices: Sequence[Device]) -> str | None:
    """Return why none of some devices can be leased here, None if one can."""
    faults = [lease_fault(device) for device in devices]
    return None if None in faults else next(iter(faults), "there is no GPU")


def lock_key(device: Device) -> locks.Key | None:
    """Return that file's key in /proc/locks, None if the device cannot be leased."""
    path = lock_path(device)
    return None if path is None or device.uuid is None else locks.key(path)


def _lease(device: Device, uuid: str, holder: _Holder, is_used: bool | None) -> Lease:
    return Lease(
        uuid=uuid,
        index=device.index,
        pid=holder.pid or None,
        start_ticks=holder.start_ticks,
        create_time=holder.create_time,
        username=holder.username,
        name=holder.name,
        is_used=is_used,
    )


def _users(
    device: Device, devices: Sequence[Device], processes: Sequence[Process]
) -> Iterator[Process]:
    """Yield the processes on a device, or on an instance of it."""
    uuids = {each.uuid for each in devices if device.uuid in (each.uuid, each.parent_uuid)}
    return (each for each in processes if any(share.uuid in uuids for share in each.devices))


def _comes_from(process: Process, holder: int) -> bool | None:
    """Whether a process is the holder or descends from it, None if unknown."""
    if process.pid == holder:
        return True
    parent, seen = process.parent_pid, {process.pid}
    while parent and parent not in seen and len(seen) < _MAX_ANCESTORS:
        if parent == holder:
            return True
        seen.add(parent)
        stat = system_processes.read_stat(parent)
        parent = stat.parent_pid if stat else None
    is_certain = parent == 0 and (
        process.job is None or process.job.kind not in _STARTED_FOR_OTHERS
    )
    return False if is_certain else None
