"""Chips whose GPU has no memory of its own but shares the host's: Jetson, GB10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INTEGRATED = frozenset({"gb10", "orin", "thor", "xavier", "tegra", "nvgpu", "n1x"})
_SIZES = ("memory_total_bytes", "memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes")


def memory_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the memory is the host's, and no size where NVML has none to tell.

    Such a chip answers NOT_SUPPORTED, or 0 bytes in total. So may a lost GPU, or a MIG parent
    without rights: only the name, or page tables shared with the CPU, tell them apart.
    """
    if facts.get("memory_total_bytes") is not None:
        return {"unified_memory": False}
    words = (facts.get("name") or "").lower().replace("(", " ").replace(")", " ").split()
    is_integrated = not _INTEGRATED.isdisjoint(words) or facts.get("addressing_mode") == "ats"
    is_unified = is_integrated and not facts.get("mig_mode")
    return {**dict.fromkeys(_SIZES), "unified_memory": True if is_unified else None}
