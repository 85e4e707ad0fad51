"""How warm a device is, what it draws, and what holds its clocks."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.activity import DeviceActivity
from gpudash.model.units import Unit

_temperature = partial(metric, Group.TEMPERATURE)
_power = partial(metric, Group.POWER)
_clocks = partial(metric, Group.CLOCKS)


class DevicePower(DeviceActivity, frozen=True, kw_only=True):
    """The part of a Device about heat, power and clocks."""

    # fmt: off
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
    throttled_sw_power_cap_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the power limit held the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP")] = None
    throttled_sw_thermal_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which software, for heat, held the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN")] = None
    throttled_hw_thermal_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which hardware, for heat, held the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN")] = None
    throttled_hw_power_brake_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the power brake of the server held the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN")] = None
    throttled_thermal_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which a thermal limit of any kind held the clocks.",
        nvml="NVML_FI_DEV_PERF_POLICY_THERMAL")] = None
    throttled_sync_boost_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which the slowest GPU of its group held the clocks.",
        nvml="NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST")] = None
    throttled_board_limit_percent: Annotated[float | None, _clocks(Unit.PERCENT,
        "Share of the last seconds in which a limit of the board held the clocks.",
        nvml="NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT")] = None
    # fmt: on
