"""Fields that only `gpudash -q` prints, and others that are only read on request."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.fields import Celsius, Field, Group, Natural, Seconds, declared_fields, metric
from gpudash.model.records import SampleBuffer
from gpudash.model.units import Unit

_clocks = partial(metric, Group.CLOCKS)
_identity = partial(metric, Group.IDENTITY)
_mig = partial(metric, Group.MIG)
_pcie = partial(metric, Group.PCIE)
_power = partial(metric, Group.POWER)
_reliability = partial(metric, Group.RELIABILITY)
_settings = partial(metric, Group.SETTINGS)
_temperature = partial(metric, Group.TEMPERATURE)
_utilization = partial(metric, Group.UTILIZATION)


class MigPlacement(Struct, frozen=True, kw_only=True):
    """Where an instance lies or can lie: slices of memory, or of the SMs of a GPU instance."""

    start: Natural
    size: Natural


class MigProfile(Struct, frozen=True, kw_only=True):
    """A kind of GPU instances, or of compute instances within one."""

    id: Natural
    name: str
    slice_count: Natural
    total_count: Natural
    free_count: Natural
    placements: tuple[MigPlacement, ...]
    multiprocessor_count: Natural
    copy_engine_count: Natural
    decoder_count: Natural
    encoder_count: Natural
    jpeg_count: Natural
    ofa_count: Natural
    memory_mib: Natural = 0
    """0 for compute instances, which share the memory of their GPU instance."""
    has_p2p: bool = False


class MigInstance(Struct, frozen=True, kw_only=True):
    """A GPU instance, or a compute instance within one."""

    id: Natural
    profile_id: Natural
    profile_name: str
    placement: MigPlacement
    profiles: tuple[MigProfile, ...] = ()
    """The kinds of compute instances of a GPU instance."""
    instances: tuple[MigInstance, ...] = ()
    """The compute instances of a GPU instance, in their order."""


class MigLayout(Struct, frozen=True, kw_only=True):
    """How a GPU in MIG mode is divided, and how it can be."""

    profiles: tuple[MigProfile, ...] | None = None
    """The kinds of GPU instances, the smallest first; None where they could not be read."""
    instances: tuple[MigInstance, ...] | None = None
    """The GPU instances by kind, the smallest first; None where they could not be read."""
    failure: Natural | None = None
    """NVML's return value if something is None."""


class DetailedDevice(Device, frozen=True, kw_only=True):
    """A GPU with what only `gpudash -q` prints: read for that alone, and part of no document."""

    # fmt: off
    product_brand: Annotated[str | None, _identity(Unit.NONE,
        "Line of products: NVIDIA, GeForce, Quadro, Tesla, ...",
        nvml="nvmlDeviceGetBrand")] = None
    multi_gpu_board: Annotated[bool | None, _identity(Unit.NONE,
        "Whether its board has other GPUs, too.",
        nvml="nvmlDeviceGetMultiGpuBoard")] = None
    board_id: Annotated[str | None, _identity(Unit.NONE,
        "Number of the board, equal for the GPUs on it.",
        nvml="nvmlDeviceGetBoardId")] = None
    pdi: Annotated[str | None, _identity(Unit.NONE,
        "Number that the chip was given at its making (driver 580 and newer).",
        nvml="nvmlDeviceGetPdi")] = None
    fbc_session_count: Annotated[Natural | None, _utilization(Unit.COUNT,
        "Sessions that capture the frame buffer.",
        nvml="nvmlDeviceGetFBCStats")] = None
    fbc_frame_rate: Annotated[Natural | None, _utilization(Unit.PER_SECOND,
        "Frames that they capture, their mean.",
        nvml="nvmlDeviceGetFBCStats")] = None
    fbc_latency_microseconds: Annotated[Natural | None, _utilization(Unit.MICROSECOND,
        "Time to capture a frame, their mean.",
        nvml="nvmlDeviceGetFBCStats")] = None
    sample_buffers: Annotated[tuple[SampleBuffer, ...] | None, _utilization(Unit.NONE,
        "What the driver's own samples of the last seconds amount to.",
        nvml="nvmlDeviceGetSamples")] = None
    target_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature that the clocks are lowered to keep.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    min_target_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "The lowest that can be set.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    max_target_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "The highest that can be set.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    memory_power_average_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Power of the memory, averaged over 1 s.",
        nvml="NVML_FI_DEV_POWER_AVERAGE")] = None
    memory_power_instant_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Power of the memory at this instant.",
        nvml="NVML_FI_DEV_POWER_INSTANT")] = None
    max_customer_boost_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Highest graphics clock that can be set.",
        nvml="nvmlDeviceGetClock")] = None
    auto_boost: Annotated[bool | None, _clocks(Unit.NONE,
        "Whether the clocks rise above those of applications where power allows (before Pascal).",
        nvml="nvmlDeviceGetAutoBoostedClocksEnabled")] = None
    default_auto_boost: Annotated[bool | None, _clocks(Unit.NONE,
        "Whether they do unless set otherwise.",
        nvml="nvmlDeviceGetAutoBoostedClocksEnabled")] = None
    pcie_replay_rollover_count: Annotated[Natural | None, _pcie(Unit.COUNT,
        "How often the number of the next PCIe packet began again at zero.",
        nvml="NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER")] = None
    bridge_chip_type: Annotated[str | None, _pcie(Unit.NONE,
        "The board's PCIe bridge: PLX or BR04.",
        nvml="nvmlDeviceGetBridgeChipInfo")] = None
    bridge_chip_firmware: Annotated[str | None, _pcie(Unit.NONE,
        "Version of its firmware.",
        nvml="nvmlDeviceGetBridgeChipInfo")] = None
    channel_repair_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether a channel of the memory waits for its repair.",
        nvml="nvmlDeviceGetRepairStatus")] = None
    tpc_repair_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether a cluster of SMs waits for its repair.",
        nvml="nvmlDeviceGetRepairStatus")] = None
    unrepairable_memory: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether some of the memory cannot be repaired.",
        nvml="nvmlDeviceGetUnrepairableMemoryFlag_v1")] = None
    failed_fields: Annotated[Mapping[str, int] | None, _reliability(Unit.NONE,
        "Fields that are supported and could not be read, with what NVML returned: 0 for an "
        "answer without meaning.")] = None
    inforom_flushed_at: Annotated[Seconds | None, _reliability(Unit.SECOND,
        "Unix time at which its record of errors was last written.",
        nvml="nvmlDeviceGetLastBBXFlushTime")] = None
    inforom_flush_microseconds: Annotated[Natural | None, _reliability(Unit.MICROSECOND,
        "How long that took.",
        nvml="nvmlDeviceGetLastBBXFlushTime")] = None
    egm_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether it reaches the memory of other hosts of the rack (Grace).",
        nvml="nvmlDeviceGetCapabilities")] = None
    virtualization_mode: Annotated[str | None, _settings(Unit.NONE,
        "none, pass-through, vgpu, host-vgpu or host-vsga.",
        nvml="nvmlDeviceGetVirtualizationMode")] = None
    host_vgpu_mode: Annotated[str | None, _settings(Unit.NONE,
        "How it hosts virtual GPUs, sr-iov or non-sr-iov.",
        nvml="nvmlDeviceGetHostVgpuMode")] = None
    mig_layout: Annotated[MigLayout | None, _mig(Unit.NONE,
        "How the GPU is divided into instances, and how it can be.",
        nvml="nvmlDeviceGetGpuInstances")] = None
    copy_engine_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "Copy engines that belong to it.", nvml="nvmlDeviceGetAttributes_v2")] = None
    encoder_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "Video encoders.", nvml="nvmlDeviceGetAttributes_v2")] = None
    decoder_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "Video decoders.", nvml="nvmlDeviceGetAttributes_v2")] = None
    ofa_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "Optical flow accelerators.", nvml="nvmlDeviceGetAttributes_v2")] = None
    jpeg_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "JPEG decoders.", nvml="nvmlDeviceGetAttributes_v2")] = None
    sram_uncorrected_volatile_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "Uncorrected errors in its SRAM since the driver was loaded.",
        nvml="nvmlDeviceGetMemoryErrorCounter", counter=True)] = None
    # fmt: on


ON_REQUEST = frozenset(DetailedDevice.__struct_fields__).difference(Device.__struct_fields__) | {
    "supported_clocks",
    "nvlinks",
    "inforom_valid",
}
"""Fields that are only read if requested by name."""


@cache
def detailed_fields() -> Mapping[str, Field]:
    """Return the declarations of its fields by name."""
    return {field.name: field for field in declared_fields(DetailedDevice)}
