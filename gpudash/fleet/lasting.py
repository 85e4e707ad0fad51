"""What a rule finds of a GPU for as long as its values are within bounds.

A source with a past tells for how long they have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from gpudash.model.fleet import FleetDevice
from gpudash.model.text import SafeText


class Bound(NamedTuple):
    """Of a field of a device: at least a value, and below another."""

    field: str
    least: float = -inf
    below: float = inf

    def holds(self, device: FleetDevice) -> bool:
        """Whether it holds of a device; not of a value that is not known."""
        value = getattr(device, self.field)
        return value is not None and self.least <= value < self.below


Key = tuple[str, SafeText]
"""The id of a rule, and the UUID of a GPU."""

Lasting = Mapping[Key, tuple[Bound, ...]]
"""What is found now, and while all of which bounds hold."""

Lasted = Mapping[Key, float]
"""For how many seconds, of what that is known of; infinity for longer than is known."""

RESTS = "held-idle"
"""The rule of a GPU that rests, of which the time is known without a question: at least that."""


def longest(known: Iterable[Lasted]) -> Lasted:
    """Return what several sources know: one with a shorter past has seen no more than that."""
    found: dict[Key, float] = {}
    for key, seconds in (pair for each in known for pair in each.items()):
        found[key] = max(seconds, found.get(key, seconds))
    return found
