"""What the sensors of a simulated card read at one tick."""

from __future__ import annotations

from msgspec import Struct

TICKS_PER_SECOND = 10
"""How often the sensors of a simulated card are read."""

IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20
"""The clock event reasons that occur here: nvmlClocksEventReason GpuIdle, SwPowerCap, SwThermal."""


class Moment(Struct, frozen=True):
    """What the sensors of a card read at one tick; percent, mW, degrees, MHz."""

    tick: int
    loads: tuple[int, ...]
    gpu_utilization: int
    memory_utilization: int
    encoder_utilization: int
    decoder_utilization: int
    average_power: int
    instant_power: int
    temperature: int
    reasons: int
    sm_clock: int
    memory_clock: int
    video_clock: int
    performance_state: int

    @property
    def timestamp(self) -> int:
        """When the sensors were read, Unix time in µs."""
        return self.tick * (1_000_000 // TICKS_PER_SECOND)


def blend(loads: tuple[int, ...], ratios: list[float]) -> int:
    """Return the percentage that loads add up to when each counts by its ratio."""
    total = sum(load_of(load, ratio) for load, ratio in zip(loads, ratios, strict=True))
    return min(100, total)


def load_of(load: int, ratio: float) -> int:
    """Return the percentage of an engine that a program of that load keeps busy."""
    return min(100, round(load * ratio))
