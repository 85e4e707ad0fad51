"""Which numbers are kept for charts, and how they are taken from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from gpudash.model.device import Device
from gpudash.model.snapshot import Host

Row = Sequence[float | None]

DEVICE_METRICS = (
    "gpu_utilization_percent",
    "memory_utilization_percent",
    "encoder_utilization_percent",
    "decoder_utilization_percent",
    "sm_active_percent",
    "sm_occupancy_percent",
    "tensor_active_percent",
    "dram_active_percent",
    "fp64_active_percent",
    "fp32_active_percent",
    "fp16_active_percent",
    "throttled_sw_power_cap_percent",
    "throttled_sw_thermal_percent",
    "throttled_hw_thermal_percent",
    "throttled_hw_power_brake_percent",
    "memory_used_bytes",
    "memory_unaccounted_bytes",
    "bar1_used_bytes",
    "temperature_celsius",
    "memory_temperature_celsius",
    "fan_speed_percent",
    "power_usage_mw",
    "power_instant_mw",
    "graphics_clock_mhz",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "video_clock_mhz",
    "performance_state",
    "pcie_link_generation",
    "pcie_tx_bytes_per_second",
    "pcie_rx_bytes_per_second",
    "nvlink_tx_bytes_per_second",
    "nvlink_rx_bytes_per_second",
)
"""The fields of a device that change while one looks."""

PROCESS_METRICS = ("used_gpu_memory_bytes", "sm_utilization_percent", "cpu_percent")
"""What is kept of a process, over all its devices."""

HOST_METRICS = ("cpu_percent", "memory_used_bytes", "swap_used_bytes", "load_average")
"""What is kept of a host; of its load averages the one over a minute."""

_device_row = attrgetter(*DEVICE_METRICS)


def device_row(device: Device) -> Row:
    """Return the values of DEVICE_METRICS."""
    row: Row = _device_row(device)
    return row


def host_row(host: Host) -> Row:
    """Return the values of HOST_METRICS."""
    load = host.load_average[0] if host.load_average else None
    return host.cpu_percent, host.memory_used_bytes, host.swap_used_bytes, load
