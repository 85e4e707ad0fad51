"""The driver asked for everything once, in whatever process calls this: it may hold it for ever."""

from __future__ import annotations

import os
import time

from msgspec import Struct

from gpudash.collect.source import Source
from gpudash.doctor import driver, gpus
from gpudash.doctor import environment as surroundings
from gpudash.doctor.check import Check, failed, passed
from gpudash.doctor.machine import Machine
from gpudash.model.errors import DriverError
from gpudash.model.text import SafeText, clean

_NAME = "libnvidia-ml.so"
_NOT_LOADED, _NOT_FOUND, _MISMATCH, _UNKNOWN = 9, 12, 18, 999
_IN_A_CONTAINER = {
    _NOT_LOADED: "load it on the host: sudo modprobe nvidia",
    _NOT_FOUND: "start it with --gpus all: NVIDIA's container toolkit brings the library in",
    _UNKNOWN: "start it again; `systemctl daemon-reload` on the host does this to containers",
}
"""What to do where the host has the driver."""


class Answer(Struct, frozen=True, kw_only=True):
    """What the driver had to say, and the newest CUDA that it runs, None if it did not tell."""

    checks: list[Check]
    is_open: bool = False
    """Whether the driver let itself be opened."""
    cuda_driver_version: str | None = None


def answer(source: Source, machine: Machine) -> Answer:
    """Return how library, driver and GPUs stand."""
    start = time.monotonic()
    try:
        snapshot = source.sample()
    except DriverError as error:
        return Answer(checks=[*_library(machine), _refusal(error, machine)])
    seconds = time.monotonic() - start
    return Answer(
        checks=[*_library(machine), *gpus.checks(snapshot, seconds, machine)],
        is_open=snapshot.host.driver_version is not None,
        cuda_driver_version=snapshot.host.cuda_driver_version,
    )


def _library(machine: Machine) -> list[Check]:
    path = _loaded(machine)
    if path is None:
        return []
    if "/stubs/" in path:
        advice = "take the stubs folder out of LD_LIBRARY_PATH"
        return [failed("library", f"{path} is a stub that answers nothing", advice)]
    return [passed("library", path)]


def _refusal(error: DriverError, machine: Machine) -> Check:
    finding, _, advice = str(error).partition("; ")
    module = driver.module_version(machine)
    if error.code == _MISMATCH and module:
        loaded = (_loaded(machine) or "").partition(f"{_NAME}.")[2]
        finding = f"kernel module {clean(module)}, library {loaded or 'of another version'}"
    if surroundings.container(machine):
        advice = _IN_A_CONTAINER.get(error.code, advice)
        if error.code == _UNKNOWN:
            finding = "the container's access to the GPUs was revoked (NVML error 999)"
    return failed("driver", finding, advice or None)


def _loaded(machine: Machine) -> SafeText | None:
    """Return the file that NVML was loaded from, None if there was none."""
    for line in (machine.read("/proc/self/maps") or "").splitlines():
        path = line.partition("/")[2]
        if _NAME in path:
            return clean(os.path.realpath(f"/{path}"))
    return None
