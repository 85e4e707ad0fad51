"""Conversion of the snapshot of one host to a host among many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import statuses
from gpudash.analysis.health.rules import RULES_BY_ID
from gpudash.analysis.health.rules.reliability import DAY_SECONDS, is_recent
from gpudash.model.device import AnyDevice, Device, device_labels
from gpudash.model.errors import WireError
from gpudash.model.fleet import FleetDevice, FleetHost, FleetProcess, FleetSnapshot
from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import HOT, is_suspended_on_purpose
from gpudash.model.text import NAME_BYTES, SafeText, bound

if TYPE_CHECKING:
    from gpudash.feed.recording.reader import Recording

_MAX_USERS, _MAX_PROCESSES = 64, 256
_SAME = tuple(name for name in AnyDevice.__struct_fields__ if name not in ("name", "label"))
"""Fields that `FleetDevice` has unchanged."""
_Holders = defaultdict[str | None, set[SafeText]]


class SnapshotReader:
    """Converts the snapshots of one host, one after the other."""

    def __init__(self, name: SafeText, group: SafeText | None) -> None:
        self._name, self._group = name, group
        self._diagnosis = Diagnosis()
        self._seen_at: dict[int, float] = {}
        """When the host last had the GPU of an index, within a day."""
        self._held: tuple[_Holders, _Holders] = defaultdict(set), defaultdict(set)
        """Users and jobs by device; a lost device keeps its last ones."""

    def read_nothing(self) -> FleetHost:
        """Return a host with only its name known."""
        return FleetHost(name=self._name, group=self._group, state="connecting")

    def forget(self) -> None:
        """Forget since when GPUs have been idle: what they did meanwhile is unknown."""
        self._diagnosis = Diagnosis()

    def read(self, snapshot: Snapshot) -> FleetHost:
        """Return the host of a snapshot.

        It keeps the name that it was asked by, whatever it calls itself. Findings and
        statuses that it lacks are computed here. GPUs that it had are expected for a day.
        """
        if snapshot.findings is None or any(each.status is None for each in snapshot.devices):
            snapshot = self._diagnosis.examine(snapshot)
        states, labels = statuses(snapshot), device_labels(snapshot.devices)
        users, jobs = self._held = self._holders(snapshot)
        host = snapshot.host
        devices = []
        for device in snapshot.devices:
            job = jobs.get(device.uuid, ())
            same: dict[str, Any] = {name: getattr(device, name) for name in _SAME}
            devices.append(
                FleetDevice(
                    **same,
                    # An older gpudash sends no labels.
                    label=labels[device.key],
                    name=device.name and bound(device.name, NAME_BYTES),
                    status=states[device.key].id,
                    **_recent_xid(device, snapshot),
                    users=tuple(sorted(users.get(device.uuid, ()))[:_MAX_USERS]),
                    job=next(iter(job)) if len(job) == 1 else None,
                )
            )
        now = snapshot.taken_at.timestamp()
        self._seen_at.update({each.index: now for each in devices if each.parent_uuid is None})
        self._seen_at = {i: at for i, at in self._seen_at.items() if now - at <= DAY_SECONDS}
        return FleetHost(
            name=self._name,
            group=self._group,
            expected_devices=len(self._seen_at) or None,
            driver_version=host.driver_version,
            cpu_percent=host.cpu_percent,
            memory_used_bytes=host.memory_used_bytes,
            memory_total_bytes=host.memory_total_bytes,
            slow_seconds=_slow_seconds(snapshot),
            devices=tuple(devices),
            processes=tuple(_processes(snapshot)),
        )

    def _holders(self, snapshot: Snapshot) -> tuple[_Holders, _Holders]:
        """Return users and jobs by device; those of a lost device can no longer be seen."""
        held = _holders(snapshot)
        for each in snapshot.devices:
            if each.state != "ok" and not is_suspended_on_purpose(each):
                for known, before in zip(held, self._held, strict=True):
                    known[each.uuid] = known[each.uuid] or before[each.uuid]
        return held

    def alone(self, snapshot: Snapshot) -> FleetSnapshot:
        """Return a fleet of only this host."""
        return FleetSnapshot(taken_at=snapshot.taken_at, hosts=(self.read(snapshot),))


def recorded(
    recording: Recording, start: datetime, end: datetime, step: int = 1
) -> Iterator[tuple[FleetSnapshot, Sequence[Lease]]]:
    """Yield the fleet before `start` and from there to `end`, with the leases of one host.

    The first sample of each multiple of `step` seconds counts, whatever `start` is. Unreadable
    lines of a damaged recording are skipped.
    """
    before = recording.at(start).taken_at
    reader, last = None, None
    begin = before - timedelta(seconds=before.timestamp() % step)
    for sample in recording.between(begin, end):
        number = sample.taken_at.timestamp() // step
        if number == last:
            continue
        last = number
        try:
            if sample.is_fleet:
                yield sample.fleet(), ()
                continue
            snapshot = sample.snapshot()
        except WireError:
            continue
        if not snapshot.brief:
            reader = reader or SnapshotReader(snapshot.host.hostname, None)
            yield reader.alone(snapshot), snapshot.leases


def _slow_seconds(snapshot: Snapshot) -> dict[str, float]:
    """Return how long heat has slowed down GPUs, by UUID, where known."""
    found: dict[str, float] = {}
    for finding in snapshot.findings or ():
        rule, seconds = RULES_BY_ID.get(finding.rule), finding.held_seconds
        if rule is not None and rule.status is HOT and seconds is not None:
            for uuid in finding.uuids:
                found[uuid] = max(seconds, found.get(uuid, 0.0))
    return found


def _processes(snapshot: Snapshot) -> list[FleetProcess]:
    """Return the computing processes, those without a Slurm job first."""
    found = []
    for process in snapshot.processes:
        uuids = tuple([each.uuid for each in process.devices if each.uuid and each.type != "G"])
        if uuids:
            is_slurm = process.job is not None and process.job.kind == "slurm"
            found.append(
                FleetProcess(
                    pid=process.pid,
                    username=process.username and bound(process.username, NAME_BYTES),
                    job=bound(process.job.id, NAME_BYTES) if process.job and is_slurm else None,
                    uuids=uuids,
                )
            )
    return sorted(found, key=lambda each: each.job is not None)[:_MAX_PROCESSES]


def _holders(snapshot: Snapshot) -> tuple[_Holders, _Holders]:
    """Return users and Slurm jobs by device; a GPU has those of its instances too."""
    parents: dict[str | None, SafeText | None] = {
        device.uuid: device.parent_uuid for device in snapshot.devices
    }
    users: _Holders = defaultdict(set)
    jobs: _Holders = defaultdict(set)
    for process in snapshot.processes:
        for share in process.devices:
            if share.type == "G" or share.uuid is None:
                continue
            for uuid in filter(None, (share.uuid, parents.get(share.uuid))):
                if process.username is not None:
                    users[uuid].add(bound(process.username, NAME_BYTES))
                if process.job is not None and process.job.kind == "slurm":
                    jobs[uuid].add(bound(process.job.id, NAME_BYTES))
    for lease in snapshot.leases:
        for uuid in filter(None, (lease.uuid, parents.get(lease.uuid))):
            if lease.username is not None:
                users[uuid].add(bound(lease.username, NAME_BYTES))
    return users, jobs


def _recent_xid(device: Device, snapshot: Snapshot) -> dict[str, Any]:
    """Return the last XID if it is recent, and its age by the clock of its host."""
    now = snapshot.taken_at.timestamp()
    recent = [
        {"xid": event.code, "xid_seconds": max(0.0, now - event.seen_at)}
        for event in device.xid_events or ()
        if event.code is not None and is_recent(event.code, now - event.seen_at)
    ]
    return recent[-1] if recent else {}
