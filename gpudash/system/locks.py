"""The locks behind leases: one for each GPU, kept by the kernel and gone with their holder.

A lease is a flock on a file that only root can replace: the sysfs directory of the GPU's PCI
device, which exists on every host, for every user. Containers see a sysfs of their own; there
GPUDASH_LOCK_DIR names a folder of the host that they share, with one file per UUID.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping

from gpudash.system.files import read_start

_SYSFS = "/sys/bus/pci/devices"
_LOCKS = "/proc/locks"
_LOCKS_BYTES = 1 << 22
_HEXADECIMAL = frozenset("0123456789abcdef")
_VARIABLE = "GPUDASH_LOCK_DIR"

Key = tuple[int, int, int]
"""A file as /proc/locks names it: major and minor number of its file system, inode."""


def shared_folder() -> str | None:
    """Return the folder of lock files set by the administrator, None for sysfs."""
    return os.environ.get(_VARIABLE) or None


def lease_path(uuid: str | None, pci_bus_id: str | None) -> str | None:
    """Return the path whose lock is the lease of a GPU, None if it cannot be leased."""
    shared = shared_folder()
    if shared is not None:
        return None if not uuid or "/" in uuid else f"{shared}/{uuid}"
    if not pci_bus_id:
        return None
    # NVML writes the domain with eight digits and in upper case, the kernel with four or more.
    domain, _, rest = pci_bus_id.lower().partition(":")
    if "/" in rest or not _HEXADECIMAL.issuperset(domain) or not domain:
        return None
    return f"{_SYSFS}/{int(domain, 16):04x}:{rest}"


def queue_lock_path() -> str:
    """Return the path whose lock the first in the queue of waiting commands holds."""
    return shared_folder() or _SYSFS


def acquire(path: str) -> int | None:
    """Return a descriptor that holds the lock as long as it, or a copy in a child, is open.

    None if another process holds it. Raises OSError if there is no such path, PermissionError
    if others than root could replace it.
    """
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _require_root(path, os.fstat(descriptor))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def key(path: str) -> Key | None:
    """Return how /proc/locks names a path, None where it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def holders() -> dict[Key, int]:
    """Return the PID that holds each flock of this machine, as far as its namespace is ours.

    0 stands for a holder outside this PID namespace.
    """
    text = read_start(_LOCKS, _LOCKS_BYTES) or b""
    return parse_holders(text.decode("latin-1").splitlines())


def may_be_leases(holders: Mapping[Key, int]) -> bool:
    """Whether some of the locks may be leases: few hosts have any flock in sysfs."""
    if not holders or shared_folder() is not None:
        return bool(holders)
    system = key(_SYSFS)
    return system is not None and any(each[:2] == system[:2] for each in holders)


def parse_holders(lines: Iterable[str]) -> dict[Key, int]:
    """Return the holders of exclusive flocks in the lines of /proc/locks; waiters are left out."""
    found: dict[Key, int] = {}
    for line in lines:
        words = line.split()
        if len(words) < 6 or words[1] != "FLOCK" or words[3] != "WRITE":
            continue
        try:
            major, minor, inode = words[5].split(":")
            found[int(major, 16), int(minor, 16), int(inode)] = max(int(words[4]), 0)
        except ValueError:
            continue
    return found


def _require_root(path: str, status: os.stat_result) -> None:
    """Raise PermissionError unless only root can replace what was opened."""
    folder = os.stat(os.path.dirname(path))
    writable = folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # In sysfs the path is a link, root's own; where all may make files, anybody may make links.
    owners = {status.st_uid, folder.st_uid, os.lstat(path).st_uid}
    if owners != {0} or (writable and not folder.st_mode & stat.S_ISVTX):
        raise PermissionError(f"{path} cannot hold leases: others than root can replace it")
