"""What is wrong or wasteful on many hosts: each rule is a function of a survey of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.fleet.health import gpus, hosts, use
from gpudash.fleet.health.survey import Survey
from gpudash.model.fleet import HOST_STATES
from gpudash.model.snapshot import Finding
from gpudash.model.state import HOT, STATES

Rule = Callable[[Survey], Iterator[Finding]]

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


FINDINGS: Mapping[str, str] = {
    **{f"gpus-{s.id}": f"GPUs that {s.plural}" for s in STATES if s.is_problem and s is not HOT},
    "gpus-missing": "GPUs that a host had an hour ago, or should have, are gone",
    "xid-critical": "recent XID errors that need a person",
    "xid-burst": "the same XID error on several hosts of a group",
    **{
        f"host-{state}": f"a host {words.sentence}"
        for state, words in HOST_STATES.items()
        if state not in ("ok", "connecting")
    },
    "source-failed": "a Prometheus, exporters or Slurm do not answer",
    "source-partial": "a Prometheus answers in part",
    "straggler": "a GPU slower than the others of its job, which wait for it",
    "hot-outlier": "GPUs far hotter than others of their model, or that slow down for heat",
    "held-idle": "GPUs with memory in use that have not computed for an hour",
    "allocated-unused": "GPUs that a job has and nothing uses for 15 minutes",
    "values-old": "hosts that answer with values older than 5 minutes",
    "kept-alive": "full utilization without work in cores, memory and power",
    "imbalanced-job": "jobs that leave half of their GPUs or more idle",
    "fragmented": "many free GPUs, but few hosts on which all are free",
    "driver-skew": "hosts with another driver than most",
}
"""What each finding is about, by the name that it has in a document."""


class Rules:
    """The rules, and since when each of their findings has held."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def forget(self) -> None:
        """Forget since when findings have held: other snapshots follow."""
        self._since.clear()

    def findings(self, survey: Survey) -> tuple[Finding, ...]:
        """Return what is wrong in a snapshot, the worst first."""
        found = [each for rule in RULES for each in rule(survey)]
        found.sort(key=lambda each: -FINDING_RANKS[each.level])
        now = survey.snapshot.taken_at.timestamp()
        since, self._since = self._since, {}
        return tuple([self._with_duration(each, now, since) for each in found])

    def _with_duration(
        self, found: Finding, now: float, since: dict[tuple[str, str], float]
    ) -> Finding:
        """Return a finding with how long it has held, where its rule does not know it."""
        key = found.rule, found.hosts[0] if found.hosts else ""
        began = self._since.setdefault(key, since.get(key, now))
        if found.held_seconds is not None or began == now:
            return found
        return replace(found, held_seconds=now - began)
