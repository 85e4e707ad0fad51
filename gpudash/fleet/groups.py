"""Hosts added up by what they have in common: a rack, partition, GPU model or cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gpudash.fleet.summary import HostRow, Totals, is_whole_and_free, totals
from gpudash.model.fleet import FleetHost
from gpudash.model.state import State
from gpudash.model.text import SafeText
from gpudash.model.units import grouped


class GroupRow(NamedTuple):
    """The sums of a group of hosts."""

    name: SafeText | None
    """What they have in common, None if unknown."""
    sums: Totals
    worst: HostRow
    """The host with the worst finding."""
    bad: int
    """Hosts with findings."""
    whole: int
    """Hosts that a job may have as a whole."""

    def count(self, state: State) -> int:
        """Return how many GPUs are in a state."""
        return self.sums.counts.get(state.id, 0)


def model_of(host: FleetHost) -> SafeText | None:
    """Return the product name of a host's first GPU, None if unknown."""
    return next((each.name for each in host.devices if each.parent_uuid is None), None)


GROUPINGS: Mapping[str, Callable[[FleetHost], SafeText | None]] = {
    "rack": lambda host: host.group,
    "model": model_of,
    "cluster": lambda host: host.cluster,
}
"""How hosts can be grouped, by the term of the filter."""


def group_rows(rows: Iterable[HostRow], by: str) -> list[GroupRow]:
    """Return the groups of hosts with a value in common."""
    found = grouped((GROUPINGS[by](row.host), row) for row in rows)
    return [
        GroupRow(
            name,
            totals(members),
            min(members, key=lambda row: row.worst_first),
            sum(row.level in ("warn", "critical") for row in members),
            sum(map(is_whole_and_free, members)),
        )
        for name, members in found.items()
    ]
