"""Why NVML cannot be used, from what the machine shows beside NVML's bare number.

Of foreign text nothing but digits and dots is passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gpudash.collect.nvml import codes

_LIBRARY = "libnvidia-ml.so."
_MARKS = (".dockerenv", "run/.containerenv")
_CGROUP = re.compile(r"docker|libpod|kubepods|containerd|crio|lxc")
_VERSION = re.compile(r"\b\d{3,4}(?:\.\d{1,4}){1,3}\b")


def refusal(code: int, root: str = "/", environ: Mapping[str, str] = os.environ) -> str:
    """Return the line that says why NVML cannot be used and what to do about it."""
    if code == codes.LIB_RM_VERSION_MISMATCH:
        return _mismatch(root) or codes.driver_message(code)
    if code == codes.UNKNOWN and _is_container(root, environ):
        return (
            "this container lost its access to the GPUs (NVML error 999); start it again: "
            "`systemctl daemon-reload` on the host takes it away, unless the container was "
            "started with --device for each /dev/nvidia*, or by CDI"
        )
    return codes.driver_message(code)


def _mismatch(root: str) -> str | None:
    """Return which versions differ, None where the kernel does not tell its module's."""
    loaded = _VERSION.search(_read(root, "proc/driver/nvidia/version"))
    if loaded is None:
        return None
    library = _library_version(root)
    differs = f"library {library}" if library else "the library is of another version"
    return (
        f"driver {loaded[0]} loaded, {differs} (NVML error 18); "
        "reboot, or reload the module: it was updated under the running kernel"
    )


def _library_version(root: str) -> str | None:
    """Return the version in the name of the file that NVML was loaded from."""
    for line in _read(root, "proc/self/maps").splitlines():
        _, _, path = line.partition("/")
        found = _VERSION.search(os.path.realpath(f"/{path}").partition(_LIBRARY)[2])
        if found and _LIBRARY in path:
            return found[0]
    return None


def _is_container(root: str, environ: Mapping[str, str]) -> bool:
    return (
        any(os.path.exists(os.path.join(root, mark)) for mark in _MARKS)
        or bool({"KUBERNETES_SERVICE_HOST", "container"} & environ.keys())
        or _CGROUP.search(_read(root, "proc/self/cgroup")) is not None
    )


def _read(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
