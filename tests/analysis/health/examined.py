"""Samples of one device or host over time, and what the diagnosis makes of them."""

from typing import Any

from msgspec.structs import replace

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import findings
from gpudash.model.snapshot import Finding, Snapshot
from tests.factories import make_device, make_snapshot


def host(**overrides: Any) -> Snapshot:
    """A host of one GPU that nobody uses, unless told otherwise."""
    fields: dict[str, Any] = {"devices": (make_device(),), "processes": (), "topology": None}
    return make_snapshot(**{**fields, **overrides})


def of_device(**overrides: Any) -> Snapshot:
    """A host whose one GPU differs from a healthy one by that."""
    return host(devices=(make_device(**overrides),))


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    """The same, as it would be taken later."""
    uptime = (snapshot.host.uptime_seconds or 0.0) + seconds
    return replace(snapshot, host=replace(snapshot.host, uptime_seconds=uptime))


def rules(snapshot: Snapshot) -> dict[str, str]:
    """The level of each rule that finds something in a single sample."""
    return {finding.rule: finding.level for finding in findings(snapshot)}


def found(snapshot: Snapshot, rule: str) -> Finding:
    (finding,) = (finding for finding in findings(snapshot) if finding.rule == rule)
    return finding


class Watched:
    """A host that is sampled every second, and the findings after each."""

    def __init__(self) -> None:
        self._diagnosis = Diagnosis()
        self.second = 0

    def see(self, snapshot: Snapshot, seconds: int = 1) -> dict[str, Finding]:
        """Sample the same state for so many seconds; return the findings of the last by rule."""
        told: dict[str, Finding] = {}
        for _ in range(seconds):
            judged = self._diagnosis.examine(later(snapshot, self.second))
            told = {finding.rule: finding for finding in judged.findings or ()}
            self.second += 1
        return told
