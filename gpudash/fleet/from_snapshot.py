"""The snapshot of one host -> what is known of it among many hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.health.findings import statuses
from gpudash.model.device import AnyDevice, Device, device_labels
from gpudash.model.fleet import FleetDevice, FleetHost
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import NAME_BYTES, SafeText, bound

_XID_SECONDS = 3600.0
_MAX_USERS = 64
_SAME = tuple(name for name in AnyDevice.__struct_fields__ if name not in ("name", "label"))
"""Fields that a device of many hosts has as they are."""


class SnapshotReader:
    """Reads the snapshots of one host, one after the other."""

    def __init__(self, name: SafeText, group: SafeText | None) -> None:
        self._name, self._group = name, group
        self._diagnosis = Diagnosis()

    def read_nothing(self) -> FleetHost:
        """Return a host of which only the name is known."""
        return FleetHost(name=self._name, group=self._group, state="connecting")

    def forget(self) -> None:
        """Forget since when GPUs are idle: nothing is known of what they did meanwhile."""
        self._diagnosis = Diagnosis()

    def read(self, snapshot: Snapshot) -> FleetHost:
        """Return what is known of the host.

        A name that it gives itself does not count: it is the one that it was asked by. What it has
        not judged by itself is judged here.
        """
        if snapshot.findings is None or any(each.status is None for each in snapshot.devices):
            snapshot = self._diagnosis.examine(snapshot)
        states, labels = statuses(snapshot), device_labels(snapshot.devices)
        users, jobs = _holders(snapshot)
        host = snapshot.host
        devices = []
        for device in snapshot.devices:
            job = jobs.get(device.uuid, ())
            same: dict[str, Any] = {name: getattr(device, name) for name in _SAME}
            devices.append(
                FleetDevice(
                    **same,
                    # Also of a host whose gpudash is older and sends none.
                    label=labels[device.key],
                    name=device.name and bound(device.name, NAME_BYTES),
                    status=states[device.key].id,
                    xid=_recent_xid(device, snapshot),
                    users=tuple(sorted(users.get(device.uuid, ()))[:_MAX_USERS]),
                    job=next(iter(job)) if len(job) == 1 else None,
                )
            )
        return FleetHost(
            name=self._name,
            group=self._group,
            driver_version=host.driver_version,
            cpu_percent=host.cpu_percent,
            memory_used_bytes=host.memory_used_bytes,
            memory_total_bytes=host.memory_total_bytes,
            devices=tuple(devices),
        )


def _holders(
    snapshot: Snapshot,
) -> tuple[Mapping[str | None, set[SafeText]], Mapping[str | None, set[SafeText]]]:
    """Return users and Slurm jobs by device; a GPU has those of its instances, too."""
    parents: dict[str | None, SafeText | None] = {
        device.uuid: device.parent_uuid for device in snapshot.devices
    }
    users: dict[str | None, set[SafeText]] = defaultdict(set)
    jobs: dict[str | None, set[SafeText]] = defaultdict(set)
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


def _recent_xid(device: Device, snapshot: Snapshot) -> int | None:
    """Return the last XID of the last hour, by the clock of its host."""
    since = snapshot.taken_at.timestamp() - _XID_SECONDS
    codes = [
        event.code
        for event in device.xid_events or ()
        if event.code is not None and event.seen_at >= since
    ]
    return codes[-1] if codes else None
