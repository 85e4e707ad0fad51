"""The severity of findings and of single values of a device; no colours."""

from __future__ import annotations

from gpudash.analysis.activity import IDLE_PERCENT, notable
from gpudash.model.device import Device
from gpudash.model.process import Process
from gpudash.model.snapshot import FindingLevel
from gpudash.model.state import Level

FINDING_RANKS: dict[FindingLevel, int] = {"info": 0, "warn": 1, "critical": 2}

BUSY_CPU_PERCENT = 20.0
"""From this share of one CPU on, a process counts as working there, and so not as idle."""

_CONTEXT_BYTES = 256 << 20
"""Less than this may be the driver's own; a lone CUDA context takes more."""
_MARGIN_CELSIUS = 10


def works_on_cpu(process: Process) -> bool:
    """Whether a process keeps a CPU busy in the last sample."""
    return (process.cpu_percent or 0.0) >= BUSY_CPU_PERCENT


def utilization_level(device: Device) -> Level:
    """Return ok for a device in use, warn for an idle one whose memory is held.

    An idle and free one is unknown too, and so has no colour.
    """
    percent = device.gpu_utilization_percent
    if percent is None or percent >= IDLE_PERCENT:
        return "unknown" if percent is None else "ok"
    is_held = notable(device.memory_used_bytes, device.memory_total_bytes)
    return "warn" if is_held else "unknown"


def memory_level(device: Device) -> Level:
    """Return warn if 5 % or less is free, critical from 1 %: the next allocation may fail."""
    share = _free_share(device)
    if share is None:
        return "unknown"
    return "critical" if share <= 0.01 else "warn" if share <= 0.05 else "ok"


def temperature_level(device: Device) -> Level:
    """Return critical if the GPU slows itself down, warn 10 degrees below that.

    Unknown if the driver reports no such limit.
    """
    margin = _temperature_margin(device)
    if margin is None:
        return "unknown"
    return "critical" if margin <= 0 else "warn" if margin <= _MARGIN_CELSIUS else "ok"


def memory_temperature_level(device: Device) -> Level:
    """Return critical if warm memory slows down the GPU, warn 10 degrees below that."""
    value, limit = device.memory_temperature_celsius, device.max_memory_temperature_celsius
    if value is None or limit is None:
        return "unknown"
    if value < limit - _MARGIN_CELSIUS:
        return "ok"
    return "critical" if value >= limit else "warn"


def ecc_level(device: Device) -> Level:
    """Return critical for uncorrectable memory errors, warn for any other ones."""
    if device.ecc_uncorrected_volatile_count:
        return "critical"
    return "warn" if device.ecc_corrected_volatile_count else "ok"


def power_level(device: Device) -> Level:
    """Return warn at 98 % of the limit in force."""
    if device.power_usage_mw is None:
        return "unknown"
    limit = device.enforced_power_limit_mw
    return "warn" if limit and device.power_usage_mw >= 0.98 * limit else "ok"


def memory_share(device: Device) -> float | None:
    """Return used of total memory, 0 to 1."""
    used, total = device.memory_used_bytes, device.memory_total_bytes
    return None if used is None or not total else min(max(used / total, 0.0), 1.0)


def _free_share(device: Device) -> float | None:
    """Return free of total memory; memory reserved by the driver is neither used nor free."""
    used, total, free = (
        device.memory_used_bytes,
        device.memory_total_bytes,
        device.memory_free_bytes,
    )
    if free is None and used is not None and total is not None:
        free = total - used
    return None if free is None or not total else free / total


def _temperature_margin(device: Device) -> int | None:
    if device.temperature_margin_celsius is not None:
        return device.temperature_margin_celsius
    if device.temperature_celsius is None:
        return None
    limit = device.max_operating_temperature_celsius or device.slowdown_temperature_celsius
    return None if limit is None else limit - device.temperature_celsius


def is_start_artifact(device: Device, *, has_processes: bool) -> bool:
    """Whether a GPU reports use only because its driver has just started for this reading.

    Without persistence mode, that happens whenever the first program opens an unused GPU, and its
    first samples report up to 100 %. Nothing computes without a context, which takes a process and
    memory; `has_processes` is also True if the processes are unknown.
    """
    return (
        bool(device.gpu_utilization_percent)
        and device.persistence_mode is False
        and not has_processes
        and not device.display_active
        and not device.sm_active_percent
        and device.memory_used_bytes is not None
        and device.memory_used_bytes < _CONTEXT_BYTES
    )
