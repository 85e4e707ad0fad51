"""NVML's return values, and what they mean.

The texts are gpudash's own: asking the C library for them has crashed on a failed init
(hashcat#2773), and pynvml knows only some of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gpudash.model.text import clean
from gpudash.system.files import read_start

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
CORRUPTED_INFOROM = 14
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
INSUFFICIENT_RESOURCES = 23
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999

PERMANENT = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH})
"""After this answer to a call, a device never supports it; it is not repeated."""

DEAD = frozenset({GPU_IS_LOST, RESET_REQUIRED})
"""After this answer to one call, a device gives it to all."""

_TEXTS = {
    UNINITIALIZED: "NVML is not initialised",
    INVALID_ARGUMENT: "invalid argument",
    NOT_SUPPORTED: "not supported",
    NO_PERMISSION: "no permission",
    5: "already initialised",
    NOT_FOUND: "not found",
    INSUFFICIENT_SIZE: "buffer too small",
    8: "a power cable is not attached",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    TIMEOUT: "the driver timed out",
    11: "the kernel found an interrupt problem with the GPU",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found",
    FUNCTION_NOT_FOUND: "this driver lacks the function",
    14: "the GPU's info ROM is corrupted",
    GPU_IS_LOST: "the GPU is lost: it fell off the bus",
    RESET_REQUIRED: "the GPU needs a reset",
    17: "an operating system call failed",
    LIB_RM_VERSION_MISMATCH: "driver and library versions differ",
    19: "the GPU is in use",
    20: "out of memory",
    21: "no data",
    INSUFFICIENT_RESOURCES: "insufficient resources",
    ARGUMENT_VERSION_MISMATCH: "this driver expects another version of the call",
    27: "the driver is not ready",
    28: "no GPU was found",
    29: "invalid state",
    UNKNOWN: "unknown error",
}

_DEVICE_TEXTS = {
    NO_PERMISSION: "may not be read: no permission on its device node",
    GPU_IS_LOST: "fell off the bus: sudo dmesg | grep -i xid, then reboot",
    RESET_REQUIRED: "needs a reset: end its processes, then sudo nvidia-smi --gpu-reset -i {}",
}

_ADVICE = {
    NO_PERMISSION: (
        "the device nodes /dev/nvidia* are not accessible: check their owner and mode, or the "
        "container's device rules"
    ),
    DRIVER_NOT_LOADED: (
        "load it with `sudo modprobe nvidia`, or try gpudash without a GPU: gpudash --demo"
    ),
    LIBRARY_NOT_FOUND: "install the NVIDIA driver, or try gpudash without a GPU: gpudash --demo",
    17: "see the kernel log: sudo dmesg | grep -i nvrm",
    LIB_RM_VERSION_MISMATCH: (
        "the driver was updated under the running kernel module: reboot, or reload the module"
    ),
    UNKNOWN: "see the kernel log: sudo dmesg | grep -i nvrm",
}

_LIBRARY = "libnvidia-ml.so"
_MAX_BYTES = 1 << 20
_VERSION = r"\b\d{3,4}(?:\.\d{1,4}){1,3}\b"
"""Compiled where it is used: only a failing driver needs it."""


def text(code: int) -> str:
    """Return the meaning of a return value, in a few words."""
    return _TEXTS.get(code, f"NVML error {code}")


def device_message(index: int, code: int) -> str:
    """Return the fault of a GPU and what to do about it, in one line."""
    problem = _DEVICE_TEXTS.get(code) or f"does not answer: {text(code)}"
    return f"GPU {index} {problem.format(index)}"


def driver_message(code: int) -> str:
    """Return why NVML cannot be used and what to do about it, in one line."""
    advice = _ADVICE.get(code)
    return f"{text(code)} (NVML error {code})" + (f"; {advice}" if advice else "")


def init_error(code: int, root: str = "/", environ: Mapping[str, str] = os.environ) -> str:
    """Return why NVML could not be initialised here and what to do about it, in one line."""
    if code == LIB_RM_VERSION_MISMATCH:
        return _mismatch(root) or driver_message(code)
    # Only a failing driver needs it.
    from gpudash.system.container import container

    if code == UNKNOWN and container(root, environ):
        return (
            "this container lost its access to the GPUs (NVML error 999); start it again: "
            "`systemctl daemon-reload` on the host takes it away, unless the container was "
            "started with --device for each /dev/nvidia*, or by CDI"
        )
    return driver_message(code)


def _mismatch(root: str) -> str | None:
    """Return which versions differ, None if the kernel does not show its module's."""
    loaded = module_version(root)
    if loaded is None:
        return None
    library = library_version(root)
    differs = f"library {library}" if library else "the library is of another version"
    return (
        f"driver {loaded} loaded, {differs} (NVML error 18); "
        "reboot, or reload the module: it was updated under the running kernel"
    )


def module_version(root: str = "/") -> str | None:
    """Return the version of the loaded kernel module, None if the kernel shows none."""
    found = re.search(_VERSION, _read(root, "proc/driver/nvidia/version"))
    return found[0] if found else clean(_read(root, "sys/module/nvidia/version").strip()) or None


def library_version(root: str = "/") -> str | None:
    """Return the version in the name of NVML's file, None if there is none.

    It needs no driver.
    """
    found = re.search(_VERSION, (library_path(root) or "").partition(f"{_LIBRARY}.")[2])
    return found[0] if found else None


def library_path(root: str = "/") -> str | None:
    """Return the file that NVML was loaded from, with links resolved, None if there is none."""
    for line in _read(root, "proc/self/maps").splitlines():
        path = line.partition("/")[2]
        if _LIBRARY in path:
            return os.path.realpath(f"/{path}")
    return None


def _read(root: str, path: str) -> str:
    text = read_start(os.path.join(root, path), _MAX_BYTES) or b""
    return text.decode("utf-8", "replace")
