"""Merging of the hosts of several sources: which of them are the same, and their data.

A host known to two sources is one host: fields unknown to the fresher source are filled in from
the other; if that has lost the host, only those that do not age. Two hosts of one name without a
common GPU are two, and two of different names with the same GPUs are one, by its first name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpudash.fleet.identity import are_of_one, home_of, homes
from gpudash.fleet.names import short
from gpudash.fleet.summary import reused_indices
from gpudash.model.fleet import (
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetSource,
    HostKey,
    HostState,
)
from gpudash.model.text import SafeText, clean
from gpudash.model.units import counted

_S = TypeVar("_S", bound=Struct)
_KEPT = frozenset({"source", "state", "message", "age_seconds", "devices"})
"""Fields that always come from the fresher source."""
_POWERED_DOWN: HostState = "powered-down"
_OFF: tuple[HostState, ...] = ("down", "lost-contact", "stale")
"""The states that a host may have after being powered down."""
_LASTING = frozenset(
    {"cluster", "group", "expected_devices", "driver_version", "memory_total_bytes"}
    | {"uuid", "parent_uuid", "name"}
)
"""Fields of a host or device that hold even if it has been silent for days."""


class Merger:
    """The merged hosts of all sources added."""

    def __init__(self, reports: Sequence[FleetSource]) -> None:
        self.hosts: list[FleetHost] = []
        self._reports = reports
        self._by_name: dict[str, list[int]] = {}
        self._places: list[dict[HostKey, int]] = [{} for _ in reports]
        """The positions of each source's hosts, by its names for them."""

    @property
    def names(self) -> list[dict[HostKey, HostKey]]:
        """For each source, the shown names of hosts that it calls otherwise, by its names."""
        hosts = self.hosts
        return [
            {key: hosts[index].key for key, index in places.items() if hosts[index].key != key}
            for places in self._places
        ]

    def add(self, number: int, hosts: Iterable[FleetHost]) -> None:
        """Add the hosts of a source, by the source's position."""
        ours = [replace(host, source=number) if number else host for host in hosts]
        # Before any is added: the hosts of one source are never the same.
        same = [self._same(host) for host in ours]
        if self.hosts and None in same:
            unknown = {index: host for index, host in enumerate(ours) if same[index] is None}
            for index, known in self._by_gpus(unknown, {*same}).items():
                same[index] = known
        there = {host.key for host in self.hosts}
        are_apart = any(
            place is None and host.key in there for host, place in zip(ours, same, strict=True)
        )
        for host, place in zip(ours, same, strict=True):
            self._places[number][host.key] = len(self.hosts) if place is None else place
            if place is None:
                self._append(host, is_apart=are_apart)
            else:
                self.hosts[place] = self._combined(self.hosts[place], host)
                taken = self._by_name.setdefault(short(host.name), [])
                taken += [place] if place not in taken else []

    def _by_gpus(
        self, unknown: Mapping[int, FleetHost], taken: Container[int | None]
    ) -> dict[int, int]:
        """Return which known hosts these are by their GPUs, whatever their names."""
        known = {index: host for index, host in enumerate(self.hosts) if index not in taken}
        here, found = _homes(known), {}
        near = {
            index: host
            for index, host in unknown.items()
            # Hardly any of thousands.
            if not here.keys().isdisjoint([device.uuid for device in host.devices])
        }
        there = _homes(near)
        for index, host in near.items():
            same = home_of(_boards(host), here)
            if same is None or _are_apart(host, self.hosts[same]):
                continue
            theirs = _boards(self.hosts[same])
            if are_of_one(_boards(host), theirs) and home_of(theirs, there) == index:
                found[index] = same
        return found

    def annotate(
        self, hosts: Sequence[FleetHost], jobs: Sequence[FleetJob]
    ) -> tuple[FleetJob, ...]:
        """Add what a scheduler knows of the known hosts, and who has their GPUs.

        Return its jobs with the scheduler's cluster, if known.
        """
        found: dict[str, FleetJob]
        found = {name: job for job in jobs for name in (job.id, job.number) if name}
        own = self._cluster_of(hosts, found)
        for host in hosts:
            given = {device.index: device for device in host.devices}
            places = self._by_name.get(short(host.name), ())
            for index in places:
                known = self.hosts[index]
                if known.cluster not in (None, own):
                    continue
                # A lost GPU has no index that another one has.
                left = {each: given[each] for each in given.keys() - reused_indices(known)}
                pairs = ((each, left if each.state == "lost" else given) for each in known.devices)
                devices = tuple([_given(each, host, some, found) for each, some in pairs])
                # All of its hosts are in one cluster.
                cluster = own if len(places) == 1 else known.cluster
                whole = replace(filled(known, host), devices=devices, cluster=cluster)
                if host.state == _POWERED_DOWN and known.state in _OFF:
                    whole = replace(whole, state=_POWERED_DOWN, message=None)
                self.hosts[index] = _resized(whole, host.expected_devices)
        return tuple(replace(job, cluster=own) for job in jobs)

    def _cluster_of(
        self, hosts: Iterable[FleetHost], jobs: Mapping[str, FleetJob]
    ) -> SafeText | None:
        """Return the cluster that a scheduler's hosts belong to, None if none or several match.

        It is the cluster that has most of them by their names and their jobs.
        """
        found: Counter[SafeText] = Counter()
        for host in hosts:
            for known in (self.hosts[index] for index in self._by_name.get(short(host.name), ())):
                if known.cluster is not None:
                    held = [jobs.get(device.job or "") for device in known.devices]
                    ours = [job for job in held if job is not None and host.name in job.hosts]
                    found[known.cluster] += 1 + len(ours)
        first, *others = *found.most_common(2), (None, 0)
        return first[0] if not others or first[1] > others[0][1] else None

    def add_unseen(self, number: int, hosts: Iterable[FleetHost]) -> None:
        """Add hosts with GPUs that only a scheduler knows, drained or not."""
        for host in hosts:
            if short(host.name) not in self._by_name:
                count = host.expected_devices
                gpus = "GPUs" if count is None else counted(count, "GPU")
                why = SafeText(f"Slurm has it with {gpus}")
                unseen = replace(host, source=number)
                if host.state != _POWERED_DOWN:
                    unseen = replace(unseen, state="no-metrics", message=why)
                # The age of Slurm's answer does not show for how long.
                self._append(replace(unseen, age_seconds=None, devices=()))

    def _append(self, host: FleetHost, *, is_apart: bool = False) -> None:
        if is_apart and host.cluster is None:
            # Two servers without cluster labels have hosts of the same name.
            host = replace(host, cluster=clean(self._reports[host.source].name.rpartition("//")[2]))
        self._by_name.setdefault(short(host.name), []).append(len(self.hosts))
        self.hosts.append(host)

    def _same(self, host: FleetHost) -> int | None:
        """Return the known host that this is, None for a new one or if two match."""
        near = [
            index
            for index in self._by_name.get(short(host.name), ())
            if _may_be_same(self.hosts[index], host)
        ]
        exact = [index for index in near if self.hosts[index].cluster == host.cluster]
        found = exact or near
        return found[0] if len(found) == 1 else None

    def _combined(self, first: FleetHost, second: FleetHost) -> FleetHost:
        """Return a host merged from two sources."""
        fresh, other = sorted((first, second), key=_staleness)
        # Next to live values, old ones would be taken for live too.
        lasting = fresh.state == "ok" and other.state != "ok"
        by_uuid = {device.uuid: device for device in other.devices if device.uuid}
        gpus = (device for device in reversed(other.devices) if not device.parent_uuid)
        # A present GPU takes precedence over a lost one that had its index.
        by_index = {device.index: device for device in gpus}
        devices = []
        for device in fresh.devices:
            past = by_uuid.get(device.uuid) if device.uuid else by_index.get(device.index)
            devices.append(device if past is None else _device(device, past, lasting=lasting))
        message = fresh.message
        if message is None and other.state != "ok" and other.message is not None:
            message = SafeText(f"{self._reports[other.source].kind}: {other.message}")
        whole = filled(fresh, other, lasting=lasting)
        if not devices and not lasting:
            devices = list(other.devices)
        expected = max(first.expected_devices or 0, second.expected_devices or 0) or None
        return replace(
            whole,
            name=first.name,
            devices=tuple(devices),
            message=message,
            expected_devices=expected,
        )


def _resized(host: FleetHost, expected: int | None) -> FleetHost:
    """Return a host with the scheduler's count of GPUs; if it has as many, none is lost."""
    if expected is None:
        return host
    there = tuple(device for device in host.devices if device.state != "lost")
    count = sum(device.parent_uuid is None for device in there)
    if count == expected and host.state == "ok":
        return replace(host, devices=there, expected_devices=expected)
    return replace(host, expected_devices=max(expected, host.expected_devices or 0))


def _given(
    device: FleetDevice,
    host: FleetHost,
    given: Mapping[int, FleetDevice],
    jobs: Mapping[str, FleetJob],
) -> FleetDevice:
    """Return a device with the data of its host's scheduler.

    If the device names its job, that identifies it: a scheduler may number GPUs differently.
    """
    if device.job is None:
        other = None if device.parent_uuid is not None else given.get(device.index)
        return device if other is None else _device(device, other)
    job = jobs.get(device.job)
    if job is None or host.name not in job.hosts:
        return device
    users = () if job.user is None else (job.user,)
    return replace(device, job=job.id, users=device.users or users)


def _device(fresh: FleetDevice, other: FleetDevice, *, lasting: bool = False) -> FleetDevice:
    """Return a device merged from two sources."""
    device = filled(fresh, other, lasting=lasting)
    is_known = lasting or device.users or not other.users
    return device if is_known else replace(device, users=other.users)


def filled(first: _S, second: _S, *, lasting: bool = False) -> _S:
    """Return a struct with its unknown fields taken from the second.

    With `lasting`, only fields that do not age are filled in.
    """
    missing = {
        name: value
        for name in first.__struct_fields__
        if getattr(first, name) is None
        and (name in _LASTING if lasting else name not in _KEPT)
        and (value := getattr(second, name)) is not None
    }
    return replace(first, **missing) if missing else first


def _may_be_same(first: FleetHost, second: FleetHost) -> bool:
    """Whether two hosts of two sources may be the same by names, clusters and GPUs."""
    names = {first.name.rpartition("@")[2], second.name.rpartition("@")[2]}
    if len(names) > 1 and names != {short(first.name), max(names, key=len)}:
        return False
    if _are_apart(first, second):
        return False
    ours, theirs = _boards(first), _boards(second)
    return not ours or not theirs or not ours.isdisjoint(theirs)


def _are_apart(first: FleetHost, second: FleetHost) -> bool:
    """Whether two hosts are known to be in different clusters."""
    return bool(first.cluster and second.cluster and first.cluster != second.cluster)


def _homes(hosts: Mapping[int, FleetHost]) -> dict[Hashable, int]:
    return homes((board, index) for index, host in hosts.items() for board in _boards(host))


def _boards(host: FleetHost) -> set[str]:
    """Return the UUIDs of a host's GPUs, without those of MIG instances."""
    return {each.uuid for each in host.devices if each.uuid and each.parent_uuid is None}


def _staleness(host: FleetHost) -> tuple[bool, float]:
    """Return a sort key that puts the best known host first."""
    age = host.age_seconds
    return host.state != "ok", inf if age is None else age
