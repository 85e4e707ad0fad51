"""How a host is doing: levels of values, findings, and one status word for each device; no colours.

`Diagnosis` judges snapshot after snapshot where they are taken; whatever shows a snapshot reads
its findings, so that screens, tables and documents tell the same.
"""

from __future__ import annotations

from gpudash.analysis.health.engine import Diagnosis, findings, findings_by_device
from gpudash.analysis.health.levels import (
    Level,
    ecc_level,
    memory_level,
    memory_share,
    memory_temperature_level,
    notable,
    power_level,
    temperature_level,
    utilization_level,
)
from gpudash.analysis.health.rule import LEFT_OUT, spoken
from gpudash.analysis.health.status import is_held, is_hot, status, status_level

__all__ = [
    "LEFT_OUT",
    "Diagnosis",
    "Level",
    "ecc_level",
    "findings",
    "findings_by_device",
    "is_held",
    "is_hot",
    "memory_level",
    "memory_share",
    "memory_temperature_level",
    "notable",
    "power_level",
    "spoken",
    "status",
    "status_level",
    "temperature_level",
    "utilization_level",
]
