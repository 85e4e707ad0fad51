"""The locks behind leases: one for each GPU, kept by the kernel and gone with their holder.

A lease is a flock on a file that only root can replace: the sysfs directory of the GPU's PCI
device, which exists on every host, for every user. Containers see a sysfs of their own; there
GPUDASH_LOCK_DIR names a folder of the host that they share, with one file per UUID.

Beside it, the holder shows when it started by a read lock on the byte of that number: the kernel
reports the PID that took a flock, even once that process has ended and the PID is another's.
Read locks exclude nothing, so that every user may hold one; the queue uses them, too.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from gpudash.system import processes
from gpudash.system.files import read_start
from gpudash.system.pci import kernel_address

_SYSFS = "/sys/bus/pci/devices"
_LOCKS = "/proc/locks"
_LOCKS_BYTES = 1 << 22
_VARIABLE = "GPUDASH_LOCK_DIR"
_F_OFD_SETLK = 37
_FLOCK_STRUCT = "hhqqi4x"

Key = tuple[int, int, int]
"""A file in /proc/locks: major and minor number of its file system, inode."""


def shared_folder() -> str | None:
    """Return the folder of lock files set by the administrator, None for sysfs."""
    return os.environ.get(_VARIABLE) or None


def lease_path(uuid: str | None, pci_bus_id: str | None) -> str | None:
    """Return the path whose lock is the lease of a GPU, None if it cannot be leased."""
    shared = shared_folder()
    if shared is not None:
        return None if not uuid or "/" in uuid else f"{shared}/{uuid}"
    address = kernel_address(pci_bus_id)
    return None if address is None else f"{_SYSFS}/{address}"


class Lock(Struct, frozen=True):
    """A lock in /proc/locks, from the byte `start` to the byte `end`."""

    key: Key
    kind: str
    """`FLOCK`, `POSIX` or `OFDLCK`."""
    is_exclusive: bool
    pid: int
    """0 for a holder outside this PID namespace; meaningless for OFDLCK."""
    start: int
    end: int | None


class Leaseholder(Struct, frozen=True):
    """The process that took a lease."""

    pid: int
    """0 if it is outside this PID namespace."""
    starts: frozenset[int]
    """Its start time in ticks, among others' claims; empty if it does not show it."""


def queue_path() -> str:
    """Return the folder on which waiting commands hold their tickets."""
    return shared_folder() or _SYSFS


def acquire(path: str) -> int | None:
    """Return a descriptor that holds the lock while it, or a copy in a child, is open.

    None if another process holds it. Raises OSError if the path does not exist, PermissionError if
    it cannot hold leases, see `fault`.
    """
    import fcntl

    # Opening a device, or the target of a link, may have side effects.
    _require_lock(path, _status(path))
    links = 0 if _is_in_sysfs(path) else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | links)
    try:
        _require_lock(path, os.fstat(descriptor))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    own = processes.read_stat(os.getpid())
    if own is not None:
        # Of the open file, like the flock. A file system without such locks still has the lease.
        request = struct.pack(_FLOCK_STRUCT, fcntl.F_RDLCK, os.SEEK_SET, own.start_ticks, 1, 0)
        with suppress(OSError):
            fcntl.fcntl(descriptor, _F_OFD_SETLK, request)
    return descriptor


def fault(path: str) -> str | None:
    """Return why a path cannot hold leases, None if it can; nothing is opened."""
    try:
        _require_lock(path, _status(path))
    except OSError as error:
        return reason(path, error)
    return None


def reason(path: str, error: OSError) -> str:
    """Return the reason why a path cannot hold leases, as text."""
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist"
    return f"{path}: {error.strerror}" if error.strerror else str(error)


def key(path: str) -> Key | None:
    """Return a path's key in /proc/locks, None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def listed() -> tuple[Lock, ...]:
    """Return the locks of this machine, as far as visible in our namespace."""
    return _read(_LOCKS)


def holders(listed: Collection[Lock], *, shared: bool = False) -> dict[Key, Leaseholder]:
    """Return the holder of each exclusive flock, or of each shared one; the first of several."""
    starts: dict[Key, set[int]] = {}
    for lock in listed:
        if lock.kind == "OFDLCK" and not lock.is_exclusive:
            starts.setdefault(lock.key, set()).add(lock.start)
    return {
        lock.key: Leaseholder(lock.pid, frozenset(starts.get(lock.key, ())))
        for lock in reversed(tuple(listed))
        if lock.kind == "FLOCK" and lock.is_exclusive is not shared
    }


def carried() -> frozenset[Key]:
    """Return the exclusive flocks of files open here, including those taken by others."""
    found: set[Key] = set()
    with suppress(OSError):
        for name in os.listdir("/proc/self/fdinfo"):
            found.update(holders(_read(f"/proc/self/fdinfo/{name}")))
    return frozenset(found)


def may_be_leases(holders: Collection[Key]) -> bool:
    """Whether some of the locks may be leases: few hosts have any flock in sysfs."""
    if not holders or shared_folder() is not None:
        return bool(holders)
    system = key(_SYSFS)
    return system is not None and any(each[:2] == system[:2] for each in holders)


def _read(path: str) -> tuple[Lock, ...]:
    text = read_start(path, _LOCKS_BYTES) or b""
    return tuple(parse(text.decode("latin-1").splitlines()))


def parse(lines: Iterable[str]) -> Iterator[Lock]:
    """Yield the locks in the lines of /proc/locks or of a fdinfo, without waiters."""
    for line in lines:
        words = line.removeprefix("lock:").split()
        if len(words) < 8 or words[1] == "->":
            continue
        try:
            major, minor, inode = words[5].split(":")
            yield Lock(
                key=(int(major, 16), int(minor, 16), int(inode)),
                kind=words[1],
                is_exclusive=words[3] == "WRITE",
                pid=max(int(words[4]), 0),
                start=int(words[6]),
                end=None if words[7] == "EOF" else int(words[7]),
            )
        except ValueError:
            continue


def _is_in_sysfs(path: str) -> bool:
    return path.startswith(f"{_SYSFS}/")


def _status(path: str) -> os.stat_result:
    return os.stat(path, follow_symlinks=_is_in_sysfs(path))


def _require_lock(path: str, status: os.stat_result) -> None:
    """Raise PermissionError unless it is a lock that only root can replace."""
    if not _is_in_sysfs(path) and not stat.S_ISREG(status.st_mode):
        raise PermissionError(f"{path} cannot hold leases: it is not a regular file")
    folder = os.stat(os.path.dirname(path))
    writable = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # In sysfs, the path is a link.
    owners = {status.st_uid, folder.st_uid, os.lstat(path).st_uid}
    if owners != {0} or (writable and not folder.st_mode & stat.S_ISVTX):
        raise PermissionError(f"{path} cannot hold leases: others than root can replace it")
