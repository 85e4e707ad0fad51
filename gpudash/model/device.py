"""A GPU or a MIG instance: every metric, declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudash.model.fault import Fault, XidEvent
from gpudash.model.fields import (
    Amount,
    Celsius,
    Field,
    Group,
    Index,
    Natural,
    Seconds,
    declared_fields,
    metric,
)
from gpudash.model.process import LastRead
from gpudash.model.records import (
    AccountedProcess,
    Banks,
    EccLocation,
    NvLink,
    RetiredPage,
    SramErrors,
    SupportedClocks,
)
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

DeviceState = Literal[
    "ok", "asleep", "resting", "not-answering", "lost", "reset-required", "failed"
]
UtilizationSource = Literal["gpm", "kernel-time"]

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


# fmt: off
_GPU_UTILIZATION = _utilization(Unit.PERCENT,
    "Share of the last sample period in which at least one kernel ran; 100% may be one "
    "block on one SM.", nvml="nvmlDeviceGetUtilizationRates",
    chart=True, smi="utilization.gpu",
    dcgm="DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO")
# fmt: on
"""An integer on one host; exporters have fractions."""

STATUS = _state(
    Unit.NONE,
    "What it does, as the header counts it: busy, held-idle, in-use, leased, free, drained, "
    "divided, mig-empty, hot, slow, unusable, unknown, or its state if that is not ok; null in a "
    "brief document.",
)
"""Unknown in a brief document, always known among many hosts."""


class AnyDevice(Struct, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one: the fields known on one host and among many alike.

    A field moved here from `Device` is also one of `FleetDevice`.
    """

    # fmt: off
    index: Annotated[Index, _identity(Unit.NONE,
        "NVML's index, in PCI order; of a MIG instance its number within the parent.",
        nvml="nvmlDeviceGetIndex", smi="index")]
    label: Annotated[SafeText | None, _identity(Unit.NONE,
        "What it is called everywhere, unlike any other of its host: 0, of a MIG instance 0:1.")
        ] = None
    uuid: Annotated[SafeText | None, _identity(Unit.NONE,
        "Identity, stable over reboots; null only if the GPU was lost before it was read.",
        nvml="nvmlDeviceGetUUID", smi="uuid gpu_uuid")] = None
    parent_uuid: Annotated[SafeText | None, _identity(Unit.NONE,
        "UUID of the GPU that a MIG instance belongs to, null for a GPU.")] = None
    name: Annotated[SafeText | None, _identity(Unit.NONE,
        "Product name.", nvml="nvmlDeviceGetName", smi="name gpu_name")] = None
    state: Annotated[DeviceState, _state(Unit.NONE,
        "ok, asleep (powered down, not woken to be read), resting (left alone so that it can fall "
        "asleep), not-answering (a call to it has not returned), lost (off the bus), "
        "reset-required, or failed (its calls fail for another reason).")] = "ok"
    idle_seconds: Annotated[Seconds | None, _state(Unit.SECOND,
        "How long it has not computed, or been held without computing, at least; null while it "
        "computes or where that is not known.")] = None
    gpu_utilization_percent: Annotated[Amount | None, _GPU_UTILIZATION] = None
    sm_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of the SMs that were active, averaged since the last sample (Hopper and newer).",
        nvml="NVML_GPM_METRIC_SM_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_SM_ACTIVE DCGM_FI_PROF_SM_UTIL_RATIO")] = None
    tensor_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of time in which the tensor cores were active (Hopper and newer).",
        nvml="NVML_GPM_METRIC_ANY_TENSOR_UTIL",
        chart=True, dcgm="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_TENSOR_UTIL_RATIO")] = None
    dram_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of the peak memory bandwidth in use (Hopper and newer).",
        nvml="NVML_GPM_METRIC_DRAM_BW_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO")] = None
    memory_used_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Allocated memory; without the reserved part where the driver reports it.",
        nvml="nvmlDeviceGetMemoryInfo_v2",
        chart=True, limit="memory_total_bytes", smi="memory.used",
        dcgm="DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_USED_BYTES")] = None
    memory_total_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Physical device memory.", nvml="nvmlDeviceGetMemoryInfo_v2", smi="memory.total",
        dcgm="DCGM_FI_DEV_FB_TOTAL DCGM_FI_DEV_FB_CAPACITY_BYTES")] = None
    temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature of the GPU die.", nvml="nvmlDeviceGetTemperatureV",
        chart=True, limit="shutdown_temperature_celsius", smi="temperature.gpu",
        dcgm="DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS")] = None
    power_usage_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Board power as nvidia-smi prints it: an average over 1 s since Ampere, else instant.",
        nvml="nvmlDeviceGetPowerUsage",
        chart=True, limit="enforced_power_limit_mw", smi="power.draw",
        dcgm="DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS")] = None
    enforced_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The limit in force, the lowest of all that apply.",
        nvml="nvmlDeviceGetEnforcedPowerLimit",
        smi="enforced.power.limit gpu.power.current_limit")] = None
    sm_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "SM clock.", nvml="nvmlDeviceGetClockInfo",
        chart=True, limit="max_sm_clock_mhz", smi="clocks.current.sm clocks.sm",
        dcgm="DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_SM_CLOCK_HERTZ")] = None
    # fmt: on

    @property
    def key(self) -> str:
        """Identity within a host: the UUID, or the index of a GPU lost before it was read."""
        return self.uuid or f"#{self.index}"

    @property
    def is_mig(self) -> bool:
        """Whether this is a MIG instance of another device."""
        return self.parent_uuid is not None


class Device(AnyDevice, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one, at one instant."""

    # fmt: off
    pci_bus_id: Annotated[SafeText | None, _identity(Unit.NONE,
        "PCI address as domain:bus:device.function.", nvml="nvmlDeviceGetPciInfo",
        smi="pci.bus_id gpu_bus_id")] = None
    pci_device_id: Annotated[str | None, _identity(Unit.NONE,
        "PCI ids of device and vendor: 0x20B210DE.", nvml="nvmlDeviceGetPciInfo",
        smi="pci.device_id")] = None
    pci_subsystem_id: Annotated[str | None, _identity(Unit.NONE,
        "PCI ids of the board and its vendor.", nvml="nvmlDeviceGetPciInfo",
        smi="pci.sub_device_id")] = None
    pci_base_class: Annotated[str | None, _identity(Unit.NONE,
        "PCI base class: 0x3 for a display controller.", nvml="nvmlDeviceGetPciInfoExt",
        smi="pci.baseClass")] = None
    pci_sub_class: Annotated[str | None, _identity(Unit.NONE,
        "PCI subclass: 0x0 with a display output, 0x2 without.", nvml="nvmlDeviceGetPciInfoExt",
        smi="pci.subClass")] = None
    module_id: Annotated[Index | None, _identity(Unit.NONE,
        "Number of its module on the baseboard, not in PCI order.",
        nvml="nvmlDeviceGetModuleId", smi="platform.module_id")] = None
    chassis_serial: Annotated[SafeText | None, _identity(Unit.NONE,
        "Serial number of the rack that it is in (Grace Blackwell and newer).",
        nvml="nvmlDeviceGetPlatformInfo", smi="platform.chassis_serial_number")] = None
    chassis_slot_number: Annotated[Index | None, _identity(Unit.NONE,
        "Slot of the rack, switches counted.",
        nvml="nvmlDeviceGetPlatformInfo", smi="platform.slot_number")] = None
    chassis_tray_index: Annotated[Index | None, _identity(Unit.NONE,
        "Compute tray of the rack, switches not counted.",
        nvml="nvmlDeviceGetPlatformInfo", smi="platform.tray_index")] = None
    chassis_host_id: Annotated[Index | None, _identity(Unit.NONE,
        "Number of the host within the slot.",
        nvml="nvmlDeviceGetPlatformInfo", smi="platform.host_id")] = None
    chassis_peer_type: Annotated[str | None, _identity(Unit.NONE,
        "How it reaches other GPUs over NVLink: direct-connected or switch-connected.",
        nvml="nvmlDeviceGetPlatformInfo", smi="platform.peer_type")] = None
    minor_number: Annotated[Index | None, _identity(Unit.NONE,
        "N of the device node /dev/nvidiaN.", nvml="nvmlDeviceGetMinorNumber")] = None
    serial: Annotated[SafeText | None, _identity(Unit.NONE,
        "Serial number printed on the board; consumer boards have none.",
        nvml="nvmlDeviceGetSerial", smi="serial gpu_serial")] = None
    board_part_number: Annotated[SafeText | None, _identity(Unit.NONE,
        "Part number programmed into the board.", nvml="nvmlDeviceGetBoardPartNumber")] = None
    vbios_version: Annotated[SafeText | None, _identity(Unit.NONE,
        "Version of the VBIOS.", nvml="nvmlDeviceGetVbiosVersion", smi="vbios_version")] = None
    gsp_firmware_version: Annotated[SafeText | None, _identity(Unit.NONE,
        "Version of the firmware of the GPU's own processor, the GSP; null where it is not used.",
        nvml="nvmlDeviceGetGspFirmwareVersion")] = None
    architecture: Annotated[str | None, _identity(Unit.NONE,
        "Chip architecture by name.", nvml="nvmlDeviceGetArchitecture")] = None
    compute_capability: Annotated[str | None, _identity(Unit.NONE,
        "CUDA compute capability as major.minor.",
        nvml="nvmlDeviceGetCudaComputeCapability", smi="compute_cap")] = None
    core_count: Annotated[Natural | None, _identity(Unit.COUNT,
        "Number of CUDA cores.", nvml="nvmlDeviceGetNumGpuCores")] = None

    fault: Annotated[Fault | None, _state(Unit.NONE,
        "Why the state is not ok, null if it is or if asleep.")] = None
    status: Annotated[str | None, STATUS] = None
    last_read: Annotated[LastRead | None, _state(Unit.NONE,
        "Of a GPU that does not answer, its memory and processes when it last did; null "
        "otherwise.")] = None

    memory_reserved_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Memory reserved by driver and firmware.",
        nvml="nvmlDeviceGetMemoryInfo_v2",
        smi="memory.reserved", dcgm="DCGM_FI_DEV_FB_RESERVED DCGM_FI_DEV_FB_RESERVED_BYTES")] = None
    memory_free_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Unallocated memory.", nvml="nvmlDeviceGetMemoryInfo_v2",
        smi="memory.free", dcgm="DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_FB_FREE_BYTES")] = None
    memory_unaccounted_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Used memory that no listed process owns: contexts, other namespaces, orphans; null if "
        "the processes, their shares or the reserved part are not known.",
        chart=True, limit="memory_total_bytes")] = None
    bar1_total_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Size of the BAR1 window through which CPU and peers reach the memory.",
        nvml="nvmlDeviceGetBAR1MemoryInfo")] = None
    bar1_used_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Mapped part of the BAR1 window.", nvml="nvmlDeviceGetBAR1MemoryInfo",
        chart=True, limit="bar1_total_bytes")] = None
    unified_memory: Annotated[bool | None, _memory(Unit.NONE,
        "Whether GPU and CPUs share one memory (Jetson, GB10): its sizes are then the host's.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    addressing_mode: Annotated[str | None, _memory(Unit.NONE,
        "How the GPU reaches what programs allocate on the host: none, hmm or ats.",
        nvml="nvmlDeviceGetAddressingMode", smi="addressing_mode")] = None
    c2c_mode: Annotated[bool | None, _memory(Unit.NONE,
        "Whether the link to a Grace CPU is in use.", nvml="nvmlDeviceGetC2cModeInfoV",
        smi="c2c.mode")] = None
    protected_memory_total_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Memory that confidential computing protects.",
        nvml="nvmlDeviceGetConfComputeProtectedMemoryUsage", smi="protected_memory.total")] = None
    protected_memory_used_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Allocated part of it.",
        nvml="nvmlDeviceGetConfComputeProtectedMemoryUsage", smi="protected_memory.used")] = None
    protected_memory_free_bytes: Annotated[Natural | None, _memory(Unit.BYTE,
        "Unallocated part of it.",
        nvml="nvmlDeviceGetConfComputeProtectedMemoryUsage", smi="protected_memory.free")] = None
    holder_pids: Annotated[tuple[Index, ...] | None, _memory(Unit.NONE,
        "Processes that have its node open although the driver lists them on no GPU, 64 at most, "
        "of each user in turn; searched only while much of its memory is unaccounted for, or a "
        "process that has exited holds some.")] = None
    holder_count: Annotated[Natural | None, _memory(Unit.COUNT,
        "How many such processes there are, at most: some may have ended by now.")] = None
    holders_complete: Annotated[bool | None, _memory(Unit.NONE,
        "Whether all processes of the host could be searched for holders, which takes root "
        "outside of containers.")] = None

    gpu_utilization_percent: Annotated[Natural | None, _GPU_UTILIZATION] = None
    utilization_source: Annotated[UtilizationSource | None, _utilization(Unit.NONE,
        "Measure of how busy it is: gpm, SM active as the SMs counted it (Hopper and newer), else "
        "kernel-time, GPU utilization.")] = None
    memory_utilization_percent: Annotated[Natural | None, _utilization(Unit.PERCENT,
        "Share of the last sample period in which memory was read or written: bandwidth, not "
        "space.", nvml="nvmlDeviceGetUtilizationRates",
        chart=True, smi="utilization.memory",
        dcgm="DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_MEMORY_UTIL_RATIO")] = None
    encoder_utilization_percent: Annotated[Natural | None, _utilization(Unit.PERCENT,
        "Utilization of the video encoder.", nvml="nvmlDeviceGetEncoderUtilization",
        chart=True, smi="utilization.encoder",
        dcgm="DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_ENC_UTIL_RATIO")] = None
    decoder_utilization_percent: Annotated[Natural | None, _utilization(Unit.PERCENT,
        "Utilization of the video decoder.", nvml="nvmlDeviceGetDecoderUtilization",
        chart=True, smi="utilization.decoder",
        dcgm="DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_DEC_UTIL_RATIO")] = None
    jpeg_utilization_percent: Annotated[Natural | None, _utilization(Unit.PERCENT,
        "Utilization of the JPEG decoder.",
        nvml="nvmlDeviceGetJpgUtilization", smi="utilization.jpeg")] = None
    ofa_utilization_percent: Annotated[Natural | None, _utilization(Unit.PERCENT,
        "Utilization of the optical flow accelerator.", nvml="nvmlDeviceGetOfaUtilization",
        smi="utilization.ofa")] = None
    encoder_session_count: Annotated[Natural | None, _utilization(Unit.COUNT,
        "Sessions that encode video.", nvml="nvmlDeviceGetEncoderStats",
        smi="encoder.stats.sessionCount")] = None
    encoder_frame_rate: Annotated[Natural | None, _utilization(Unit.PER_SECOND,
        "Frames that they encode, their mean.", nvml="nvmlDeviceGetEncoderStats",
        smi="encoder.stats.averageFps")] = None
    encoder_latency_microseconds: Annotated[Natural | None, _utilization(Unit.MICROSECOND,
        "Time to encode a frame, their mean.", nvml="nvmlDeviceGetEncoderStats",
        smi="encoder.stats.averageLatency")] = None
    graphics_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of time in which any engine for graphics or compute was busy.",
        nvml="NVML_GPM_METRIC_GRAPHICS_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO")] = None
    sm_occupancy_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Resident warps on the SMs, as a share of the maximum (Hopper and newer).",
        nvml="NVML_GPM_METRIC_SM_OCCUPANCY", chart=True,
        dcgm="DCGM_FI_PROF_SM_OCCUPANCY DCGM_FI_PROF_SM_OCCUPANCY_RATIO")] = None
    fp64_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of time in which the FP64 pipe was active (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP64_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_PIPE_FP64_ACTIVE DCGM_FI_PROF_FP64_UTIL_RATIO")] = None
    fp32_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of time in which the FP32 pipe was active (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP32_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_PIPE_FP32_ACTIVE DCGM_FI_PROF_FP32_UTIL_RATIO")] = None
    fp16_active_percent: Annotated[Amount | None, _utilization(Unit.PERCENT,
        "Share of time in which the FP16 pipe was active (Hopper and newer).",
        nvml="NVML_GPM_METRIC_FP16_UTIL", chart=True,
        dcgm="DCGM_FI_PROF_PIPE_FP16_ACTIVE DCGM_FI_PROF_FP16_UTIL_RATIO")] = None

    memory_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature of the memory, on boards that measure it.", nvml="NVML_FI_DEV_MEMORY_TEMP",
        chart=True, limit="max_memory_temperature_celsius", smi="temperature.memory",
        dcgm="DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_MEMORY_TEMP_CELSIUS")] = None
    temperature_margin_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Degrees left before the chip slows itself down (Ada and newer).",
        nvml="nvmlDeviceGetMarginTemperature", smi="temperature.gpu.tlimit")] = None
    shutdown_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature at which the GPU shuts down.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    slowdown_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature at which hardware lowers the clocks.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    max_operating_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Temperature at which software starts to lower the clocks.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    max_memory_temperature_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Highest memory temperature at full speed.",
        nvml="nvmlDeviceGetTemperatureThreshold")] = None
    shutdown_tlimit_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Margin at which the GPU shuts down (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT")] = None
    slowdown_tlimit_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Margin at which hardware lowers the clocks (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT")] = None
    max_operating_tlimit_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Margin at which software starts to lower the clocks (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT")] = None
    max_memory_tlimit_celsius: Annotated[Celsius | None, _temperature(Unit.CELSIUS,
        "Margin at which the memory is too warm for full speed (Ada and newer).",
        nvml="NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT")] = None
    fan_speed_percent: Annotated[Natural | None, _temperature(Unit.PERCENT,
        "Intended fan speed, the fastest of several; may exceed 100.",
        nvml="nvmlDeviceGetFanSpeed", chart=True, smi="fan.speed")] = None
    fan_speeds_percent: Annotated[tuple[Natural | None, ...] | None, _temperature(Unit.PERCENT,
        "Intended speed of each fan, null for one that fails.",
        nvml="nvmlDeviceGetFanSpeed_v2")] = None

    power_instant_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Board power at this instant.", nvml="NVML_FI_DEV_POWER_INSTANT",
        chart=True, limit="enforced_power_limit_mw",
        smi="power.draw.instant gpu.power.draw.instant")] = None
    power_average_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Board power averaged over 1 s.", nvml="NVML_FI_DEV_POWER_AVERAGE",
        smi="power.draw.average gpu.power.draw.average")] = None
    power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The limit that an administrator set.", nvml="nvmlDeviceGetPowerManagementLimit",
        smi="power.limit gpu.power.requested_limit")] = None
    default_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The limit after a reboot.", nvml="nvmlDeviceGetPowerManagementDefaultLimit",
        smi="power.default_limit gpu.power.default_limit")] = None
    min_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The lowest limit that can be set.",
        nvml="nvmlDeviceGetPowerManagementLimitConstraints",
        smi="power.min_limit gpu.power.min_limit")] = None
    max_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The highest limit that can be set.",
        nvml="nvmlDeviceGetPowerManagementLimitConstraints",
        smi="power.max_limit gpu.power.max_limit")] = None
    module_power_average_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Power of the whole module, GPU and Grace CPU, averaged over 1 s; null on other boards.",
        nvml="NVML_FI_DEV_POWER_AVERAGE", smi="module.power.draw.average")] = None
    module_power_instant_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "Power of the module at this instant.",
        nvml="NVML_FI_DEV_POWER_INSTANT", smi="module.power.draw.instant")] = None
    module_enforced_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The module's limit in force.",
        nvml="NVML_FI_DEV_POWER_CURRENT_LIMIT",
        smi="module.enforced.power.limit module.power.current_limit")] = None
    module_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The module's limit that an administrator set.",
        nvml="NVML_FI_DEV_POWER_REQUESTED_LIMIT",
        smi="module.power.limit module.power.requested_limit")] = None
    module_default_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The module's limit after a reboot.",
        nvml="NVML_FI_DEV_POWER_DEFAULT_LIMIT", smi="module.power.default_limit")] = None
    module_min_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The module's lowest limit that can be set.",
        nvml="NVML_FI_DEV_POWER_MIN_LIMIT", smi="module.power.min_limit")] = None
    module_max_power_limit_mw: Annotated[Natural | None, _power(Unit.MILLIWATT,
        "The module's highest limit that can be set.",
        nvml="NVML_FI_DEV_POWER_MAX_LIMIT", smi="module.power.max_limit")] = None
    total_energy_mj: Annotated[Natural | None, _power(Unit.MILLIJOULE,
        "Energy since the driver was loaded.", nvml="nvmlDeviceGetTotalEnergyConsumption",
        counter=True,
        dcgm="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL")] = None

    graphics_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Graphics clock.", nvml="nvmlDeviceGetClockInfo",
        chart=True, limit="max_graphics_clock_mhz", smi="clocks.current.graphics clocks.gr")] = None
    memory_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Memory clock.", nvml="nvmlDeviceGetClockInfo",
        chart=True, limit="max_memory_clock_mhz", smi="clocks.current.memory clocks.mem",
        dcgm="DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEMORY_CLOCK_HERTZ")] = None
    video_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Video encoder and decoder clock.", nvml="nvmlDeviceGetClockInfo",
        chart=True, limit="max_video_clock_mhz", smi="clocks.current.video clocks.video")] = None
    max_graphics_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Highest graphics clock.", nvml="nvmlDeviceGetMaxClockInfo",
        smi="clocks.max.graphics clocks.max.gr")] = None
    max_sm_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Highest SM clock.", nvml="nvmlDeviceGetMaxClockInfo", smi="clocks.max.sm")] = None
    max_memory_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Highest memory clock.", nvml="nvmlDeviceGetMaxClockInfo",
        smi="clocks.max.memory clocks.max.mem")] = None
    max_video_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Highest video clock.", nvml="nvmlDeviceGetMaxClockInfo")] = None
    applications_graphics_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Graphics clock that applications are to run at.", nvml="nvmlDeviceGetApplicationsClock",
        smi="clocks.applications.graphics clocks.applications.gr")] = None
    applications_memory_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Memory clock that applications are to run at.", nvml="nvmlDeviceGetApplicationsClock",
        smi="clocks.applications.memory clocks.applications.mem")] = None
    default_applications_graphics_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Graphics clock of applications unless another is set.",
        nvml="nvmlDeviceGetDefaultApplicationsClock",
        smi="clocks.default_applications.graphics clocks.default_applications.gr")] = None
    default_applications_memory_clock_mhz: Annotated[Natural | None, _clocks(Unit.MEGAHERTZ,
        "Memory clock of applications unless another is set.",
        nvml="nvmlDeviceGetDefaultApplicationsClock",
        smi="clocks.default_applications.memory clocks.default_applications.mem")] = None
    supported_clocks: Annotated[tuple[SupportedClocks, ...] | None, _clocks(Unit.NONE,
        "The clocks that can be set; read only where they are asked for by name.",
        nvml="nvmlDeviceGetSupportedGraphicsClocks")] = None
    performance_state: Annotated[Index | None, _clocks(Unit.NONE,
        "P-state, 0 the fastest to 15.", nvml="nvmlDeviceGetPerformanceState",
        chart=True, limit=15, smi="pstate")] = None
    clocks_event_reasons: Annotated[tuple[str, ...] | None, _clocks(Unit.NONE,
        "Why the clocks are not higher, by name; empty when nothing limits them.",
        nvml="nvmlDeviceGetCurrentClocksEventReasons")] = None
    supported_clocks_event_reasons: Annotated[tuple[str, ...] | None, _clocks(Unit.NONE,
        "The reasons that this GPU can report.",
        nvml="nvmlDeviceGetSupportedClocksEventReasons")] = None
    throttled_sw_power_cap_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the power limit reduced the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP", chart=True)] = None
    throttled_sw_thermal_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which software reduced the clocks because of heat.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", chart=True)] = None
    throttled_hw_thermal_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which hardware reduced the clocks because of heat.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", chart=True)] = None
    throttled_hw_power_brake_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the power brake of the server reduced the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", chart=True)] = None
    throttled_thermal_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which a thermal limit of any kind reduced the clocks.",
        nvml="NVML_FI_DEV_PERF_POLICY_THERMAL")] = None
    throttled_sync_boost_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the slowest GPU of its group reduced the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST")] = None
    throttled_board_limit_percent: Annotated[Amount | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which a limit of the board reduced the clocks.",
        nvml="NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT")] = None
    sw_power_cap_seconds: Annotated[Amount | None, _clocks(Unit.SECOND,
        "How long the power limit has reduced the clocks since the driver was loaded.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP", counter=True,
        smi="clocks_event_reasons_counters.sw_power_cap")] = None
    sync_boost_seconds: Annotated[Amount | None, _clocks(Unit.SECOND,
        "How long the slowest GPU of its group has reduced the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST", counter=True,
        smi="clocks_event_reasons_counters.sync_boost")] = None
    sw_thermal_slowdown_seconds: Annotated[Amount | None, _clocks(Unit.SECOND,
        "How long software has reduced the clocks because of heat.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN", counter=True,
        smi="clocks_event_reasons_counters.sw_thermal_slowdown")] = None
    hw_thermal_slowdown_seconds: Annotated[Amount | None, _clocks(Unit.SECOND,
        "How long hardware has reduced the clocks because of heat.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN", counter=True,
        smi="clocks_event_reasons_counters.hw_thermal_slowdown")] = None
    hw_power_brake_seconds: Annotated[Amount | None, _clocks(Unit.SECOND,
        "How long the power brake of the server has reduced the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN", counter=True,
        smi="clocks_event_reasons_counters.hw_power_brake_slowdown")] = None

    pcie_link_generation: Annotated[Index | None, _pcie(Unit.NONE,
        "Current PCIe generation; drops at idle to save power.",
        nvml="nvmlDeviceGetCurrPcieLinkGeneration",
        chart=True, limit="max_pcie_link_generation", smi="pcie.link.gen.current")] = None
    max_pcie_link_generation: Annotated[Index | None, _pcie(Unit.NONE,
        "Highest PCIe generation that GPU and slot both support.",
        nvml="nvmlDeviceGetMaxPcieLinkGeneration", smi="pcie.link.gen.max")] = None
    max_gpu_pcie_link_generation: Annotated[Index | None, _pcie(Unit.NONE,
        "Highest PCIe generation that the GPU supports in any slot.",
        nvml="nvmlDeviceGetGpuMaxPcieLinkGeneration", smi="pcie.link.gen.gpumax")] = None
    pcie_link_width: Annotated[Natural | None, _pcie(Unit.COUNT,
        "Current number of PCIe lanes.", nvml="nvmlDeviceGetCurrPcieLinkWidth",
        smi="pcie.link.width.current")] = None
    max_pcie_link_width: Annotated[Natural | None, _pcie(Unit.COUNT,
        "Highest number of PCIe lanes that GPU and slot both support.",
        nvml="nvmlDeviceGetMaxPcieLinkWidth",
        smi="pcie.link.width.max")] = None
    pcie_replay_count: Annotated[Natural | None, _pcie(Unit.COUNT,
        "PCIe packets retransmitted since the driver was loaded.",
        nvml="nvmlDeviceGetPcieReplayCounter",
        counter=True, dcgm="DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_PCIE_REPLAY_TOTAL")] = None
    pcie_replays_per_second: Annotated[Amount | None, _pcie(Unit.PER_SECOND,
        "PCIe packets retransmitted over the last seconds.",
        nvml="nvmlDeviceGetPcieReplayCounter", label="PCIe replay rate")] = None
    pcie_tx_bytes_per_second: Annotated[Natural | None, _pcie(Unit.BYTE_PER_SECOND,
        "Data that the GPU sent over PCIe since the last sample; null in the first one, or where "
        "a 32-bit counter may have wrapped more than once.",
        nvml="NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_GPM_METRIC_PCIE_TX_PER_SEC, "
        "nvmlDeviceGetPcieThroughput", chart=True, dcgm="DCGM_FI_PROF_PCIE_TX_BYTES")] = None
    pcie_rx_bytes_per_second: Annotated[Natural | None, _pcie(Unit.BYTE_PER_SECOND,
        "Data that the GPU received over PCIe since the last sample; null in the first one, or "
        "where a 32-bit counter may have wrapped more than once.",
        nvml="NVML_FI_DEV_PCIE_COUNT_RX_BYTES, NVML_GPM_METRIC_PCIE_RX_PER_SEC, "
        "nvmlDeviceGetPcieThroughput", chart=True, dcgm="DCGM_FI_PROF_PCIE_RX_BYTES")] = None

    nvlink_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "NVLinks that are up; null on boards that have none.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_total_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "NVLinks that the GPU has, up or not; boards may leave some unused.",
        nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_inactive_links: Annotated[tuple[Index, ...] | None, _nvlink(Unit.NONE,
        "Numbers of the NVLinks that are not up.", nvml="nvmlDeviceGetNvLinkState")] = None
    nvlink_version: Annotated[str | None, _nvlink(Unit.NONE,
        "Version of NVLink, 4.0 on Hopper.", nvml="nvmlDeviceGetNvLinkVersion")] = None
    nvlinks: Annotated[tuple[NvLink, ...] | None, _nvlink(Unit.NONE,
        "Each NVLink by itself; read only by `gpudash nvlink`.", label="Each NVLink",
        nvml="nvmlDeviceGetFieldValues, nvmlDeviceGetNvLinkCapability")] = None
    nvlink_tx_bytes_per_second: Annotated[Natural | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload sent over all NVLinks since the last sample; null in the first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC", chart=True,
        dcgm="DCGM_FI_PROF_NVLINK_TX_BYTES")] = None
    nvlink_rx_bytes_per_second: Annotated[Natural | None, _nvlink(Unit.BYTE_PER_SECOND,
        "Payload received over all NVLinks since the last sample; null in the first one.",
        nvml="NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC", chart=True,
        dcgm="DCGM_FI_PROF_NVLINK_RX_BYTES")] = None
    nvlink_crc_error_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Packets that arrived damaged since the driver was loaded, over all NVLinks that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "
        "nvmlDeviceGetNvLinkErrorCounter", counter=True)] = None
    nvlink_crc_errors_per_second: Annotated[Amount | None, _nvlink(Unit.PER_SECOND,
        "Packets that arrived damaged over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "
        "nvmlDeviceGetNvLinkErrorCounter", label="NVLink CRC error rate")] = None
    nvlink_replay_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Packets retransmitted since the driver was loaded, over all NVLinks that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "
        "nvmlDeviceGetNvLinkErrorCounter", counter=True)] = None
    nvlink_replays_per_second: Annotated[Amount | None, _nvlink(Unit.PER_SECOND,
        "Packets retransmitted over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "
        "nvmlDeviceGetNvLinkErrorCounter", label="NVLink replay rate")] = None
    nvlink_recovery_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Times that an NVLink was retrained since the driver was loaded, over all that are up.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "
        "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "
        "nvmlDeviceGetNvLinkErrorCounter", counter=True)] = None
    nvlink_recoveries_per_second: Annotated[Amount | None, _nvlink(Unit.PER_SECOND,
        "Times that a link was retrained over the last seconds.",
        nvml="NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "
        "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "
        "nvmlDeviceGetNvLinkErrorCounter", label="NVLink recovery rate")] = None
    nvlink_receive_error_count: Annotated[Natural | None, _nvlink(Unit.COUNT,
        "Receive errors of all NVLinks since the driver was loaded (Blackwell and newer).",
        nvml="NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS", counter=True)] = None
    nvlink_receive_errors_per_second: Annotated[Amount | None, _nvlink(Unit.PER_SECOND,
        "Receive errors of all NVLinks over the last seconds (Blackwell and newer).",
        nvml="NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS", label="NVLink RX error rate")] = None
    nvlink_erring_links: Annotated[tuple[Index, ...] | None, _nvlink(Unit.NONE,
        "Numbers of the NVLinks with an error counter that rose over the last seconds.")] = None
    fabric_state: Annotated[str | None, _nvlink(Unit.NONE,
        "Progress of joining the NVSwitch fabric: not-started, in-progress or completed; null "
        "outside of one. CUDA does not start before it is completed.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_status_code: Annotated[Index | None, _nvlink(Unit.NONE,
        "NVML's return value of joining the fabric once that is completed, 0 if it worked.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_bandwidth_degraded: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether its bandwidth within the fabric is degraded.",
        nvml="nvmlDeviceGetGpuFabricInfoV")] = None
    fabric_route_recovering: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether the fabric is recovering its routes.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.route_recovery_in_progress")] = None
    fabric_route_unhealthy: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether its routes in the fabric are unhealthy.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.route_unhealthy")] = None
    fabric_access_timeout_recovering: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether it recovers from an access that timed out.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.access_timeout_recovery")] = None
    fabric_incorrect_configuration: Annotated[str | None, _nvlink(Unit.NONE,
        "What is wrong with its configuration in the fabric: none, incorrect-sysguid, "
        "incorrect-chassis-sn, no-partition, insufficient-nvlinks, incompatible-gpu-fw, "
        "invalid-location or gpu-state-invalid.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.incorrect_configuration")] = None
    fabric_partition_assigned: Annotated[bool | None, _nvlink(Unit.NONE,
        "Whether it belongs to a partition of the fabric.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.partition_assigned")] = None
    fabric_health: Annotated[str | None, _nvlink(Unit.NONE,
        "All of that in a word: healthy, limited-capacity or unhealthy.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.health.summary")] = None
    fabric_cluster_uuid: Annotated[str | None, _nvlink(Unit.NONE,
        "NVLink domain that it belongs to, the same on all hosts of the domain.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.clusterUuid")] = None
    fabric_clique_id: Annotated[Index | None, _nvlink(Unit.NONE,
        "Part of that domain whose GPUs reach each other over NVLink.",
        nvml="nvmlDeviceGetGpuFabricInfoV", smi="fabric.cliqueId")] = None

    ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC protects the memory.", nvml="nvmlDeviceGetEccMode",
        smi="ecc.mode.current")] = None
    pending_ecc_mode: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether ECC will protect it after a reboot.", nvml="nvmlDeviceGetEccMode",
        smi="ecc.mode.pending")] = None
    ecc_corrected_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors",
        counter=True, smi="ecc.errors.corrected.volatile.total")] = None
    ecc_uncorrected_volatile_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors since the driver was loaded.",
        nvml="nvmlDeviceGetTotalEccErrors",
        counter=True, smi="ecc.errors.uncorrected.volatile.total")] = None
    ecc_corrected_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Corrected memory errors over the lifetime of the board.",
        nvml="nvmlDeviceGetTotalEccErrors",
        counter=True, smi="ecc.errors.corrected.aggregate.total")] = None
    ecc_uncorrected_aggregate_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Uncorrected memory errors over the lifetime of the board.",
        nvml="nvmlDeviceGetTotalEccErrors",
        counter=True, smi="ecc.errors.uncorrected.aggregate.total")] = None
    ecc_locations: Annotated[tuple[EccLocation, ...] | None, _reliability(Unit.NONE,
        "Memory errors by where they were; locations without counters are left out.",
        nvml="nvmlDeviceGetMemoryErrorCounter")] = None
    sram_errors: Annotated[SramErrors | None, _reliability(Unit.NONE,
        "Uncorrected errors of the SRAM by how and where they were found.",
        nvml="nvmlDeviceGetSramEccErrorStatus")] = None
    retired_pages_single_bit_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Pages retired for many corrected errors (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages",
        counter=True, smi="retired_pages.single_bit_ecc.count retired_pages.sbe")] = None
    retired_pages_double_bit_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Pages retired for an uncorrected error (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages",
        counter=True, smi="retired_pages.double_bit.count retired_pages.dbe")] = None
    retired_pages_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether pages wait for a reset, or a reload of the driver, to be retired.",
        nvml="nvmlDeviceGetRetiredPagesPendingStatus", smi="retired_pages.pending")] = None
    retired_pages: Annotated[tuple[RetiredPage, ...] | None, _reliability(Unit.NONE,
        "Each retired page, the newest last (before Ampere).",
        nvml="nvmlDeviceGetRetiredPages_v2")] = None
    remapped_rows_corrected_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Memory rows replaced for corrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows",
        counter=True, smi="remapped_rows.correctable remapped_rows.sbe",
        dcgm="DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS "
        "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL")] = None
    remapped_rows_uncorrected_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Memory rows replaced for uncorrected errors (Ampere and newer).",
        nvml="nvmlDeviceGetRemappedRows",
        counter=True, smi="remapped_rows.uncorrectable remapped_rows.dbe",
        dcgm="DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS "
        "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL")] = None
    remapped_rows_corrected_inactive_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Of the rows replaced for corrected errors, those that are not in effect.",
        nvml="nvmlDeviceGetRemappedRows_v2", smi="remapped_rows.correctable_inactive")] = None
    remapped_rows_uncorrected_inactive_count: Annotated[Natural | None, _reliability(Unit.COUNT,
        "Of the rows replaced for uncorrected errors, those that are not in effect.",
        nvml="nvmlDeviceGetRemappedRows_v2", smi="remapped_rows.uncorrectable_inactive")] = None
    remapped_rows_pending: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether rows wait for a GPU reset to be replaced.",
        nvml="nvmlDeviceGetRemappedRows", smi="remapped_rows.pending")] = None
    remapped_rows_failed: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether replacing a row has failed: the board is worn out.",
        nvml="nvmlDeviceGetRemappedRows", smi="remapped_rows.failure",
        dcgm="DCGM_FI_DEV_ROW_REMAP_FAILURE DCGM_FI_DEV_ROW_REMAP_FAILED")] = None
    remapped_rows_banks: Annotated[Banks | None, _reliability(Unit.COUNT,
        "How many banks of memory have all, many, some, few and no spare rows left.",
        nvml="nvmlDeviceGetRowRemapperHistogram")] = None
    recovery_action: Annotated[str | None, _reliability(Unit.NONE,
        "What the driver requests to recover the GPU: none, gpu-reset, node-reboot, drain-p2p, "
        "drain-and-reset, recover-imex-domain, bus-reset or system-reboot.",
        nvml="NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", smi="gpu_recovery_action")] = None
    reset_required: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether the GPU needs a reset.", nvml="NVML_FI_DEV_RESET_STATUS",
        smi="reset_status.reset_required")] = None
    drain_and_reset_recommended: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether its work should end, and a reset follow.",
        nvml="NVML_FI_DEV_DRAIN_AND_RESET_STATUS",
        smi="reset_status.drain_and_reset_recommended")] = None
    inforom_image_version: Annotated[SafeText | None, _reliability(Unit.NONE,
        "Version of the InfoROM, where the board keeps its errors and limits.",
        nvml="nvmlDeviceGetInforomImageVersion", smi="inforom.img inforom.image")] = None
    inforom_oem_version: Annotated[SafeText | None, _reliability(Unit.NONE,
        "Version of its OEM object.", nvml="nvmlDeviceGetInforomVersion",
        smi="inforom.oem")] = None
    inforom_ecc_version: Annotated[SafeText | None, _reliability(Unit.NONE,
        "Version of its ECC object.", nvml="nvmlDeviceGetInforomVersion",
        smi="inforom.ecc")] = None
    inforom_power_version: Annotated[SafeText | None, _reliability(Unit.NONE,
        "Version of its power object.", nvml="nvmlDeviceGetInforomVersion",
        smi="inforom.pwr inforom.power")] = None
    inforom_valid: Annotated[bool | None, _reliability(Unit.NONE,
        "Whether its checksum is right; read only where it is asked for by name.",
        nvml="nvmlDeviceValidateInforom")] = None
    xid_events: Annotated[tuple[XidEvent, ...] | None, _reliability(Unit.NONE,
        "The last XID errors since gpudash started, equal ones merged, the newest last; null "
        "where the driver does not report them.", nvml="nvmlEventSetWait_v2")] = None

    compute_mode: Annotated[str | None, _settings(Unit.NONE,
        "default, exclusive-thread, prohibited or exclusive-process.",
        nvml="nvmlDeviceGetComputeMode", smi="compute_mode")] = None
    persistence_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the driver keeps the GPU initialized when no process uses it.",
        nvml="nvmlDeviceGetPersistenceMode", smi="persistence_mode")] = None
    display_active: Annotated[bool | None, _settings(Unit.NONE,
        "Whether a display is driven from this GPU.", nvml="nvmlDeviceGetDisplayActive",
        smi="display_active")] = None
    display_attached: Annotated[bool | None, _settings(Unit.NONE,
        "Whether a monitor is plugged in.", nvml="nvmlDeviceGetDisplayMode")] = None
    driver_model: Annotated[str | None, _settings(Unit.NONE,
        "WDDM, TCC or MCDM; Windows only.", nvml="nvmlDeviceGetDriverModel",
        smi="driver_model.current")] = None
    pending_driver_model: Annotated[str | None, _settings(Unit.NONE,
        "Driver model after the next reboot; Windows only.", nvml="nvmlDeviceGetDriverModel",
        smi="driver_model.pending")] = None
    accounting_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the driver keeps what ended processes used.",
        nvml="nvmlDeviceGetAccountingMode", smi="accounting.mode")] = None
    accounting_buffer_size: Annotated[Natural | None, _settings(Unit.COUNT,
        "For how many processes it does.", nvml="nvmlDeviceGetAccountingBufferSize",
        smi="accounting.buffer_size")] = None
    accounted_processes: Annotated[tuple[AccountedProcess, ...] | None, _settings(Unit.NONE,
        "Who used the GPU before: what the driver kept of processes, the newest last; null while "
        "its accounting mode is off.", nvml="nvmlDeviceGetAccountingStats")] = None
    power_management_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the driver manages power.", nvml="nvmlDeviceGetPowerManagementMode",
        smi="power.management")] = None
    gpu_operation_mode: Annotated[str | None, _settings(Unit.NONE,
        "all-on, compute or low-double-precision (Kepler).",
        nvml="nvmlDeviceGetGpuOperationMode",
        smi="gom.current gpu_operation_mode.current")] = None
    pending_gpu_operation_mode: Annotated[str | None, _settings(Unit.NONE,
        "Operation mode after the next reboot.", nvml="nvmlDeviceGetGpuOperationMode",
        smi="gom.pending gpu_operation_mode.pending")] = None
    gsp_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the driver runs on the GPU's own processor, the GSP.",
        nvml="nvmlDeviceGetGspFirmwareMode", smi="gsp.mode.current")] = None
    default_gsp_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether it does unless set otherwise.",
        nvml="nvmlDeviceGetGspFirmwareMode", smi="gsp.mode.default")] = None
    dram_encryption_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether the memory is encrypted.", nvml="nvmlDeviceGetDramEncryptionMode",
        smi="dramEncryption.mode.current")] = None
    pending_dram_encryption_mode: Annotated[bool | None, _settings(Unit.NONE,
        "Whether it will be after a reboot.", nvml="nvmlDeviceGetDramEncryptionMode",
        smi="dramEncryption.mode.pending")] = None

    mig_mode: Annotated[bool | None, _mig(Unit.NONE,
        "Whether the GPU is split into MIG instances.", nvml="nvmlDeviceGetMigMode",
        smi="mig.mode.current")] = None
    pending_mig_mode: Annotated[bool | None, _mig(Unit.NONE,
        "MIG mode after the next reset.", nvml="nvmlDeviceGetMigMode",
        smi="mig.mode.pending")] = None
    gpu_instance_id: Annotated[Index | None, _mig(Unit.NONE,
        "GPU instance of this MIG device.", nvml="nvmlDeviceGetGpuInstanceId")] = None
    compute_instance_id: Annotated[Index | None, _mig(Unit.NONE,
        "Compute instance of this MIG device.", nvml="nvmlDeviceGetComputeInstanceId")] = None
    multiprocessor_count: Annotated[Natural | None, _mig(Unit.COUNT,
        "SMs that belong to this MIG device.", nvml="nvmlDeviceGetAttributes_v2")] = None
    # fmt: on


def device_label(index: int, parent: int | str | None = None) -> SafeText:
    """Return a GPU's label, `0`, or that of instance `index` of the GPU `parent`, `0:1`."""
    return SafeText(f"{index}" if parent is None else f"{parent}:{index}")


def device_labels(devices: Sequence[Device]) -> dict[str, SafeText]:
    """Return the label of each device by key; a GPU that is not listed is `?` in it."""
    parents = {device.uuid: device.index for device in devices if not device.is_mig}
    return {
        device.key: device_label(
            device.index, parents.get(device.parent_uuid, "?") if device.is_mig else None
        )
        for device in devices
    }


def labelled(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices of a host with their labels."""
    labels = device_labels(devices)
    return tuple(replace(device, label=labels[device.key]) for device in devices)


@cache
def device_fields() -> Mapping[str, Field]:
    """Return every declared metric by name; built on first use, which takes some 6 ms."""
    return {field.name: field for field in declared_fields(Device)}


@cache
def chart_fields() -> Mapping[str, Field]:
    """Return those that can be charted; a first picture needs no others."""
    fields = declared_fields(Device, having="chart=True")
    return {field.name: field for field in fields if field.chart}


GPM_PERCENTS = {
    1: "graphics_active_percent",
    2: "sm_active_percent",
    3: "sm_occupancy_percent",
    5: "tensor_active_percent",
    10: "dram_active_percent",
    11: "fp64_active_percent",
    12: "fp32_active_percent",
    13: "fp16_active_percent",
}
"""NVML_GPM_METRIC_* in percent, and the fields that they fill."""

GPM_RATES = {
    20: "pcie_tx_bytes_per_second",
    21: "pcie_rx_bytes_per_second",
    60: "nvlink_rx_bytes_per_second",
    61: "nvlink_tx_bytes_per_second",
}
"""NVML_GPM_METRIC_* in MiB/s, and the fields that they fill if no counter does."""

EVENT_REASONS: Mapping[str, int] = {
    "gpu-idle": 0x1,
    "applications-clocks-setting": 0x2,
    "sw-power-cap": 0x4,
    "hw-slowdown": 0x8,
    "sync-boost": 0x10,
    "sw-thermal-slowdown": 0x20,
    "hw-thermal-slowdown": 0x40,
    "hw-power-brake-slowdown": 0x80,
    "display-clock-setting": 0x100,
}
"""The named reasons in `clocks_event_reasons`, and their bits in NVML's mask."""


_PCIE_LANE = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
"""Bytes per second and lane in each direction, after the generation's line code."""


_NVLINK = {"1": 20e9, "2": 25e9, "3": 25e9, "4": 25e9, "5": 50e9}
"""Bytes per second and link in each direction, by the first number of the version."""


def nvlink_capacity(version: str | None, count: int | None) -> float | None:
    """Return the bytes per second of this many NVLinks in each direction, None if unknown."""
    link = _NVLINK.get((version or "").partition(".")[0])
    return None if link is None or not count else link * count


def pcie_capacity(generation: int | None, width: int | None) -> float | None:
    """Return the bytes per second of a PCIe link in each direction, None if unknown."""
    lane = _PCIE_LANE.get(generation or 0)
    return None if lane is None or not width else lane * width
