"""The leases of this machine's GPUs, from the kernel's list of locks."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash import locks, proc_facts, proc_stat
from gpudash.secrets import mask_text
from gpudash.snapshot import Device, Lease, Process
from gpudash.sources.ahead import Ahead
from gpudash.text import clean

_MOST_ANCESTORS = 64


class LeaseTable:
    """Knows which lock belongs to which GPU, and who holds it."""

    def __init__(self) -> None:
        self._keys: dict[str, locks.Key | None] = {}
        self._ahead: Ahead[dict[locks.Key, int]] | None = None

    def begin(self) -> None:
        """Ask the kernel for its locks; it stops all locking for that, which takes 10 ms.

        Once for a sample, however often it is called.
        """
        if self._ahead is None:
            self._ahead = Ahead(locks.holders)

    def sample(self, devices: Sequence[Device], processes: Sequence[Process]) -> tuple[Lease, ...]:
        """Return the leases in the order of the GPUs."""
        ahead, self._ahead = self._ahead, None
        holders = ahead.result() if ahead else locks.holders()
        if not holders:
            return ()
        boot_time = proc_stat.boot_time()
        return tuple(
            _lease(device, holders[key], processes, boot_time)
            for device in devices
            if device.uuid is not None and (key := self._key(device)) in holders
        )

    def _key(self, device: Device) -> locks.Key | None:
        """Return the lock of a device, looked up once: it stays as long as the driver does."""
        path = locks.place(device.uuid, None if device.is_mig else device.pci_bus_id)
        if path is None:
            return None
        if self._keys.get(path) is None:
            self._keys[path] = locks.key(path)
        return self._keys[path]


def _lease(
    device: Device, pid: int, processes: Sequence[Process], boot_time: float | None
) -> Lease:
    assert device.uuid is not None
    stat = proc_stat.read(pid) if pid else None
    status = proc_facts.status(pid) if stat else None
    uid = None if status is None else proc_facts.owner_id(status)
    name = None if status is None else proc_facts.name(status, proc_facts.command_line(pid))
    return Lease(
        uuid=device.uuid,
        index=device.index,
        pid=pid or None,
        start_ticks=stat.start_ticks if stat else None,
        create_time=boot_time + stat.started_seconds if stat and boot_time else None,
        username=None if uid is None else proc_facts.username(uid),
        # A process may put anything into its title.
        name=None if name is None else clean(mask_text(name)),
        is_used=_is_used(device, pid, processes) if stat else None,
    )


def _is_used(device: Device, holder: int, processes: Sequence[Process]) -> bool:
    """Whether a process on the device is the holder or comes from it."""
    return any(
        process.pid == holder or holder in _ancestors(process)
        for process in processes
        if any(share.uuid == device.uuid for share in process.devices)
    )


def _ancestors(process: Process) -> set[int]:
    found: set[int] = set()
    parent = process.parent_pid
    while parent and parent not in found and len(found) < _MOST_ANCESTORS:
        found.add(parent)
        stat = proc_stat.read(parent)
        parent = stat.parent_pid if stat else None
    return found
