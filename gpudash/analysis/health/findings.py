"""What the findings of a snapshot say, without the rules by which they were found."""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from gpudash.model.snapshot import Finding, Snapshot


def findings(snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings of a snapshot; one without any examination is examined by itself.

    A brief one has none: what is missing in it was only not read yet.
    """
    if snapshot.findings is not None or snapshot.brief:
        return snapshot.findings or ()
    from gpudash.analysis.health.engine import Diagnosis

    return Diagnosis().examine(snapshot).findings or ()


def examined(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with status and idle times; one without is examined by itself."""
    if snapshot.brief or all(device.status is not None for device in snapshot.devices):
        return snapshot
    from gpudash.analysis.health.engine import Diagnosis

    found = Diagnosis().examine(snapshot)
    return found if snapshot.findings is None else replace(found, findings=snapshot.findings)


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
