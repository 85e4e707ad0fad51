"""What the findings of a snapshot say, without the rules by which they were found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from gpudash.model.snapshot import Finding, Snapshot

_IDLE_RULES = frozenset({"held-idle", "cpu-bound", "disk-bound"})
_IDLE_PROOFS = frozenset({"idle_seconds", "unused_seconds"})
_MAX_IDLE_SECONDS = 1e12
"""Bounds what a hostile document says."""


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot; one without any examination is examined by itself.

    A brief one has none: what is missing in it was only not read yet.
    """
    if snapshot.findings is not None or snapshot.brief:
        return snapshot.findings or ()
    from gpudash.analysis.health.engine import Diagnosis

    return Diagnosis().examine(snapshot).findings or ()


class ReportedIdle(NamedTuple):
    """For how long a finding says that a process has been idle; if not its own, at least."""

    seconds: float
    is_own: bool


def reported_idle(findings: Iterable[Finding]) -> dict[int, ReportedIdle]:
    """Return by PID for how long processes that hold GPUs have not used them, as findings say."""
    found: dict[int, ReportedIdle] = {}
    for finding in findings:
        if finding.rule not in _IDLE_RULES or finding.held_seconds is None:
            continue
        for pid in finding.pids:
            subject = f"PID {pid} on "
            own = [
                proof.value
                for proof in finding.evidence
                if proof.name in _IDLE_PROOFS
                and (proof.of or "").startswith(subject)
                and isinstance(proof.value, (int, float))
            ]
            seconds = min(own, default=finding.held_seconds)
            found[pid] = ReportedIdle(max(0.0, min(seconds, _MAX_IDLE_SECONDS)), bool(own))
    return found


def findings_by_device(snapshot: Snapshot) -> dict[str, tuple[Finding, ...]]:
    """Return the findings about each device by its key, without devices that have none."""
    uuids: dict[str, str] = {d.uuid: d.key for d in snapshot.devices if d.uuid}
    nameless = {device.index: device.key for device in snapshot.devices if not device.uuid}
    concerned: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings(snapshot):
        keys = [uuids[uuid] for uuid in finding.uuids if uuid in uuids]
        keys += [nameless[index] for index in finding.indices if index in nameless]
        for key in keys:
            concerned[key].append(finding)
    return {key: tuple(found) for key, found in concerned.items()}
