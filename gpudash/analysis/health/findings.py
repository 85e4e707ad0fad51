"""Findings and status in a snapshot; an unexamined one is examined on its own."""

from __future__ import annotations

from msgspec.structs import replace

from gpudash.analysis.health.context import ActivityTracker, RuleContext
from gpudash.analysis.status import FindingsByDevice, by_device, findings_about, judged, usable
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.state import State, state_of


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot; an unexamined one is examined on its own.

    A brief one has none: values missing in it were just not read yet.
    """
    if snapshot.findings is not None or snapshot.brief:
        return snapshot.findings or ()
    from gpudash.analysis.health.engine import Diagnosis

    return Diagnosis().examine(snapshot).findings or ()


def examined(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with status and idle times; an unexamined one is examined on its own."""
    if snapshot.brief or all(device.status is not None for device in snapshot.devices):
        return snapshot
    from gpudash.analysis.health.engine import Diagnosis

    found = Diagnosis().examine(snapshot)
    return found if snapshot.findings is None else replace(found, findings=snapshot.findings)


def findings_by_device(snapshot: Snapshot) -> FindingsByDevice:
    """Return the findings about each device by key, without devices that have none."""
    return by_device(snapshot, findings(snapshot))


def statuses(snapshot: Snapshot, findings: FindingsByDevice | None = None) -> dict[str, State]:
    """Return the state of each device by key; `findings` are those by device, if known.

    It is that of the document; without one, it is decided as in a first sample.
    """
    if all(device.status is not None for device in snapshot.devices):
        return {device.key: state_of(device.status) for device in snapshot.devices}
    tracker = ActivityTracker()
    tracker.add(0.0, snapshot)
    context = RuleContext(snapshot, tracker, is_first=True)
    return judged(context, findings_by_device(snapshot) if findings is None else findings)


def acknowledged_gpus(snapshot: Snapshot) -> frozenset[int]:
    """Return the indices of the GPUs whose findings are acknowledged."""
    known = (each for each in snapshot.findings or () if each.acknowledged is not None)
    return frozenset(index for each in known for index in each.indices)


def unusable_devices(snapshot: Snapshot) -> dict[str, str]:
    """Return by key why no job may have a device, for all such devices."""
    findings = findings_by_device(snapshot)
    reasons = {d.key: usable(d, findings_about(d, findings)) for d in snapshot.devices}
    return {key: reason for key, reason in reasons.items() if reason is not None}
