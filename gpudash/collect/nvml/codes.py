"""NVML's return values, and what they mean to a person.

The texts are gpudash's own: asking the C library for them has crashed on a failed init
(hashcat#2773), and pynvml knows only some of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
INSUFFICIENT_RESOURCES = 23
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999

PERMANENT = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})
"""A device that answers so to a metric never has it; it is not asked again."""

DEAD = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""A device that answers so to any call answers so to all."""

_TEXTS = {
    1: "NVML is not initialised",
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    5: "already initialised",
    6: "not found",
    7: "buffer too small",
    8: "a power cable is not attached",
    9: "the NVIDIA driver is not loaded",
    10: "the driver timed out",
    11: "the kernel found an interrupt problem with the GPU",
    12: "libnvidia-ml.so.1 was not found",
    13: "this driver lacks the function",
    14: "the GPU's info ROM is corrupted",
    15: "the GPU is lost: it fell off the bus",
    16: "the GPU needs a reset",
    17: "an operating system call failed",
    18: "driver and library versions differ",
    19: "the GPU is in use",
    20: "out of memory",
    21: "no data",
    23: "insufficient resources",
    25: "this driver expects another version of the call",
    27: "the driver is not ready",
    28: "no GPU was found",
    29: "invalid state",
    999: "unknown error",
}

_DEVICE_TEXTS = {
    4: "may not be read: no permission on its device node",
    GPU_IS_LOST: "fell off the bus; a reboot may bring it back, sudo dmesg | grep -i xid says why",
    RESET_REQUIRED: "needs a reset: end its processes, then sudo nvidia-smi --gpu-reset -i {}",
}

_ADVICE = {
    4: "the device nodes /dev/nvidia* are not accessible: check their owner and mode, or the "
    "container's device rules",
    9: "load it with `sudo modprobe nvidia`, or try gpudash without a GPU: gpudash --demo",
    12: "install the NVIDIA driver, or try gpudash without a GPU: gpudash --demo",
    17: "see the kernel log: sudo dmesg | grep -i nvrm",
    18: "the driver was updated under the running kernel module: reboot, or reload the module",
    999: "see the kernel log: sudo dmesg | grep -i nvrm",
}


def text(code: int) -> str:
    """Return what a return value means, in a few words."""
    return _TEXTS.get(code, f"NVML error {code}")


def device_message(index: int, code: int) -> str:
    """Return the line that says what is wrong with a GPU and what to do about it."""
    told = _DEVICE_TEXTS.get(code) or f"does not answer: {text(code)}"
    return f"GPU {index} {told.format(index)}"


def driver_message(code: int) -> str:
    """Return why NVML cannot be used and what to do about it, in one line."""
    advice = _ADVICE.get(code)
    return f"{text(code)} (NVML error {code})" + (f"; {advice}" if advice else "")


_LIBRARY = "libnvidia-ml.so."
_MARKS = (".dockerenv", "run/.containerenv")
_CGROUP = re.compile(r"docker|libpod|kubepods|containerd|crio|lxc")
_VERSION = re.compile(r"\b\d{3,4}(?:\.\d{1,4}){1,3}\b")


def init_error(code: int, root: str = "/", environ: Mapping[str, str] = os.environ) -> str:
    """Return why NVML could not be initialised here and what to do about it, in one line."""
    if code == LIB_RM_VERSION_MISMATCH:
        return _mismatch(root) or driver_message(code)
    if code == UNKNOWN and _is_container(root, environ):
        return (
            "this container lost its access to the GPUs (NVML error 999); start it again: "
            "`systemctl daemon-reload` on the host takes it away, unless the container was "
            "started with --device for each /dev/nvidia*, or by CDI"
        )
    return driver_message(code)


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
