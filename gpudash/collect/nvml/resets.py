"""Whether a GPU began anew while it was out of sight: told by what only a reset takes back.

A reset needs the GPU without clients, so it cannot happen while gpudash reads it. What follows is
compared from one handle to the next. The volatile ECC counters are left out: root clears them
whenever it likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpudash.collect.nvml import codes

CAME_BACK = frozenset({codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNINITIALIZED})
"""What a GPU answers that can be read again only after a reset, or another load of the driver."""

_RISING = ("total_energy_mj", "pcie_replay_count")
"""Counters since the driver took the GPU over, which nobody else sets back."""
_MENDED = ("remapped_rows_pending", "retired_pages_pending")
"""What waits for a reset."""
_OUT = frozenset({"lost", "reset-required"})
"""States from which the same brings a GPU back."""
_RESETS = frozenset({"gpu-reset", "drain-and-reset", "bus-reset", "node-reboot", "system-reboot"})


def was_reset(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the values of a new handle are those of a GPU that began anew since `before`."""
    return (
        before.get("state") in _OUT
        or any(_fell(before.get(name), after.get(name)) for name in _RISING)
        or any(before.get(name) is True and after.get(name) is False for name in _MENDED)
        or (before.get("recovery_action") in _RESETS and after.get("recovery_action") == "none")
    )


def _fell(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after < before
