"""Which NVML call fills which fields of a device, and how often it is made.

One line a call. A MIG instance's facts are read whenever it is checked that it is still the same.

Not in its tables, as the answers are not plain values:

- ComputeRunningProcesses, GraphicsRunningProcesses, ProcessUtilization, in `processes`: every two
  seconds, as they cost the most. MPSComputeRunningProcesses only if there are clients of MPS, or
  a process is new.
- FieldValues, in `device`: one call for all due ones, including link errors every ten seconds.
- EventSetWait, in `xids`: every tick, as an Xid is reported once.
- GpmSampleGet, in `gpm`: every tick, on the GPUs that have it.
- NvLinkState, in `links`: every thirty seconds.
- PcieThroughput, in `rates`: every five seconds if requested, as it blocks for 20 ms.
"""

from __future__ import annotations

from msgspec import Struct

from gpudash.collect.nvml import values as v

STATIC_SECONDS = float("inf")
FAST_SECONDS = 0.0
STEADY_SECONDS = 1.9
INSTANCE_SECONDS = 4.9
COSTLY_SECONDS = 4.9
SLOW_SECONDS = 9.9
SETTLED_SECONDS = 29.9
RARE_SECONDS = 299.9
"""Just below a whole number of one-second ticks, so that an early tick still qualifies."""

RETRY_SECONDS = 10.0
"""How long after a failure a fact or a whole GPU is tried again."""

MAX_REOPEN_SECONDS = 600.0
"""The longest pause between reopenings for a GPU that is gone, if no bus is visible."""

_MEMORY_V2 = 0x02000028
"""Version word of nvmlMemory_v2_t."""

_MODULE, _MEMORY_SCOPE = 1, 2
"""NVML_POWER_SCOPE_*."""


class NvmlCall(Struct, frozen=True):
    """One NVML call, its arguments after the handle, and the fields that its answer fills."""

    name: str
    arguments: tuple[int, ...]
    fields: tuple[tuple[str, v.Convert], ...]
    fallback: NvmlCall | None = None
    """The call made instead if the driver lacks this one."""
    structure: str | None = None
    """The structure that it fills, by its name in `library.structure`, if pynvml makes none."""


class FieldValue(Struct, frozen=True):
    """One id of the batch of field values, and the field that it fills."""

    id: int
    field: str
    convert: v.Convert
    seconds: float
    scope: int = 0


def _call(
    metric: str,
    *arguments: int,
    older: str | None = None,
    fallback: NvmlCall | None = None,
    structure: str | None = None,
    **fields: v.Convert,
) -> NvmlCall:
    """Return a call; `older` is a fallback with the same arguments and answers."""
    if older is not None:
        fallback = NvmlCall(f"nvmlDeviceGet{older}", arguments, tuple(fields.items()))
    return NvmlCall(f"nvmlDeviceGet{metric}", arguments, tuple(fields.items()), fallback, structure)


IDENTITY = (
    _call("UUID", uuid=v.string),
    _call("Name", name=v.string),
    _call(
        "PciInfo",
        pci_bus_id=v.attribute("busId", v.string),
        pci_device_id=v.attribute("pciDeviceId", v.identifier),
        pci_subsystem_id=v.attribute("pciSubSystemId", v.identifier),
    ),
    _call("MinorNumber", minor_number=v.small_count),
)

STATIC = (
    _call("Serial", serial=v.string),
    _call("BoardPartNumber", board_part_number=v.string),
    _call("VbiosVersion", vbios_version=v.string),
    _call("GspFirmwareVersion", gsp_firmware_version=v.string),
    _call("Architecture", architecture=v.named(v.ARCHITECTURES)),
    _call("CudaComputeCapability", compute_capability=v.compute_capability),
    _call("NumGpuCores", core_count=v.small_count),
    _call("MaxClockInfo", 0, max_graphics_clock_mhz=v.megahertz),
    _call("MaxClockInfo", 1, max_sm_clock_mhz=v.megahertz),
    _call("MaxClockInfo", 2, max_memory_clock_mhz=v.megahertz),
    _call("MaxClockInfo", 3, max_video_clock_mhz=v.megahertz),
    _call("MaxPcieLinkGeneration", max_pcie_link_generation=v.small_count),
    _call("MaxPcieLinkWidth", max_pcie_link_width=v.small_count),
    _call("TemperatureThreshold", 0, shutdown_temperature_celsius=v.celsius),
    _call("TemperatureThreshold", 1, slowdown_temperature_celsius=v.celsius),
    _call("TemperatureThreshold", 2, max_memory_temperature_celsius=v.celsius),
    _call("TemperatureThreshold", 3, max_operating_temperature_celsius=v.celsius),
    _call("PowerManagementDefaultLimit", default_power_limit_mw=v.milliwatts),
    _call(
        "PowerManagementLimitConstraints",
        min_power_limit_mw=v.item(0, v.milliwatts),
        max_power_limit_mw=v.item(1, v.milliwatts),
    ),
    _call("C2cModeInfoV", c2c_mode=v.attribute("isC2cEnabled", v.flag)),
    _call("AddressingMode", addressing_mode=v.named(v.ADDRESSING_MODES)),
    _call(
        "DriverModel",
        older="DriverModel_v1",
        driver_model=v.item(0, v.named(v.DRIVER_MODELS)),
        pending_driver_model=v.item(1, v.named(v.DRIVER_MODELS)),
    ),
)

FAST = (
    _call(
        "UtilizationRates",
        gpu_utilization_percent=v.attribute("gpu", v.percent),
        memory_utilization_percent=v.attribute("memory", v.percent),
    ),
    _call(
        "MemoryInfo",
        _MEMORY_V2,
        memory_total_bytes=v.attribute("total", v.positive),
        memory_reserved_bytes=v.attribute("reserved", v.size),
        memory_used_bytes=v.attribute("used", v.size),
        memory_free_bytes=v.attribute("free", v.size),
        fallback=_call(
            "MemoryInfo",
            memory_total_bytes=v.attribute("total", v.positive),
            memory_used_bytes=v.attribute("used", v.size),
            memory_free_bytes=v.attribute("free", v.size),
        ),
    ),
    _call("PowerUsage", power_usage_mw=v.milliwatts),
    _call("ClockInfo", 1, sm_clock_mhz=v.megahertz),
)
"""Values that a job changes within a second: read in every tick."""

STEADY = (
    _call("TemperatureV", 0, older="Temperature", temperature_celsius=v.celsius),
    # Mostly equal to that of the SMs, which an older value would contradict.
    _call("ClockInfo", 0, graphics_clock_mhz=v.megahertz),
    _call("ClockInfo", 2, memory_clock_mhz=v.megahertz),
    _call("PerformanceState", performance_state=v.performance_state),
    _call(
        "CurrentClocksEventReasons",
        older="CurrentClocksThrottleReasons",
        clocks_event_reasons=v.event_reasons,
    ),
    _call("FanSpeed", fan_speed_percent=v.fan_percent),
)
"""Values that follow more slowly: every two seconds."""

CODECS = (
    _call("EncoderUtilization", encoder_utilization_percent=v.item(0, v.percent)),
    _call("DecoderUtilization", decoder_utilization_percent=v.item(0, v.percent)),
    _call("JpgUtilization", jpeg_utilization_percent=v.item(0, v.percent)),
    _call("OfaUtilization", ofa_utilization_percent=v.item(0, v.percent)),
)
"""On a GPU that never used one, as rarely as slow values."""

_BAR1 = _call(
    "BAR1MemoryInfo",
    bar1_total_bytes=v.attribute("bar1Total", v.positive),
    bar1_used_bytes=v.attribute("bar1Used", v.size),
)
SLOW = (
    _call("CurrPcieLinkGeneration", pcie_link_generation=v.small_count),
    _call("CurrPcieLinkWidth", pcie_link_width=v.small_count),
    _call("PcieReplayCounter", pcie_replay_count=v.small_count),
    _call("TotalEccErrors", 0, 0, ecc_corrected_volatile_count=v.count),
    _call("TotalEccErrors", 1, 0, ecc_uncorrected_volatile_count=v.count),
    _call("RetiredPages", 0, retired_pages_single_bit_count=v.page_count),
    _call("RetiredPages", 1, retired_pages_double_bit_count=v.page_count),
    _call("RetiredPagesPendingStatus", retired_pages_pending=v.flag),
    _call(
        "RemappedRows",
        remapped_rows_corrected_count=v.item(0, v.small_count),
        remapped_rows_uncorrected_count=v.item(1, v.small_count),
        remapped_rows_pending=v.item(2, v.flag),
        remapped_rows_failed=v.item(3, v.flag),
    ),
)
"""Values that rarely change on their own: every ten seconds."""

SETTLED = (
    _call("ClockInfo", 3, video_clock_mhz=v.megahertz),
    _call("MarginTemperature", temperature_margin_celsius=v.celsius),
    _call("PowerManagementLimit", power_limit_mw=v.milliwatts),
    _BAR1,
    _call("EccMode", ecc_mode=v.item(0, v.flag), pending_ecc_mode=v.item(1, v.flag)),
    _call("TotalEccErrors", 0, 1, ecc_corrected_aggregate_count=v.count),
    _call("TotalEccErrors", 1, 1, ecc_uncorrected_aggregate_count=v.count),
    _call("ComputeMode", compute_mode=v.named(v.COMPUTE_MODES)),
    _call("PersistenceMode", persistence_mode=v.flag),
    _call("DisplayActive", display_active=v.flag),
    _call("DisplayMode", display_attached=v.flag),
)
"""Administrators' settings, lifetime sums, and values not worth their cost."""

_ON_REQUEST = (
    _call("Brand", product_brand=v.named(v.BRANDS)),
    _call("MultiGpuBoard", multi_gpu_board=v.flag),
    _call("BoardId", board_id=v.hexadecimal),
    _call(
        "FBCStats",
        fbc_session_count=v.attribute("sessionsCount", v.small_count),
        fbc_frame_rate=v.attribute("averageFPS", v.small_count),
        fbc_latency_microseconds=v.attribute("averageLatency", v.small_count),
    ),
    _call("TemperatureThreshold", 4, min_target_temperature_celsius=v.celsius),
    _call("TemperatureThreshold", 5, target_temperature_celsius=v.celsius),
    _call("TemperatureThreshold", 6, max_target_temperature_celsius=v.celsius),
    _call("Clock", 0, 3, max_customer_boost_clock_mhz=v.megahertz),
    _call(
        "AutoBoostedClocksEnabled",
        auto_boost=v.item(0, v.flag),
        default_auto_boost=v.item(1, v.flag),
    ),
    _call(
        "BridgeChipInfo",
        bridge_chip_type=v.first_bridge("type", v.named(v.BRIDGES)),
        bridge_chip_firmware=v.first_bridge("fwVersion", v.hexadecimal),
    ),
    _call(
        "LastBBXFlushTime",
        inforom_flushed_at=v.item(0, v.microseconds),
        inforom_flush_microseconds=v.item(1, v.count),
    ),
    _call("Pdi", structure="Pdi_v1", pdi=v.attribute("value", v.hexadecimal)),
    _call(
        "Capabilities",
        structure="DeviceCapabilities_v1",
        egm_mode=v.attribute("capMask", v.first_bit),
    ),
    _call(
        "RepairStatus",
        structure="RepairStatus_v1",
        channel_repair_pending=v.attribute("channel", v.flag),
        tpc_repair_pending=v.attribute("tpc", v.flag),
    ),
    _call(
        "UnrepairableMemoryFlag_v1",
        structure="UnrepairableMemory_v1",
        unrepairable_memory=v.attribute("flag", v.flag),
    ),
    _call("VirtualizationMode", virtualization_mode=v.named(v.VIRTUALIZATION_MODES)),
    _call("HostVgpuMode", host_vgpu_mode=v.named(v.HOST_VGPU_MODES)),
)
"""Omitted from streams; the fields are those of `ON_REQUEST`."""

RARE = (
    _call("ApplicationsClock", 0, applications_graphics_clock_mhz=v.megahertz),
    _call("ApplicationsClock", 2, applications_memory_clock_mhz=v.megahertz),
    _call("DefaultApplicationsClock", 0, default_applications_graphics_clock_mhz=v.megahertz),
    _call("DefaultApplicationsClock", 2, default_applications_memory_clock_mhz=v.megahertz),
    _call(
        "SupportedClocksEventReasons",
        older="SupportedClocksThrottleReasons",
        supported_clocks_event_reasons=v.event_reasons,
    ),
    _call("GpuMaxPcieLinkGeneration", max_gpu_pcie_link_generation=v.small_count),
    _call(
        "EncoderStats",
        encoder_session_count=v.item(0, v.small_count),
        encoder_frame_rate=v.item(1, v.small_count),
        encoder_latency_microseconds=v.item(2, v.small_count),
    ),
    _call(
        "ConfComputeProtectedMemoryUsage",
        protected_memory_total_bytes=v.attribute("total", v.size),
        protected_memory_used_bytes=v.attribute("used", v.size),
        protected_memory_free_bytes=v.attribute("free", v.size),
    ),
    _call(
        "RemappedRows_v2",
        structure="RemappedRows",
        remapped_rows_corrected_inactive_count=v.attribute("corrInactiveRemaps", v.small_count),
        remapped_rows_uncorrected_inactive_count=v.attribute("uncInactiveRemaps", v.small_count),
    ),
    _call("RowRemapperHistogram", remapped_rows_banks=v.banks),
    _call("InforomImageVersion", inforom_image_version=v.string),
    _call("InforomVersion", 0, inforom_oem_version=v.string),
    _call("InforomVersion", 1, inforom_ecc_version=v.string),
    _call("InforomVersion", 2, inforom_power_version=v.string),
    _call("AccountingMode", accounting_mode=v.flag),
    _call("AccountingBufferSize", accounting_buffer_size=v.small_count),
    _call("PowerManagementMode", power_management_mode=v.flag),
    _call(
        "GpuOperationMode",
        gpu_operation_mode=v.item(0, v.named(v.OPERATION_MODES)),
        pending_gpu_operation_mode=v.item(1, v.named(v.OPERATION_MODES)),
    ),
    _call(
        "PciInfoExt",
        structure="PciInfoExt_v1",
        pci_base_class=v.attribute("baseClass", v.pci_class),
        pci_sub_class=v.attribute("subClass", v.pci_class),
    ),
    _call(
        "DramEncryptionMode",
        dram_encryption_mode=v.item(0, v.flag),
        pending_dram_encryption_mode=v.item(1, v.flag),
    ),
    # pynvml keeps the number in a variable shared by all threads.
    _call("ModuleId", structure="ModuleId", module_id=v.attribute("number", v.small_count)),
    _call(
        "PlatformInfo",
        structure="PlatformInfo_v2",
        chassis_serial=v.attribute("chassisSerialNumber", v.string),
        chassis_slot_number=v.in_chassis("slotNumber"),
        chassis_tray_index=v.in_chassis("trayIndex"),
        chassis_host_id=v.attribute("hostId", v.byte),
        chassis_peer_type=v.attribute("peerType", v.named(v.PEER_TYPES)),
    ),
    *_ON_REQUEST,
)
"""Rarely used values: read every five minutes in a stream, and if requested by name."""

FIELD_VALUES = (
    FieldValue(82, "memory_temperature_celsius", v.celsius, STEADY_SECONDS),
    FieldValue(74, "sw_power_cap_seconds", v.nanoseconds, STEADY_SECONDS),
    FieldValue(76, "sync_boost_seconds", v.nanoseconds, STEADY_SECONDS),
    FieldValue(95, "pcie_replay_rollover_count", v.count, RARE_SECONDS),
    FieldValue(83, "total_energy_mj", v.count, SLOW_SECONDS),
    FieldValue(185, "power_average_mw", v.milliwatts, STEADY_SECONDS),
    FieldValue(186, "power_instant_mw", v.milliwatts, STEADY_SECONDS),
    FieldValue(193, "shutdown_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(194, "slowdown_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(195, "max_memory_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(196, "max_operating_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(226, "reset_required", v.flag, SLOW_SECONDS),
    FieldValue(227, "drain_and_reset_recommended", v.flag, SLOW_SECONDS),
    FieldValue(230, "recovery_action", v.named(v.RECOVERY_ACTIONS), SLOW_SECONDS),
    FieldValue(269, "sw_thermal_slowdown_seconds", v.nanoseconds, STEADY_SECONDS),
    FieldValue(270, "hw_thermal_slowdown_seconds", v.nanoseconds, COSTLY_SECONDS),
    FieldValue(271, "hw_power_brake_seconds", v.nanoseconds, COSTLY_SECONDS),
    FieldValue(185, "module_power_average_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(186, "module_power_instant_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(187, "module_min_power_limit_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(188, "module_max_power_limit_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(189, "module_default_power_limit_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(190, "module_enforced_power_limit_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(192, "module_power_limit_mw", v.milliwatts, RARE_SECONDS, _MODULE),
    FieldValue(185, "memory_power_average_mw", v.milliwatts, RARE_SECONDS, _MEMORY_SCOPE),
    FieldValue(186, "memory_power_instant_mw", v.milliwatts, RARE_SECONDS, _MEMORY_SCOPE),
)
"""On an H200 under driver 580 most take 40 µs, 270 and 271 each 1 ms, and the energy 3 to 5 ms."""

BRIEF_POLL_GROUPS = (
    (IDENTITY, STATIC_SECONDS),
    (FAST, FAST_SECONDS),
    (STEADY, STEADY_SECONDS),
    (
        (
            _call("EnforcedPowerLimit", enforced_power_limit_mw=v.milliwatts),
            _call("MigMode", mig_mode=v.item(0, v.flag), pending_mig_mode=v.item(1, v.flag)),
        ),
        SLOW_SECONDS,
    ),
)
"""The values of a first picture."""

OTHER_POLL_GROUPS = (
    (SLOW, SLOW_SECONDS),
    (SETTLED, SETTLED_SECONDS),
    (STATIC, STATIC_SECONDS),
)
CODEC_POLL_GROUP = (CODECS, SLOW_SECONDS)
"""Read as often as steady values once one of them has been active."""
RARE_POLL_GROUP = (RARE, RARE_SECONDS)
POLL_GROUPS = (*BRIEF_POLL_GROUPS, *OTHER_POLL_GROUPS, CODEC_POLL_GROUP, RARE_POLL_GROUP)

_MEMORY = FAST[1]
_INSTANCE = (
    _call("UUID", uuid=v.string),
    _call("Name", name=v.string),
    _call("GpuInstanceId", gpu_instance_id=v.small_count),
    _call("ComputeInstanceId", compute_instance_id=v.small_count),
    _call("Attributes", multiprocessor_count=v.attribute("multiprocessorCount", v.small_count)),
)

INSTANCE_POLL_GROUPS = ((_INSTANCE, INSTANCE_SECONDS), ((_MEMORY,), FAST_SECONDS))
"""Values of a MIG instance; utilization, power and clocks are only known for its parent."""
INSTANCE_DETAILS = (
    (
        _BAR1,
        _call(
            "Attributes",
            copy_engine_count=v.attribute("sharedCopyEngineCount", v.small_count),
            encoder_count=v.attribute("sharedEncoderCount", v.small_count),
            decoder_count=v.attribute("sharedDecoderCount", v.small_count),
            ofa_count=v.attribute("sharedOfaCount", v.small_count),
            jpeg_count=v.attribute("sharedJpegCount", v.small_count),
        ),
        _call("MemoryErrorCounter", 1, 0, 7, sram_uncorrected_volatile_count=v.count),
    ),
    RARE_SECONDS,
)
"""Its further values, read on request."""
