"""How a GPU in MIG mode is divided, and how it can be: its profiles and instances.

NVML reports it only to root, and to users who may open the driver's capability for managing MIG.
"""

from __future__ import annotations

from ctypes import byref, c_uint
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import DeviceLost, Library
from gpudash.collect.nvml.values import string
from gpudash.model.details import MigInstance, MigLayout, MigPlacement, MigProfile

_GPU_PROFILES, _COMPUTE_PROFILES = 18, 9
"""Maximum numbers of profile kinds, whether the library knows them or not."""
_MAX_ENTRIES = 64
_UNKNOWN = codes.PERMANENT | {codes.INVALID_ARGUMENT}
"""NVML's answers for a kind that the GPU does not have."""


class _RefusedError(Exception):
    """A call failed with the code that is its argument."""


def layout(library: Library, handle: Any) -> MigLayout:
    """Return how a GPU is divided; raises DeviceLost when the device reports that it is gone."""
    reader = _Reader(library)
    try:
        profiles = reader.gpu_profiles(handle)
    except _RefusedError as refusal:
        return MigLayout(failure=refusal.args[0])
    try:
        instances = tuple(
            each for profile in profiles for each in reader.gpu_instances(handle, profile)
        )
    except _RefusedError as refusal:
        return MigLayout(profiles=profiles, failure=refusal.args[0])
    return MigLayout(profiles=profiles, instances=instances)


class _Reader:
    def __init__(self, library: Library) -> None:
        self._library = library

    def gpu_profiles(self, handle: Any) -> tuple[MigProfile, ...]:
        found = []
        for number in range(_GPU_PROFILES):
            info = self._known("nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
            if info is not None:
                free = self._call("nvmlDeviceGetGpuInstanceRemainingCapacity", handle, info.id)
                call = "nvmlDeviceGetGpuInstancePossiblePlacements"
                found.append(
                    MigProfile(
                        **_common(info, free),
                        placements=self._placements(call, handle, info.id),
                        multiprocessor_count=info.multiprocessorCount,
                        copy_engine_count=info.copyEngineCount,
                        decoder_count=info.decoderCount,
                        encoder_count=info.encoderCount,
                        jpeg_count=info.jpegCount,
                        ofa_count=info.ofaCount,
                        memory_mib=info.memorySizeMB,
                        has_p2p=bool(info.isP2pSupported),
                    )
                )
        # Kinds are numbered in the order in which they were added to NVML.
        return tuple(sorted(found, key=lambda profile: profile.slice_count))

    def gpu_instances(self, handle: Any, profile: MigProfile) -> list[MigInstance]:
        found = []
        for each in self._handles("GpuInstance", "nvmlDeviceGetGpuInstances", handle, profile.id):
            info = self._call("nvmlGpuInstanceGetInfo", each)
            profiles = self._compute_profiles(each)
            below = [one for kind in profiles for one in self._compute_instances(each, kind)]
            found.append(_instance(info, profile.name, profiles, tuple(below)))
        return found

    def _compute_profiles(self, instance: Any) -> tuple[MigProfile, ...]:
        found = []
        for number in range(_COMPUTE_PROFILES):
            name = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
            info = self._known(name, instance, number, 0)
            if info is not None:
                name = "nvmlGpuInstanceGetComputeInstanceRemainingCapacity"
                free = self._call(name, instance, info.id)
                name = "nvmlGpuInstanceGetComputeInstancePossiblePlacements"
                found.append(
                    MigProfile(
                        **_common(info, free),
                        placements=self._placements(name, instance, info.id),
                        multiprocessor_count=info.multiprocessorCount,
                        copy_engine_count=info.sharedCopyEngineCount,
                        decoder_count=info.sharedDecoderCount,
                        encoder_count=info.sharedEncoderCount,
                        jpeg_count=info.sharedJpegCount,
                        ofa_count=info.sharedOfaCount,
                    )
                )
        return tuple(found)

    def _compute_instances(self, instance: Any, profile: MigProfile) -> list[MigInstance]:
        call = "nvmlGpuInstanceGetComputeInstances"
        handles = self._handles("ComputeInstance", call, instance, profile.id)
        infos = [self._call("nvmlComputeInstanceGetInfo", each) for each in handles]
        return [_instance(info, profile.name) for info in infos]

    def _handles(self, kind: str, name: str, handle: Any, profile: int) -> list[Any]:
        structure = getattr(self._library.module, f"c_nvml{kind}_t")
        return self._listed(structure, name, handle, profile)

    def _placements(self, name: str, handle: Any, profile: int) -> tuple[MigPlacement, ...]:
        structure = self._library.module.c_nvmlGpuInstancePlacement_t
        found = self._listed(structure, name, handle, profile)
        return tuple(MigPlacement(start=each.start, size=each.size) for each in found)

    def _listed(self, structure: Any, name: str, handle: Any, profile: int) -> list[Any]:
        count, buffer = c_uint(_MAX_ENTRIES), (structure * _MAX_ENTRIES)()
        self._call(name, handle, profile, buffer, byref(count))
        return list(buffer[: min(count.value, _MAX_ENTRIES)])

    def _known(self, name: str, *arguments: Any) -> Any:
        """Return an answer, None for a kind of instances that the GPU does not have."""
        value, code = self._library.call(name, *arguments)
        return None if code in _UNKNOWN else self._checked(value, code)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._checked(*self._library.call(name, *arguments))

    def _checked(self, value: Any, code: int) -> Any:
        if code in codes.DEAD:
            raise DeviceLost(code)
        if code:
            raise _RefusedError(code)
        return value


def _common(info: Any, free: int) -> dict[str, Any]:
    """Return the common values of profiles of GPU instances and of compute instances."""
    return {
        "id": info.id,
        "name": string(info.name) or "",
        "slice_count": info.sliceCount,
        "total_count": info.instanceCount,
        "free_count": free,
    }


def _instance(
    info: Any,
    name: str,
    profiles: tuple[MigProfile, ...] = (),
    below: tuple[MigInstance, ...] = (),
) -> MigInstance:
    at = MigPlacement(start=info.placement.start, size=info.placement.size)
    return MigInstance(
        id=info.id,
        profile_id=info.profileId,
        profile_name=name,
        placement=at,
        profiles=profiles,
        instances=below,
    )
