"""Findings about a GPU that last for as long as its values are within bounds.

A source with a past knows for how long they have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from gpudash.model.fleet import FleetDevice
from gpudash.model.text import SafeText


class Bound(NamedTuple):
    """The bounds of a device's field: at least `least`, and below `below`."""

    field: str
    least: float = -inf
    below: float = inf

    def holds(self, device: FleetDevice) -> bool:
        """Whether the value of a device is known and within the bounds."""
        value = getattr(device, self.field)
        return value is not None and self.least <= value < self.below


Key = tuple[str, SafeText]
"""The id of a rule, and the UUID of a GPU."""

Lasting = Mapping[Key, tuple[Bound, ...]]
"""Current findings, each with the bounds that must all hold."""

Lasted = Mapping[Key, float]
"""For how many seconds findings have lasted, where known; infinity for longer than the past."""

RESTS = "held-idle"
"""The rule of a resting GPU, whose minimum time is known without a query."""


def longest(known: Iterable[Lasted]) -> Lasted:
    """Return the longest known times: a source with a shorter past has seen no more than that."""
    found: dict[Key, float] = {}
    for key, seconds in (pair for each in known for pair in each.items()):
        found[key] = max(seconds, found.get(key, seconds))
    return found
