"""What is wrong or wasteful on many hosts: each rule is a function of a survey of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.fleet.health import gpus, hosts, use
from gpudash.fleet.health.survey import Survey
from gpudash.model.fleet import FleetFinding

Rule = Callable[[Survey], Iterator[FleetFinding]]

RULES: tuple[Rule, ...] = (
    gpus.lost,
    gpus.xids,
    hosts.silent_hosts,
    hosts.sources,
    gpus.stragglers,
    gpus.hot,
    use.held_idle,
    use.allocated_unused,
    hosts.old_values,
    use.kept_alive,
    use.imbalanced,
    hosts.fragmented,
    hosts.driver_skew,
)
"""Every rule; among findings of one level those of an earlier rule come first."""


class Rules:
    """The rules, and since when each of their findings has held."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def forget(self) -> None:
        """Forget since when findings have held: other snapshots follow."""
        self._since.clear()

    def findings(self, survey: Survey) -> tuple[FleetFinding, ...]:
        """Return what is wrong in a snapshot, the worst first."""
        found = [each for rule in RULES for each in rule(survey)]
        found.sort(key=lambda each: -FINDING_RANKS[each.level])
        now = survey.snapshot.taken_at.timestamp()
        since, self._since = self._since, {}
        return tuple([self._with_duration(each, now, since) for each in found])

    def _with_duration(
        self, found: FleetFinding, now: float, since: dict[tuple[str, str], float]
    ) -> FleetFinding:
        """Return a finding with how long it has held, where its rule does not know it."""
        key = found.rule, found.hosts[0] if found.hosts else ""
        began = self._since.setdefault(key, since.get(key, now))
        if found.held_seconds is not None or began == now:
            return found
        return replace(found, held_seconds=now - began)
