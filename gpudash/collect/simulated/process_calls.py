"""The NVML calls about processes: the three lists and the utilization samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.errors import NVMLError
from gpudash.collect.simulated.gpu import Gpu, Instance, Occupant
from gpudash.collect.simulated.moment import load_of
from gpudash.collect.simulated.results import Record

_NO_INSTANCE = 0xFFFFFFFF
_NOT_FOUND = CONSTANTS["NVML_ERROR_NOT_FOUND"]
_LISTS = {"Compute": "C", "Graphics": "G", "MPSCompute": "M"}


def occupants(device: Gpu | Instance) -> list[Occupant]:
    """Return who uses a GPU, or one of its MIG instances."""
    if isinstance(device, Gpu):
        return list(device.occupants)
    return [o for o in device.gpu.occupants if o.share.slot == device.place.slot]


def utilization_samples(gpu: Gpu, now: float, last_seen: int) -> list[Record] | None:
    """Return the newest sample of each busy program, if it is newer than `last_seen` (µs).

    Raises NVMLError NOT_FOUND when nothing is.
    """
    if gpu.card.mig:
        return None
    moment = gpu.at(now)
    samples = [
        Record(
            pid=occupant.program.pid,
            timeStamp=moment.timestamp,
            smUtil=load,
            memUtil=load_of(load, occupant.share.bandwidth),
            encUtil=load_of(load, occupant.share.encoder),
            decUtil=load_of(load, occupant.share.decoder),
        )
        for occupant, load in zip(gpu.occupants, moment.loads, strict=True)
        if load and moment.timestamp > last_seen
    ]
    if not samples:
        raise NVMLError(_NOT_FOUND)
    return samples


def _listing(letter: str) -> Callable[[Gpu | Instance, float], list[Record]]:
    """Return the call that lists the programs of one type."""
    return lambda device, now: [
        _entry(device, occupant)
        for occupant in occupants(device)
        if letter in occupant.share.type.split("+")
    ]


def _entry(device: Gpu | Instance, occupant: Occupant) -> Record:
    gpu = device if isinstance(device, Gpu) else device.gpu
    places = (p for p in gpu.card.slices if p.slot == occupant.share.slot)
    place = next(places, None)
    return Record(
        pid=occupant.program.pid,
        usedGpuMemory=occupant.share.memory,
        gpuInstanceId=place.gpu_instance if place else _NO_INSTANCE,
        computeInstanceId=place.compute_instance if place else _NO_INSTANCE,
    )


LISTING_CALLS: dict[str, Callable[..., Any]] = {
    f"nvmlDeviceGet{kind}RunningProcesses{version}": _listing(letter)
    for kind, letter in _LISTS.items()
    for version in ("", "_v2", "_v3")
}
"""Calls that list programs, on the handle of a GPU or of a MIG instance."""

PROCESS_CALLS: dict[str, Callable[..., Any]] = {
    **LISTING_CALLS,
    "nvmlDeviceGetProcessUtilization": utilization_samples,
}
"""Calls about programs on the handle of a whole GPU."""
