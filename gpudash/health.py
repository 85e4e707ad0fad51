"""How a device is doing: one status word, and levels for its values; no colours."""

from __future__ import annotations

from typing import Literal

from gpudash.snapshot import Device
from gpudash.units import ABSENT

Level = Literal["unknown", "ok", "warn", "critical"]

_STATES: dict[str, tuple[str, Level]] = {
    "asleep": ("asleep", "unknown"),
    "not-answering": ("NO ANSWER", "critical"),
    "lost": ("LOST", "critical"),
    "reset-required": ("RESET", "critical"),
    "failed": ("FAILED", "critical"),
}

# The first that applies is the word: hw-slowdown also stands when one of the two above it does.
_REASONS: dict[str, tuple[str, Level]] = {
    "hw-power-brake-slowdown": ("brake", "critical"),
    "hw-thermal-slowdown": ("thermal", "critical"),
    "hw-slowdown": ("hw-slow", "critical"),
    "sw-thermal-slowdown": ("thermal", "warn"),
    "sw-power-cap": ("power-cap", "warn"),
}

_HELD_SHARE = 0.05
_MARGIN_CELSIUS = 10
_SLOWDOWN_CELSIUS = 90


def status(device: Device) -> str:
    """Return one word: what is wrong, what holds its clocks, or `ok`, `idle`, `asleep`, `-`."""
    return _status(device)[0]


def status_level(device: Device) -> Level:
    """Return how bad the status is."""
    return _status(device)[1]


def _status(device: Device) -> tuple[str, Level]:
    if device.state != "ok":
        return _STATES[device.state]
    reasons = device.clocks_event_reasons
    for reason, word in _REASONS.items():
        if reason in (reasons or ()):
            return word
    if device.gpu_utilization_percent == 0:
        return "idle", "warn" if utilization_level(device) == "warn" else "ok"
    if device.gpu_utilization_percent is None and reasons is None:
        return ABSENT, "unknown"
    return "ok", "ok"


def utilization_level(device: Device) -> Level:
    """Return ok for a device that computes, warn for an idle one whose memory is held."""
    if device.gpu_utilization_percent == 0 and (memory_share(device) or 0) >= _HELD_SHARE:
        return "warn"
    return "ok" if device.gpu_utilization_percent else "unknown"


def memory_level(device: Device) -> Level:
    """Return warn from 95 % used, critical from 99 %: the next allocation may fail."""
    share = memory_share(device)
    if share is None:
        return "unknown"
    return "critical" if share >= 0.99 else "warn" if share >= 0.95 else "ok"


def temperature_level(device: Device) -> Level:
    """Return critical where the GPU slows itself down, warn 10 degrees before."""
    margin = _temperature_margin(device)
    if margin is None:
        return "unknown"
    return "critical" if margin <= 0 else "warn" if margin <= _MARGIN_CELSIUS else "ok"


def memory_temperature_level(device: Device) -> Level:
    """Return critical where warm memory slows the GPU down, warn 10 degrees before."""
    value, limit = device.memory_temperature_celsius, device.max_memory_temperature_celsius
    if value is None:
        return "unknown"
    if limit is None or value < limit - _MARGIN_CELSIUS:
        return "ok"
    return "critical" if value >= limit else "warn"


def is_hot(device: Device) -> bool:
    """Return whether a GPU is so warm that it slows itself down, or is about to."""
    thermal = {"hw-thermal-slowdown", "sw-thermal-slowdown"}
    slowed = not thermal.isdisjoint(device.clocks_event_reasons or ())
    return slowed or temperature_level(device) == "critical"


def ecc_level(device: Device) -> Level:
    """Return critical for memory errors that could not be corrected, else warn for any."""
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


def _temperature_margin(device: Device) -> int | None:
    if device.temperature_margin_celsius is not None:
        return device.temperature_margin_celsius
    if device.temperature_celsius is None:
        return None
    limit = device.max_operating_temperature_celsius or device.slowdown_temperature_celsius
    return (limit or _SLOWDOWN_CELSIUS) - device.temperature_celsius
