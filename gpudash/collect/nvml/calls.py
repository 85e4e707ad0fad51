"""Which NVML call fills which fields of a device, and how often it is asked.

One line a call; `paces` says what the lanes cost. A MIG instance's facts are read whenever it is
looked whether it is still the same.
"""

from __future__ import annotations

from msgspec import Struct

from gpudash.collect.nvml import values as v

STATIC_SECONDS = float("inf")
FAST_SECONDS = 0.0
STEADY_SECONDS = 1.9
INSTANCE_SECONDS = 4.9
ASKED_SECONDS = 4.9
SLOW_SECONDS = 9.9
"""Just under a whole number of one-second ticks, so that one that comes early still meets it."""

RETRY_SECONDS = 10.0
"""How long what failed is left alone before it is asked again: a fact, or a whole GPU."""

LOOK_AGAIN_MAX_SECONDS = 600.0
"""How long at most until NVML is opened anew for a GPU that is gone, where no bus can be seen."""

LONG_SECONDS = 0.25
"""A call that takes longer is a slow one; most take microseconds."""
LONG_SHARE = 3
"""A slow one is left alone for so many times as long as it took."""


class Pace:
    """When something is due: at once, and then every so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time, and if so, count from now to the next one."""
        if now < self._due:
            return False
        self._due = now + self._seconds
        return True


MEMORY_V2 = 0x02000028
"""Version word of nvmlMemory_v2_t."""


class Reading(Struct, frozen=True):
    """One NVML call, its arguments after the handle, and the fields that its answer fills."""

    call: str
    arguments: tuple[int, ...]
    fields: tuple[tuple[str, v.Convert], ...]
    fallback: Reading | None = None
    """Asked instead when the driver lacks the call."""


class FieldValue(Struct, frozen=True):
    """One id of the field-values batch and the field that it fills."""

    id: int
    field: str
    convert: v.Convert
    seconds: float


def _read(
    call: str, *arguments: int, fallback: Reading | None = None, **fields: v.Convert
) -> Reading:
    return Reading(f"nvmlDeviceGet{call}", arguments, tuple(fields.items()), fallback)


STATIC = (
    _read("UUID", uuid=v.string),
    _read("Name", name=v.string),
    _read("PciInfo", pci_bus_id=v.attribute("busId", v.string)),
    _read("MinorNumber", minor_number=v.small_count),
    _read("Serial", serial=v.string),
    _read("BoardPartNumber", board_part_number=v.string),
    _read("VbiosVersion", vbios_version=v.string),
    _read("Architecture", architecture=v.named(v.ARCHITECTURES)),
    _read("CudaComputeCapability", compute_capability=v.compute_capability),
    _read("NumGpuCores", core_count=v.small_count),
    _read("MaxClockInfo", 0, max_graphics_clock_mhz=v.megahertz),
    _read("MaxClockInfo", 1, max_sm_clock_mhz=v.megahertz),
    _read("MaxClockInfo", 2, max_memory_clock_mhz=v.megahertz),
    _read("MaxClockInfo", 3, max_video_clock_mhz=v.megahertz),
    _read("MaxPcieLinkGeneration", max_pcie_link_generation=v.small_count),
    _read("MaxPcieLinkWidth", max_pcie_link_width=v.small_count),
    _read("TemperatureThreshold", 0, shutdown_temperature_celsius=v.celsius),
    _read("TemperatureThreshold", 1, slowdown_temperature_celsius=v.celsius),
    _read("TemperatureThreshold", 2, max_memory_temperature_celsius=v.celsius),
    _read("TemperatureThreshold", 3, max_operating_temperature_celsius=v.celsius),
    _read("PowerManagementDefaultLimit", default_power_limit_mw=v.milliwatts),
    _read(
        "PowerManagementLimitConstraints",
        min_power_limit_mw=v.item(0, v.milliwatts),
        max_power_limit_mw=v.item(1, v.milliwatts),
    ),
    _read("AddressingMode", addressing_mode=v.named(v.ADDRESSING_MODES)),
    _read(
        "DriverModel",
        driver_model=v.item(0, v.named(v.DRIVER_MODELS)),
        fallback=_read("DriverModel_v1", driver_model=v.item(0, v.named(v.DRIVER_MODELS))),
    ),
)

FAST = (
    _read(
        "UtilizationRates",
        gpu_utilization_percent=v.attribute("gpu", v.percent),
        memory_utilization_percent=v.attribute("memory", v.percent),
    ),
    _read(
        "MemoryInfo",
        MEMORY_V2,
        memory_total_bytes=v.attribute("total", v.positive),
        memory_reserved_bytes=v.attribute("reserved", v.size),
        memory_used_bytes=v.attribute("used", v.size),
        memory_free_bytes=v.attribute("free", v.size),
        fallback=_read(
            "MemoryInfo",
            memory_total_bytes=v.attribute("total", v.positive),
            memory_used_bytes=v.attribute("used", v.size),
            memory_free_bytes=v.attribute("free", v.size),
        ),
    ),
    _read(
        "TemperatureV",
        0,
        temperature_celsius=v.celsius,
        fallback=_read("Temperature", 0, temperature_celsius=v.celsius),
    ),
    _read("PowerUsage", power_usage_mw=v.milliwatts),
    _read("ClockInfo", 0, graphics_clock_mhz=v.megahertz),
    _read("ClockInfo", 1, sm_clock_mhz=v.megahertz),
    _read("ClockInfo", 2, memory_clock_mhz=v.megahertz),
    _read("PerformanceState", performance_state=v.performance_state),
    _read(
        "CurrentClocksEventReasons",
        clocks_event_reasons=v.event_reasons,
        fallback=_read("CurrentClocksThrottleReasons", clocks_event_reasons=v.event_reasons),
    ),
)

STEADY = (
    _read("EncoderUtilization", encoder_utilization_percent=v.item(0, v.percent)),
    _read("DecoderUtilization", decoder_utilization_percent=v.item(0, v.percent)),
    _read("JpgUtilization", jpeg_utilization_percent=v.item(0, v.percent)),
    _read("OfaUtilization", ofa_utilization_percent=v.item(0, v.percent)),
    _read("ClockInfo", 3, video_clock_mhz=v.megahertz),
    _read("MarginTemperature", temperature_margin_celsius=v.celsius),
    _read("FanSpeed", fan_speed_percent=v.fan_percent),
)

SLOW = (
    _read("EnforcedPowerLimit", enforced_power_limit_mw=v.milliwatts),
    _read("PowerManagementLimit", power_limit_mw=v.milliwatts),
    _read("CurrPcieLinkGeneration", pcie_link_generation=v.small_count),
    _read("CurrPcieLinkWidth", pcie_link_width=v.small_count),
    _read("PcieReplayCounter", pcie_replay_count=v.small_count),
    _read(
        "BAR1MemoryInfo",
        bar1_total_bytes=v.attribute("bar1Total", v.positive),
        bar1_used_bytes=v.attribute("bar1Used", v.size),
    ),
    _read("EccMode", ecc_mode=v.item(0, v.flag), pending_ecc_mode=v.item(1, v.flag)),
    _read("TotalEccErrors", 0, 0, ecc_corrected_volatile_count=v.count),
    _read("TotalEccErrors", 1, 0, ecc_uncorrected_volatile_count=v.count),
    _read("TotalEccErrors", 0, 1, ecc_corrected_aggregate_count=v.count),
    _read("TotalEccErrors", 1, 1, ecc_uncorrected_aggregate_count=v.count),
    _read("RetiredPages", 0, retired_pages_single_bit_count=len),
    _read("RetiredPages", 1, retired_pages_double_bit_count=len),
    _read("RetiredPagesPendingStatus", retired_pages_pending=v.flag),
    _read(
        "RemappedRows",
        remapped_rows_corrected_count=v.item(0, v.small_count),
        remapped_rows_uncorrected_count=v.item(1, v.small_count),
        remapped_rows_pending=v.item(2, v.flag),
        remapped_rows_failed=v.item(3, v.flag),
    ),
    _read("ComputeMode", compute_mode=v.named(v.COMPUTE_MODES)),
    _read("PersistenceMode", persistence_mode=v.flag),
    _read("DisplayActive", display_active=v.flag),
    _read("DisplayMode", display_attached=v.flag),
    _read("MigMode", mig_mode=v.item(0, v.flag), pending_mig_mode=v.item(1, v.flag)),
)

FIELD_VALUES = (
    FieldValue(82, "memory_temperature_celsius", v.celsius, FAST_SECONDS),
    FieldValue(83, "total_energy_mj", v.count, FAST_SECONDS),
    FieldValue(185, "power_average_mw", v.milliwatts, FAST_SECONDS),
    FieldValue(186, "power_instant_mw", v.milliwatts, FAST_SECONDS),
    FieldValue(193, "shutdown_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(194, "slowdown_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(195, "max_memory_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(196, "max_operating_tlimit_celsius", v.celsius, STATIC_SECONDS),
    FieldValue(230, "recovery_action", v.named(v.RECOVERY_ACTIONS), SLOW_SECONDS),
)

LANES = (
    (STATIC, STATIC_SECONDS),
    (FAST, FAST_SECONDS),
    (STEADY, STEADY_SECONDS),
    (SLOW, SLOW_SECONDS),
)

_MEMORY = FAST[1]
_INSTANCE = (
    _read("UUID", uuid=v.string),
    _read("Name", name=v.string),
    _read("GpuInstanceId", gpu_instance_id=v.small_count),
    _read("ComputeInstanceId", compute_instance_id=v.small_count),
    _read("Attributes", multiprocessor_count=v.attribute("multiprocessorCount", v.small_count)),
)

MIG_LANES = ((_INSTANCE, INSTANCE_SECONDS), ((_MEMORY,), FAST_SECONDS))
"""What a MIG instance answers; utilization, power and clocks are its parent's alone."""
