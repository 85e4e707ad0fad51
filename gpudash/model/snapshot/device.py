"""A GPU or a MIG instance: every metric there is, declared once.

A Struct has one line of ancestors, so the parts of a device follow one another in the order of
the document.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.reliability import DeviceReliability
from gpudash.model.units import Unit

_settings = partial(metric, Group.SETTINGS)
_mig = partial(metric, Group.MIG)


class Device(DeviceReliability, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one, at one instant."""

    # fmt: off
    compute_mode: Annotated[str | None, _settings(Unit.NONE,
        "default, exclusive-thread, prohibited or exclusive-process.",
        nvml="nvmlDeviceGetComputeMode")] = None
    persistence_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the driver keeps the GPU ready when nobody uses it.",
        nvml="nvmlDeviceGetPersistenceMode")] = None
    display_active: Annotated[bool | None, _settings(Unit.NONE,
        "Whether a display is driven from this GPU.", nvml="nvmlDeviceGetDisplayActive")] = None
    display_attached: Annotated[bool | None, _settings(Unit.NONE,
        "Whether a monitor is plugged in.", nvml="nvmlDeviceGetDisplayMode")] = None
    driver_model: Annotated[str | None, _settings(Unit.NONE,
        "WDDM, TCC or MCDM; Windows only.", nvml="nvmlDeviceGetDriverModel")] = None

    mig_mode: Annotated[bool | None, _mig(Unit.NONE,
        "Whether the GPU is split into MIG instances.", nvml="nvmlDeviceGetMigMode")] = None
    pending_mig_mode: Annotated[bool | None, _mig(Unit.NONE,
        "MIG mode after the next reset.", nvml="nvmlDeviceGetMigMode")] = None
    gpu_instance_id: Annotated[int | None, _mig(Unit.NONE,
        "GPU instance of this MIG device.", nvml="nvmlDeviceGetGpuInstanceId")] = None
    compute_instance_id: Annotated[int | None, _mig(Unit.NONE,
        "Compute instance of this MIG device.", nvml="nvmlDeviceGetComputeInstanceId")] = None
    multiprocessor_count: Annotated[int | None, _mig(Unit.COUNT,
        "SMs that belong to this MIG device.", nvml="nvmlDeviceGetAttributes_v2")] = None
    # fmt: on

    @property
    def key(self) -> str:
        """Identity within a host: the UUID, or the index of a GPU lost before it could tell."""
        return self.uuid or f"#{self.index}"

    @property
    def is_mig(self) -> bool:
        """Whether this is a MIG instance of another device."""
        return self.parent_uuid is not None
