"""The NVML calls on the handle of a MIG instance, which answers few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.collect.simulated.device_calls import memory
from gpudash.collect.simulated.gpu import Instance
from gpudash.collect.simulated.process_calls import LISTING_CALLS, occupants
from gpudash.collect.simulated.results import Boxed, Record
from gpudash.collect.simulated.scene import MIB

_RESERVED = 13 * MIB


def _memory(instance: Instance, now: float, version: int | None = None) -> Record:
    used = sum(o.share.memory + (3 + o.program.pid % 5) * MIB for o in occupants(instance))
    return memory(instance.place.memory, _RESERVED, used, version)


def _bar1(instance: Instance, now: float) -> Record:
    total = instance.gpu.board.bar1 * instance.place.slices // instance.gpu.board.mig_slots
    return Record(bar1Total=total, bar1Used=MIB, bar1Free=total - MIB)


def _attributes(instance: Instance, now: float) -> Record:
    place = instance.place
    return Record(
        multiprocessorCount=place.multiprocessor_count,
        sharedCopyEngineCount=place.slices,
        sharedDecoderCount=place.slices // 2,
        sharedEncoderCount=0,
        sharedJpegCount=0,
        sharedOfaCount=0,
        gpuInstanceSliceCount=place.slices,
        computeInstanceSliceCount=place.slices,
        memorySizeMB=place.memory // MIB,
    )


INSTANCE_CALLS: dict[str, Callable[..., Any]] = {
    **LISTING_CALLS,
    "nvmlDeviceGetIndex": lambda i, now: i.place.slot,
    "nvmlDeviceGetUUID": lambda i, now: i.uuid,
    "nvmlDeviceGetName": lambda i, now: f"{i.gpu.board.name} MIG {i.place.profile}",
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetBAR1MemoryInfo": _bar1,
    "nvmlDeviceGetGpuInstanceId": lambda i, now: i.place.gpu_instance,
    "nvmlDeviceGetComputeInstanceId": lambda i, now: i.place.compute_instance,
    "nvmlDeviceGetAttributes": _attributes,
    "nvmlDeviceGetAttributes_v2": _attributes,
    "nvmlDeviceGetComputeMode": lambda i, now: 0,
    "nvmlDeviceIsMigDeviceHandle": lambda i, now: Boxed(1),
}
"""Calls on the handle of a MIG instance: (instance, now, *arguments) -> answer."""
