"""The NVML calls about one GPU: name -> answer, where None is NOT_SUPPORTED.

A call that is not in a table is one that this GPU's driver does not support.
"""

from __future__ import annotations

from typing import Any

from gpudash.collect.simulated.device_facts import FACTS, Call
from gpudash.collect.simulated.gpu import Gpu
from gpudash.collect.simulated.results import Boxed, Record, pick

_MICROSECONDS = 167_000


def memory(total: int, reserved: int, used: int, version: int | None) -> Record:
    """Return the memory structure of version 1, whose used is not told from reserved, or 2."""
    free = total - reserved - used
    if version is None:
        return Record(total=total, free=free, used=used + reserved)
    return Record(version=version, total=total, reserved=reserved, free=free, used=used)


def _bar1(gpu: Gpu) -> Record:
    total = gpu.board.bar1
    used = min(total, (1 + len(gpu.occupants)) << 20)
    return Record(bar1Total=total, bar1Used=used, bar1Free=total - used)


def _fan(gpu: Gpu, now: float) -> int | None:
    if not gpu.board.fans:
        return None
    wanted = round((gpu.at(now).temperature - 35) * 1.6)
    return max(gpu.board.lowest_fan, min(100, wanted))


def _margin(gpu: Gpu, now: float) -> int | None:
    if not gpu.board.margin:
        return None
    return gpu.board.thresholds.slowdown - gpu.at(now).temperature


def _clock(gpu: Gpu, now: float, kind: int) -> int:
    moment = gpu.at(now)
    clocks = (moment.sm_clock, moment.sm_clock, moment.memory_clock, moment.video_clock)
    return pick(clocks, kind)


def _not_in_mig(gpu: Gpu, value: Any) -> Any:
    """Return the value, or None on a GPU in MIG mode, which has no engine of its own to measure."""
    return None if gpu.card.mig else value


def _throughput(gpu: Gpu, now: float, direction: int) -> int:
    rate = sum(
        occupant.share.pcie * load / 100
        for occupant, load in zip(gpu.occupants, gpu.at(now).loads, strict=True)
    )
    return round(rate * 1e6 * pick((0.8, 1.0), direction))


MOVING: dict[str, Call] = {
    "MemoryInfo": lambda g, now, version=None: memory(
        g.board.memory, g.board.reserved, g.memory_used, version
    ),
    "BAR1MemoryInfo": lambda g, now: _bar1(g),
    "UtilizationRates": lambda g, now: _not_in_mig(
        g, Record(gpu=g.at(now).gpu_utilization, memory=g.at(now).memory_utilization)
    ),
    "EncoderUtilization": lambda g, now: _not_in_mig(
        g, [g.at(now).encoder_utilization, _MICROSECONDS]
    ),
    "DecoderUtilization": lambda g, now: _not_in_mig(
        g, [g.at(now).decoder_utilization, _MICROSECONDS]
    ),
    "JpgUtilization": lambda g, now: _not_in_mig(g, [0, _MICROSECONDS] if g.board.media else None),
    "OfaUtilization": lambda g, now: _not_in_mig(g, [0, _MICROSECONDS] if g.board.media else None),
    "TemperatureV": lambda g, now, sensor: pick((g.at(now).temperature,), sensor),
    "Temperature": lambda g, now, sensor: pick((g.at(now).temperature,), sensor),
    "MarginTemperature": _margin,
    "FanSpeed": _fan,
    "FanSpeed_v2": lambda g, now, fan: pick((_fan(g, now),) * g.board.fans, fan),
    "FanSpeedRPM": lambda g, now: (
        (_fan(g, now) or 0) * 30 if g.board.fans and g.board.margin else None
    ),
    "PowerUsage": lambda g, now: (
        g.at(now).average_power if g.board.average_power else g.at(now).instant_power
    ),
    "TotalEnergyConsumption": lambda g, now: g.energy(now) if g.board.energy_counter else None,
    "ClockInfo": _clock,
    "PerformanceState": lambda g, now: g.at(now).performance_state,
    "PowerState": lambda g, now: g.at(now).performance_state,
    "CurrentClocksEventReasons": lambda g, now: g.at(now).reasons,
    "CurrentClocksThrottleReasons": lambda g, now: g.at(now).reasons,
    "CurrPcieLinkGeneration": lambda g, now: (
        g.board.pcie_generation if g.at(now).gpu_utilization else g.board.idle_pcie_generation
    ),
    "PcieThroughput": _throughput,
    "MigMode": lambda g, now: [int(g.card.mig)] * 2 if g.board.mig_slots else None,
    "MaxMigDeviceCount": lambda g, now: g.board.mig_slots,
}
"""Calls whose answer changes over time, without their `nvmlDeviceGet`."""

DEVICE_CALLS: dict[str, Call] = {
    **{f"nvmlDeviceGet{name}": call for name, call in {**FACTS, **MOVING}.items()},
    "nvmlDeviceIsMigDeviceHandle": lambda g, now: Boxed(0),
}
"""Calls on the handle of a whole GPU: (gpu, now, *arguments) -> answer."""
