"""How busy a device is, by the driver's sampling and by its performance monitoring."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.identity import DeviceIdentity
from gpudash.model.units import Unit

UtilizationSource = Literal["gpm", "kernel-time"]

_utilization = partial(metric, Group.UTILIZATION)


class DeviceActivity(DeviceIdentity, frozen=True, kw_only=True):
    """The part of a Device that tells what its engines do."""

    # fmt: off
    utilization_source: Annotated[UtilizationSource | None, _utilization(Unit.NONE,
        "What says how busy it is: gpm, sm_active_percent as the SMs counted it (Hopper and "
        "newer), else kernel-time, gpu_utilization_percent.")] = None
    gpu_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "Share of the last sample period in which at least one kernel ran; 100 % may be one "
        "block on one SM.", nvml="nvmlDeviceGetUtilizationRates")] = None
    memory_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "Share of the last sample period in which memory was read or written: bandwidth, not "
        "space.", nvml="nvmlDeviceGetUtilizationRates")] = None
    encoder_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "Video encoder.", nvml="nvmlDeviceGetEncoderUtilization")] = None
    decoder_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "Video decoder.", nvml="nvmlDeviceGetDecoderUtilization")] = None
    jpeg_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "JPEG decoder.", nvml="nvmlDeviceGetJpgUtilization")] = None
    ofa_utilization_percent: Annotated[int | None, _utilization(Unit.PERCENT,
        "Optical flow accelerator.", nvml="nvmlDeviceGetOfaUtilization")] = None
    sm_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Share of the SMs that had work, averaged since the last sample (Hopper and newer).",
        nvml="NVML_GPM_METRIC_SM_UTIL")] = None
    sm_occupancy_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Warps on the SMs of the most that fit (Hopper and newer).",
        nvml="NVML_GPM_METRIC_SM_OCCUPANCY")] = None
    tensor_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Time in which the tensor cores worked (Hopper and newer).",
        nvml="NVML_GPM_METRIC_ANY_TENSOR_UTIL")] = None
    dram_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Memory bandwidth used of the highest possible (Hopper and newer).",
        nvml="NVML_GPM_METRIC_DRAM_BW_UTIL")] = None
    fp64_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Time in which the 64-bit floating point pipe worked (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP64_UTIL")] = None
    fp32_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Time in which the 32-bit floating point pipe worked (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP32_UTIL")] = None
    fp16_active_percent: Annotated[float | None, _utilization(Unit.PERCENT,
        "Time in which the 16-bit floating point pipe worked (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP16_UTIL")] = None
    # fmt: on
