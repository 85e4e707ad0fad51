"""A GPU or a MIG instance: every metric there is, declared once."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.metric import Group, metric
from gpudash.snapshot.fault import Fault
from gpudash.units import Unit

DeviceState = Literal["ok", "asleep", "lost", "reset-required", "failed"]

_identity = partial(metric, Group.IDENTITY)
_state = partial(metric, Group.STATE)
_memory = partial(metric, Group.MEMORY)
_utilization = partial(metric, Group.UTILIZATION)
_temperature = partial(metric, Group.TEMPERATURE)
_power = partial(metric, Group.POWER)
_clocks = partial(metric, Group.CLOCKS)
_pcie = partial(metric, Group.PCIE)
_nvlink = partial(metric, Group.NVLINK)
_reliability = partial(metric, Group.RELIABILITY)
_settings = partial(metric, Group.SETTINGS)
_mig = partial(metric, Group.MIG)


class Device(Struct, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one, at one instant."""

    # fmt: off
    index: Annotated[int, _identity(Unit.NONE,
        "NVML's index, in PCI order; of a MIG instance its number within the parent.",
        nvml="nvmlDeviceGetIndex")]
    uuid: Annotated[str | None, _identity(Unit.NONE,
        "Identity, stable over reboots; null only if the GPU was lost before it was read.",
        nvml="nvmlDeviceGetUUID")] = None
    parent_uuid: Annotated[str | None, _identity(Unit.NONE,
        "The GPU that a MIG instance is part of, else null.")] = None
    name: Annotated[str | None, _identity(Unit.NONE,
        "Product name.", nvml="nvmlDeviceGetName")] = None
    pci_bus_id: Annotated[str | None, _identity(Unit.NONE,
        "PCI address as domain:bus:device.function.", nvml="nvmlDeviceGetPciInfo")] = None
    minor_number: Annotated[int | None, _identity(Unit.NONE,
        "N of the device node /dev/nvidiaN.", nvml="nvmlDeviceGetMinorNumber")] = None
    serial: Annotated[str | None, _identity(Unit.NONE,
        "Serial number printed on the board; consumer boards have none.",
        nvml="nvmlDeviceGetSerial")] = None
    board_part_number: Annotated[str | None, _identity(Unit.NONE,
        "Part number programmed into the board.", nvml="nvmlDeviceGetBoardPartNumber")] = None
    vbios_version: Annotated[str | None, _identity(Unit.NONE,
        "Version of the VBIOS.", nvml="nvmlDeviceGetVbiosVersion")] = None
    architecture: Annotated[str | None, _identity(Unit.NONE,
        "Chip architecture by name.", nvml="nvmlDeviceGetArchitecture")] = None
    compute_capability: Annotated[str | None, _identity(Unit.NONE,
        "CUDA compute capability as major.minor.",
        nvml="nvmlDeviceGetCudaComputeCapability")] = None
    core_count: Annotated[int | None, _identity(Unit.COUNT,
        "Number of CUDA cores.", nvml="nvmlDeviceGetNumGpuCores")] = None

    state: Annotated[DeviceState, _state(Unit.NONE,
        "ok, asleep (powered down, not woken to be read), lost (off the bus), reset-required, "
        "or failed (its calls fail for another reason).")] = "ok"
    fault: Annotated[Fault | None, _state(Unit.NONE,
        "Why the state is not ok, null if it is or if asleep.")] = None

    memory_total_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Physical device memory.", nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_reserved_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Memory that driver and firmware keep for themselves.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_used_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Allocated memory; without the reserved part where the driver tells it apart.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_free_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Unallocated memory.", nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_unaccounted_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Used memory that no listed process owns: contexts, other namespaces, orphans; null if "
        "the processes, their shares or the reserved part are not known.")] = None
    bar1_total_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Size of the BAR1 window through which CPU and peers reach the memory.",
        nvml="nvmlDeviceGetBAR1MemoryInfo")] = None
    bar1_used_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Mapped part of the BAR1 window.", nvml="nvmlDeviceGetBAR1MemoryInfo")] = None

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

    temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "GPU die.", nvml="nvmlDeviceGetTemperatureV")] = None
    memory_temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Memory, on boards that measure it.", nvml="NVML_FI_DEV_MEMORY_TEMP")] = None
    temperature_margin_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Degrees left before the chip slows itself down (Ada and newer).",
        nvml="nvmlDeviceGetMarginTemperature")] = None
    shutdown_temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Where the GPU turns itself off.", nvml="nvmlDeviceGetTemperatureThreshold")] = None
    slowdown_temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Where hardware slows the clocks down.", nvml="nvmlDeviceGetTemperatureThreshold")] = None
    max_operating_temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Where software starts to slow the clocks down.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    max_memory_temperature_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Highest memory temperature at full speed.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    shutdown_tlimit_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Margin at which the GPU turns itself off (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT")] = None
    slowdown_tlimit_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Margin at which hardware slows the clocks down (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT")] = None
    max_operating_tlimit_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Margin at which software starts to slow the clocks down (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT")] = None
    max_memory_tlimit_celsius: Annotated[int | None, _temperature(Unit.CELSIUS,
        "Margin at which the memory is too warm for full speed (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT")] = None
    fan_speed_percent: Annotated[int | None, _temperature(Unit.PERCENT,
        "Intended speed of the fan, of several the fastest; may exceed 100.",
        nvml="nvmlDeviceGetFanSpeed")] = None
    fan_speeds_percent: Annotated[tuple[int | None, ...] | None, _temperature(Unit.PERCENT,
        "Intended speed of each fan, null for one that fails.",
        nvml="nvmlDeviceGetFanSpeed_v2")] = None

    power_usage_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "Board power as nvidia-smi prints it: an average over 1 s since Ampere, else instant.",
        nvml="nvmlDeviceGetPowerUsage")] = None
    power_instant_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "Board power at this instant.", nvml="NVML_FI_DEV_POWER_INSTANT")] = None
    power_average_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "Board power averaged over 1 s.", nvml="NVML_FI_DEV_POWER_AVERAGE")] = None
    enforced_power_limit_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "The limit in force, the lowest of all that apply.",
        nvml="nvmlDeviceGetEnforcedPowerLimit")] = None
    power_limit_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "The limit that an administrator set.", nvml="nvmlDeviceGetPowerManagementLimit")] = None
    default_power_limit_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "The limit after a reboot.", nvml="nvmlDeviceGetPowerManagementDefaultLimit")] = None
    min_power_limit_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "The lowest limit that can be set.",
        nvml="nvmlDeviceGetPowerManagementLimitConstraints")] = None
    max_power_limit_mw: Annotated[int | None, _power(Unit.MILLIWATT,
        "The highest limit that can be set.",
        nvml="nvmlDeviceGetPowerManagementLimitConstraints")] = None
    total_energy_mj: Annotated[int | None, _power(Unit.MILLIJOULE,
        "Energy since the driver was loaded.", nvml="nvmlDeviceGetTotalEnergyConsumption")] = None

    graphics_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Graphics clock.", nvml="nvmlDeviceGetClockInfo")] = None
    sm_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "SM clock.", nvml="nvmlDeviceGetClockInfo")] = None
    memory_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Memory clock.", nvml="nvmlDeviceGetClockInfo")] = None
    video_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Video encoder and decoder clock.", nvml="nvmlDeviceGetClockInfo")] = None
    max_graphics_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Highest graphics clock.", nvml="nvmlDeviceGetMaxClockInfo")] = None
    max_sm_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Highest SM clock.", nvml="nvmlDeviceGetMaxClockInfo")] = None
    max_memory_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Highest memory clock.", nvml="nvmlDeviceGetMaxClockInfo")] = None
    max_video_clock_mhz: Annotated[int | None, _clocks(Unit.MEGAHERTZ,
        "Highest video clock.", nvml="nvmlDeviceGetMaxClockInfo")] = None
    performance_state: Annotated[int | None, _clocks(Unit.NONE,
        "P-state, 0 the fastest to 15.", nvml="nvmlDeviceGetPerformanceState")] = None
    clocks_event_reasons: Annotated[tuple[str, ...] | None, _clocks(Unit.NONE,
        "Why the clocks are not higher, by name; empty when nothing holds them.",
        nvml="nvmlDeviceGetCurrentClocksEventReasons")] = None

    pcie_link_generation: Annotated[int | None, _pcie(Unit.NONE,
        "PCIe generation now; drops at idle to save power.",
        nvml="nvmlDeviceGetCurrPcieLinkGeneration")] = None
    max_pcie_link_generation: Annotated[int | None, _pcie(Unit.NONE,
        "Highest PCIe generation of GPU and slot together.",
        nvml="nvmlDeviceGetMaxPcieLinkGeneration")] = None
    pcie_link_width: Annotated[int | None, _pcie(Unit.COUNT,
        "PCIe lanes now.", nvml="nvmlDeviceGetCurrPcieLinkWidth")] = None
    max_pcie_link_width: Annotated[int | None, _pcie(Unit.COUNT,
        "Most PCIe lanes of GPU and slot together.", nvml="nvmlDeviceGetMaxPcieLinkWidth")] = None
    pcie_replay_count: Annotated[int | None, _pcie(Unit.COUNT,
        "PCIe packets sent again since the driver was loaded.",
        nvml="nvmlDeviceGetPcieReplayCounter")] = None
    pcie_tx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU sent over PCIe since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_GPM_METRIC_PCIE_TX_PER_SEC")] = None
    pcie_rx_bytes_per_second: Annotated[int | None, _pcie(Unit.BYTE_PER_SECOND,
        "What the GPU received over PCIe since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_GPM_METRIC_PCIE_RX_PER_SEC")] = None

    nvlink_count: Annotated[int | None, _nvlink(Unit.COUNT,
        "NVLinks that are up; null on boards that have none.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_tx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload sent over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC")] = None
    nvlink_rx_bytes_per_second: Annotated[int | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload received over all NVLinks since the last sample; null in a first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC")] = None

    ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC protects the memory.", nvml="nvmlDeviceGetEccMode")] = None
    pending_ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC will protect it after a reboot.", nvml="nvmlDeviceGetEccMode")] = None
    ecc_corrected_volatile_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Corrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_uncorrected_volatile_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_corrected_aggregate_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Corrected memory errors in the life of the board.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    ecc_uncorrected_aggregate_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors in the life of the board.",
        nvml="nvmlDeviceGetTotalEccErrors")] = None
    retired_pages_single_bit_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Pages retired for many corrected errors (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages")] = None
    retired_pages_double_bit_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Pages retired for an uncorrected error (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages")] = None
    retired_pages_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether pages wait for a reboot to be retired.",
        nvml="nvmlDeviceGetRetiredPagesPendingStatus")] = None
    remapped_rows_corrected_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Memory rows replaced for corrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_uncorrected_count: Annotated[int | None, _reliability(Unit.COUNT,
        "Memory rows replaced for uncorrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether rows wait for a GPU reset to be replaced.",
        nvml="nvmlDeviceGetRemappedRows")] = None
    remapped_rows_failed: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether replacing a row has failed: the board is worn out.",
        nvml="nvmlDeviceGetRemappedRows")] = None

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
