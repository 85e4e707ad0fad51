"""What stands between gpudash and the machine: containers, namespaces and rights."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gpudash.doctor.check import Check, passed, warned
from gpudash.model.text import SafeText, clean
from gpudash.system.processes import FIRST_PID_NAMESPACE

_BYTES = 1 << 16


class Machine:
    """A file system below `root` and an environment; what cannot be read is None or empty."""

    def __init__(self, root: str = "/", environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self._root = root.rstrip("/")

    def read(self, path: str) -> str | None:
        """Return the beginning of a file."""
        try:
            with open(self._root + path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(_BYTES).strip()
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        """Return what a folder holds, sorted."""
        try:
            return sorted(os.listdir(self._root + path))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether there is such a file, folder or node."""
        return os.path.lexists(self._root + path)

    def is_accessible(self, path: str) -> bool:
        """Whether it may be read and written; asked by its mode, as opening could wake a GPU."""
        return os.access(self._root + path, os.R_OK | os.W_OK)

    def target(self, path: str) -> SafeText | None:
        """Return where a symbolic link points."""
        try:
            return clean(os.readlink(self._root + path))
        except OSError:
            return None


_MARKS = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}
_CGROUP = re.compile(r"docker|libpod|kubepods|containerd|crio|lxc|garden")
_HIDEPID = re.compile(r"\bhidepid=(?!0|off)(\w+)")


def checks(machine: Machine, uid: int | None = None) -> list[Check]:
    """Return how container, PID namespace, /proc and rights stand."""
    user = os.geteuid() if uid is None else uid
    return [
        _container(machine),
        _namespace(machine),
        _proc(machine, user),
        _rights(machine, user),
        _leases(machine),
    ]


def container(machine: Machine) -> str | None:
    """Return the kind of container that this is, None if it is none."""
    for path, kind in _MARKS.items():
        if machine.exists(path):
            return kind
    if machine.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    found = _CGROUP.search(machine.read("/proc/self/cgroup") or "")
    return found[0] if found else machine.environ.get("container") or None


def _container(machine: Machine) -> Check:
    kind = container(machine)
    if kind is None:
        return passed("container", "none")
    visible = machine.environ.get("NVIDIA_VISIBLE_DEVICES")
    if visible in ("", "none", "void"):
        advice = "start it with --gpus all, or NVIDIA_VISIBLE_DEVICES=all"
        return warned("container", f"{kind}, with NVIDIA_VISIBLE_DEVICES={visible!r}", advice)
    return passed("container", f"{kind}; only the GPUs that it was given are seen")


def _namespace(machine: Machine) -> Check:
    topic = "PID namespace"
    found = machine.target("/proc/self/ns/pid")
    if found is None:
        return warned(topic, "/proc does not tell: nobody can be named or signalled safely")
    if found == FIRST_PID_NAMESPACE:
        return passed(topic, "the host's: the driver's process ids are ours")
    finding = "a container's own: the driver's process ids are the host's, not ours"
    advice = "processes stay unnamed and cannot be killed; share it with --pid=host to see them"
    return warned(topic, finding, advice)


def _proc(machine: Machine, user: int) -> Check:
    mounts = machine.read("/proc/self/mounts") or ""
    options = [line.split()[3] for line in mounts.splitlines() if _is_proc(line)]
    hidden = _HIDEPID.search(options[-1]) if options else None
    if hidden and user != 0:
        advice = "the group of its gid= option sees them, and so does root"
        finding = f"mounted with {hidden[0]}: other users' processes are hidden"
        return warned("/proc", finding, advice)
    if not machine.names("/proc/self"):
        return warned("/proc", "not mounted: GPUs are shown, processes are not")
    return passed("/proc", "shows every user's processes")


def _is_proc(line: str) -> bool:
    words = line.split()
    return len(words) > 3 and words[1] == "/proc" and words[2] == "proc"


def _rights(machine: Machine, user: int) -> Check:
    if user == 0:
        return passed("rights", "root: everybody's processes can be inspected and ended")
    return passed("rights", "your own processes can be ended, and their environments read")


def _leases(machine: Machine) -> Check:
    """Look for the places where `gpudash run` locks what it leases."""
    shared = machine.environ.get("GPUDASH_LOCK_DIR")
    if shared:
        count = len(machine.names(shared))
        if count:
            return passed("leases", f"{count} places in GPUDASH_LOCK_DIR")
        advice = "as root: an empty file in it for each UUID that gpudash -L lists"
        return warned("leases", f"GPUDASH_LOCK_DIR={clean(shared)!r} holds no places", advice)
    if container(machine) is not None:
        advice = "share a folder of the host with a file for each UUID: GPUDASH_LOCK_DIR"
        return warned("leases", "hold inside this container only: its sysfs is its own", advice)
    return passed("leases", "by locks on the GPUs' directories in sysfs")
