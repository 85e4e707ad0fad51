"""The rules by family: each looks at a sample and tells the symptoms that hold in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpudash.analysis.health.context import Sight
from gpudash.analysis.health.rule import Rule, Symptom
from gpudash.analysis.health.rules import (
    clocks,
    holding,
    leasing,
    links,
    memory,
    reliability,
    state,
)

Family = Callable[[Sight], Iterable[Symptom]]

RULES: tuple[Rule, ...] = (
    state.LOST,
    state.RESET_REQUIRED,
    state.NOT_ANSWERING,
    state.FAILED,
    state.RECOVERY,
    reliability.XID,
    reliability.ECC,
    reliability.REMAP_FAILED,
    state.FABRIC,
    clocks.POWER_BRAKE,
    clocks.THERMAL_HARDWARE,
    clocks.HARDWARE_SLOWDOWN,
    holding.HOLDS_MANY,
    clocks.THERMAL_SOFTWARE,
    clocks.POWER_CAPPED,
    holding.HELD_IDLE,
    leasing.LEASED_UNUSED,
    memory.UNACCOUNTED,
    reliability.REMAP_PENDING,
    reliability.RETIREMENT_PENDING,
    links.NVLINK_DOWN,
    links.NVLINK_ERRORS,
    state.FABRIC_DEGRADED,
    links.PCIE_REDUCED,
    links.PCIE_REPLAYS,
    clocks.CLOCKS_LOW,
    holding.HOST_BOUND,
    memory.FULL,
    links.NO_P2P,
    state.ASLEEP,
    state.RESTING,
    state.UNIFIED,
)
"""Every rule there is; of two findings of one level the earlier rule's matters more."""

RANKS = {rule.id: rank for rank, rule in enumerate(RULES)}
WORDS = {rule.id: rule.word for rule in RULES if rule.word}


def families() -> tuple[Family, ...]:
    """Return what looks at every sample of one host, in turn."""
    return (
        state.unreadable,
        state.recovery,
        state.fabric,
        state.unified,
        clocks.slowdowns,
        clocks.low_clocks,
        reliability.memory_errors,
        reliability.xids,
        memory.full,
        memory.unaccounted,
        links.nvlinks,
        links.pcie,
        links.MissingP2p(),
        holding.holders,
        holding.starved,
        leasing.UnusedLeases(),
    )
