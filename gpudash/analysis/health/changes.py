"""Which findings appear and disappear from one snapshot of a host to the next."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from gpudash.analysis.health.levels import FINDING_RANKS
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot, UptimeClock, gpus_unknown

_GONE_SECONDS = 30.0
"""How long a finding must be absent to count as gone: one that flaps appears once."""


class FindingChange(NamedTuple):
    """A finding that appeared, or one that disappeared, as last seen."""

    event: Literal["appeared", "gone"]
    finding: Finding


class _Known(Struct):
    finding: Finding
    rank: int
    seen_at: float


class FindingChanges:
    """Compares findings of a minimum level with those of earlier snapshots."""

    def __init__(self, level: FindingLevel, gone_seconds: float = _GONE_SECONDS) -> None:
        self._min_rank = FINDING_RANKS[level]
        self._gone_seconds = gone_seconds
        self._clock = UptimeClock()
        self._known: dict[object, _Known] = {}

    def update(self, snapshot: Snapshot) -> list[FindingChange]:
        """Return findings that appeared or became worse, and those that disappeared.

        Snapshots that are brief, unexamined or without a list of GPUs are ignored; findings about a
        GPU that does not answer do not disappear.
        """
        if snapshot.brief or snapshot.findings is None or gpus_unknown(snapshot):
            return []
        now = self._clock.instant(snapshot)
        changes = []
        for finding in snapshot.findings:
            rank, key = FINDING_RANKS[finding.level], _key(finding)
            if rank < self._min_rank or finding.acknowledged is not None:
                continue
            known = self._known.setdefault(key, _Known(finding, -1, now))
            if rank > known.rank:
                changes.append(FindingChange("appeared", finding))
            known.finding, known.rank, known.seen_at = finding, max(rank, known.rank), now
        silent = {device.key for device in snapshot.devices if device.state == "not-answering"}
        for key, known in list(self._known.items()):
            # After a reboot, the clock restarts.
            known.seen_at = min(known.seen_at, now)
            is_away = now - known.seen_at >= self._gone_seconds
            if is_away and silent.isdisjoint(known.finding.uuids):
                changes.append(FindingChange("gone", known.finding))
                del self._known[key]
        return changes


def _key(finding: Finding) -> object:
    """Return the identity of a finding: its numbers and its list of processes may change."""
    alone = finding.pids if len(finding.pids) == 1 else ()
    return finding.rule, finding.uuids or finding.indices, alone
