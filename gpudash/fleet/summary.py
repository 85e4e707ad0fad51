"""Many hosts added up: the GPUs of each host by status, and those of all.

Counts are of GPUs: a divided one counts once, by the worst status of its instances. The counts of a
silent host are its last known ones; in the totals, its GPUs are unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from math import inf
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.model.device import device_label
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot
from gpudash.model.host_words import HOST_STATES, finding_words
from gpudash.model.snapshot import Finding
from gpudash.model.state import (
    ACKNOWLEDGED,
    ASLEEP,
    COUNTED,
    DIVIDED,
    FREE,
    HELD,
    RESTING,
    SLOW,
    STATES,
    UNKNOWN,
    Level,
    State,
    state_of,
)
from gpudash.model.text import SafeText
from gpudash.model.units import ABSENT, Number, counted, grouped, sum_known

AVAILABLE = (FREE, RESTING, ASLEEP)
"""Statuses of GPUs that a job may have: `gpudash pick` offers sleeping ones too."""
PROBLEMS = frozenset(state.id for state in STATES if state.is_problem or state is SLOW)
"""Statuses that show a fault of the GPU rather than its use."""

_WORST_FIRST = sorted(
    STATES,
    key=lambda state: (
        state.level not in ("critical", "warn"),
        state is DIVIDED,
        state.is_free,
    ),
)
_PARENT = attrgetter("parent_uuid")
_BADNESS = {state.id: rank for rank, state in enumerate((*_WORST_FIRST, ACKNOWLEDGED))}

_OF_ALL = frozenset({"fragmented"})
"""Rules whose findings count all hosts together."""

Fits = Callable[[FleetHost, FleetDevice | None], bool]
"""Whether a device passes a filter; with None, whether a host without devices does."""


class Worst(NamedTuple):
    """The worst finding about a host above level info.

    Its level is unknown, which is dimmed, if all findings this bad are acknowledged.
    """

    place: int
    """Its position among all findings, worst first."""
    rule: str
    level: Level
    uuids: frozenset[str]
    """The devices that it is about, on all hosts."""


class HostRow(NamedTuple):
    """A host and its GPUs added up; an amount that no GPU reports is None."""

    host: FleetHost
    title: SafeText
    """Its name, preceded by its cluster if other clusters have a host of that name."""
    devices: tuple[FleetDevice, ...]
    """Those that pass the filter, including MIG instances."""
    counts: Mapping[str, int]
    """Number of GPUs by status, as last known."""
    gpus: int
    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_mw: int | None
    limit_mw: int | None
    """Of the GPUs that report their power; None unless all of these report a limit too."""
    temperature: int | None
    """The highest of its GPUs."""
    jobs: tuple[str, ...]
    users: tuple[str, ...]

    missing: int
    """Number of GPUs that it should have but lacks."""
    worst: Worst | None = None
    """Its worst finding, None for none."""
    acknowledged: frozenset[str] = frozenset()
    """UUIDs of GPUs on all hosts with acknowledged faults, if this host has some of them."""

    @property
    def judged(self) -> Sequence[FleetDevice]:
        """Its devices, with no other status for those whose fault is acknowledged."""
        if not self.acknowledged:
            return self.devices
        return [
            replace(each, status=ACKNOWLEDGED.id)
            if each.uuid in self.acknowledged and each.status in PROBLEMS
            else each
            for each in self.devices
        ]

    @property
    def news(self) -> Mapping[str, int]:
        """Its counts without acknowledged faults."""
        return Counter(statuses_of(self.judged)) if self.acknowledged else self.counts

    @property
    def is_known(self) -> bool:
        """Whether its values are recent enough to be live."""
        return self.host.state == "ok"

    def count(self, state: State) -> int:
        """Return how many GPUs are in a state."""
        return self.counts.get(state.id, 0)

    @property
    def free(self) -> int:
        """How many GPUs a job may have now."""
        counts = self.counts
        return sum([counts.get(state.id, 0) for state in AVAILABLE])

    @property
    def _about(self) -> list[FleetDevice]:
        """Its devices that its worst finding is about."""
        worst = self.worst
        if worst is None:
            return []
        return [each for each in self.host.devices if concerns(worst.rule, worst.uuids, each)]

    @property
    def concerned(self) -> int:
        """How many of its GPUs its worst finding is about."""
        return len(statuses_of(self._about)) or self.missing

    @property
    def state_text(self) -> str:
        """The worst about the host or its GPUs in a word or two, `ok` for nothing."""
        if self.host.state != "ok":
            return HOST_STATES[self.host.state].word
        if self.worst is None:
            return "drained" if self.host.drain_reason is not None else "ok"
        word, about = finding_words(self.worst.rule).word, self._about
        code = next((each.xid for each in about if each.xid is not None), None)
        if self.worst.rule.startswith("xid") and code is not None:
            word += f" {code}"
        count = self.concerned
        return f"{count} {word}" if 0 < count != self.gpus else word

    @property
    def letter(self) -> str:
        """Its letter on the map, empty if the host is drawn by its value."""
        if self.host.state != "ok":
            return HOST_STATES[self.host.state].letter
        return "" if self.worst is None else finding_words(self.worst.rule).letter

    @property
    def level(self) -> Level:
        """How bad that is."""
        is_known = self.worst is not None and self.worst.level == "unknown"
        if self.host.state != "ok" and not is_known:
            return HOST_STATES[self.host.state].level
        return "ok" if self.worst is None else self.worst.level

    @property
    def worst_first(self) -> tuple[float, ...]:
        """A sort key: by finding, then by how many GPUs it concerns, or are wasted."""
        return (
            inf if self.worst is None else self.worst.place,
            self.level == "ok",
            self.host.drain_reason is None,
            -self.concerned if self.is_known else -self.gpus,
            -self.count(HELD),
            -self.count(UNKNOWN),
        )


class GpuRow(NamedTuple):
    """A GPU or MIG instance with its host."""

    host: FleetHost
    device: FleetDevice

    @property
    def label(self) -> str:
        """Its index on the host; for a MIG instance, its GPU's index first, such as `0:7`."""
        return label_of(self.host, self.device)

    @property
    def is_known(self) -> bool:
        """Whether its values are recent enough to be live."""
        return self.host.state == "ok"

    @property
    def state(self) -> State:
        """Its state, as last known."""
        return state_of(self.device.status)

    @property
    def state_text(self) -> str:
        """Its state, or that of a silent host."""
        return self.state.word if self.is_known else HOST_STATES[self.host.state].word

    @property
    def level(self) -> Level:
        """How bad that is."""
        return self.state.level if self.is_known else HOST_STATES[self.host.state].level


class Totals(NamedTuple):
    """All hosts added up; silent ones count as unknown."""

    hosts: int
    answering: int
    gpus: int
    expected_gpus: int
    counts: Mapping[str, int]
    """GPUs by status; those of silent hosts are unknown."""
    utilization: float | None
    power_mw: int | None
    limit_mw: int | None
    """As for a host."""
    temperature: int | None
    oldest_seconds: float | None
    """Age of the oldest values that still count as live."""


def host_rows(snapshot: FleetSnapshot) -> list[HostRow]:
    """Return the hosts with their GPUs."""
    worst = worst_by_host(snapshot.findings)
    rows = [
        _row(host, title, host.devices)
        for host, title in zip(snapshot.hosts, titles(snapshot.hosts), strict=True)
    ]
    if not worst:
        return rows
    known = [each for each in snapshot.findings if each.acknowledged is not None]
    uuids = frozenset(uuid for each in known for uuid in each.uuids)
    return [
        row
        if (found := _worst_of(row.host, worst)) is None
        else row._replace(worst=found, acknowledged=uuids)
        for row in rows
    ]


def worst_by_host(findings: Iterable[Finding]) -> dict[str, Worst]:
    """Return the worst finding of each host, by the name that findings use."""
    found: dict[str, Worst] = {}
    for place, finding in enumerate(findings):
        if finding.level != "info":
            level: Level = finding.level if finding.acknowledged is None else "unknown"
            worst = Worst(place, finding.rule, level, frozenset(finding.uuids))
            for name in finding.hosts:
                found.setdefault(name, worst)
    return found


def concerns(rule: str, uuids: Container[str], device: FleetDevice) -> bool:
    """Whether a host's finding is about one of its devices, even one without a UUID."""
    return rule == f"gpus-{device.status}" if device.uuid is None else device.uuid in uuids


def _worst_of(host: FleetHost, worst: Mapping[str, Worst]) -> Worst | None:
    return next((worst[name] for name in names_of(host) if name in worst), None)


def titles(hosts: Sequence[FleetHost]) -> list[SafeText]:
    """Return a unique name for each host: with its cluster if needed."""
    counts = Counter([host.name for host in hosts])
    return [
        host.name
        if counts[host.name] == 1 or host.cluster is None
        else SafeText(f"{host.cluster}/{host.name}")
        for host in hosts
    ]


def names_of(host: FleetHost) -> tuple[str, ...]:
    """Return the names that a finding may use for a host, with and without its cluster."""
    return (host.name,) if host.cluster is None else (host.name, f"{host.cluster}/{host.name}")


def findings_about(findings: Iterable[Finding], hosts: Iterable[FleetHost]) -> list[Finding]:
    """Return findings about some of the hosts, and about no host, such as a source's.

    Those that count all hosts together are left out.
    """
    names = {name for host in hosts for name in names_of(host)}
    return [
        each
        for each in findings
        if each.rule not in _OF_ALL and (not each.hosts or names.intersection(each.hosts))
    ]


def fitting(rows: list[HostRow], fits: Fits | None) -> list[HostRow]:
    """Return hosts with only the GPUs that pass a filter, if there is one.

    Hosts without passing GPUs are left out.
    """
    if fits is None:
        return rows
    found = []
    for row in rows:
        host = row.host
        devices = tuple([device for device in row.devices if fits(host, device)])
        if len(devices) == len(row.devices):
            if devices or fits(host, None):
                found.append(row)
        elif devices:
            narrow = _row(host, row.title, devices)
            found.append(narrow._replace(worst=row.worst, acknowledged=row.acknowledged))
    return found


def _row(host: FleetHost, title: SafeText, devices: tuple[FleetDevice, ...]) -> HostRow:
    """Add the GPUs of a host up; called for each host at each refresh."""
    gpus = [each for each in devices if each.parent_uuid is None]
    statuses = statuses_of(devices)
    counts: dict[str, int] = {}
    for status in statuses:
        counts[status] = counts.get(status, 0) + 1
    percents = _known([each.gpu_utilization_percent for each in gpus])
    return HostRow(
        host,
        title,
        devices,
        counts,
        len(statuses),
        sum(percents) / len(percents) if percents else None,
        sum_known([each.memory_used_bytes for each in gpus]),
        sum_known([each.memory_total_bytes for each in gpus]),
        sum_known([each.power_usage_mw for each in gpus]),
        _sum_all([e.enforced_power_limit_mw for e in gpus if e.power_usage_mw is not None]),
        max(_known([each.temperature_celsius for each in gpus]), default=None),
        tuple(dict.fromkeys([each.job for each in devices if each.job is not None])),
        tuple(dict.fromkeys([user for each in devices for user in each.users])),
        missing_gpus(host),
    )


def gpu_of(device: FleetDevice) -> Hashable:
    """Return a key of a GPU on its host, the same for its MIG instances."""
    return device.parent_uuid or device.uuid or device.index


def worse(known: str, status: str) -> str:
    """Return the worse status of two parts of one GPU; being divided is not a status.

    A computing instance does not hide one that is held idle, nor a free one that another is in use.
    """
    return min(known, status, key=lambda each: _BADNESS[state_of(each).id])


def statuses_of(devices: Sequence[FleetDevice]) -> list[str]:
    """Return the status of each GPU among these devices; called for each host at each refresh."""
    if not any(map(_PARENT, devices)):
        return [each.status for each in devices]
    found: dict[Hashable, str] = {}
    for each in devices:
        gpu = gpu_of(each)
        found[gpu] = worse(found[gpu], each.status) if gpu in found else each.status
    return list(found.values())


def count_gpus(rows: Sequence[GpuRow]) -> Counter[str]:
    """Return the number of GPUs by status."""
    devices = [row.device for row in rows]
    if not any(map(_PARENT, devices)):
        return Counter([each.status for each in devices])
    by_host = grouped((host.key, device) for host, device in rows)
    return Counter(chain.from_iterable(map(statuses_of, by_host.values())))


def gpu_index(host: FleetHost, device: FleetDevice) -> int | None:
    """Return the index of a GPU, or of a MIG instance's GPU; None if that is gone."""
    parent = device.parent_uuid
    if parent is None:
        return device.index
    return next((each.index for each in host.devices if each.uuid == parent), None)


def reused_indices(host: FleetHost) -> Set[int]:
    """Return the indices of lost GPUs that other GPUs now have."""
    gpus = [each for each in host.devices if each.parent_uuid is None]
    lost = {each.index for each in gpus if each.state == "lost"}
    return lost.intersection([each.index for each in gpus if each.state != "lost"])


def label_of(host: FleetHost, device: FleetDevice) -> str:
    """Return a device's label, derived if an older document lacks it."""
    if device.label is not None:
        return device.label
    if device.parent_uuid is None:
        return device_label(device.index)
    parent = gpu_index(host, device)
    return device_label(device.index, "?" if parent is None else parent)


def missing_gpus(host: FleetHost) -> int:
    """Return how many GPUs a host should have but lacks."""
    there = sum([each.parent_uuid is None for each in host.devices])
    return max(0, (host.expected_devices or 0) - there)


def _known(values: list[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]


def _sum_all(values: list[int | None]) -> int | None:
    """Return the sum, None if a value is unknown: a partial sum would pass for the whole."""
    return None if None in values else sum_known(values)


def totals(rows: Iterable[HostRow]) -> Totals:
    """Return the sums of all hosts."""
    rows = list(rows)
    known = [row for row in rows if row.is_known]
    counts: dict[str, int] = {}
    lost = sum(row.gpus for row in rows if not row.is_known)
    if lost:
        counts[UNKNOWN.id] = lost
    for row in known:
        for status, count in row.news.items():
            state = state_of(status).id
            counts[state] = counts.get(state, 0) + count
    weighed = [(row.utilization, row.gpus) for row in known if row.utilization is not None]
    gpus = sum(count for _, count in weighed)
    return Totals(
        hosts=len(rows),
        answering=len(known),
        gpus=sum(row.gpus for row in rows),
        expected_gpus=sum(max(row.host.expected_devices or 0, row.gpus) for row in rows),
        counts={state.id: counts[state.id] for state in COUNTED if state.id in counts},
        utilization=sum(share * count for share, count in weighed) / gpus if gpus else None,
        power_mw=sum_known(row.power_mw for row in known),
        limit_mw=_sum_all([row.limit_mw for row in known if row.power_mw is not None]),
        temperature=max((t for row in known if (t := row.temperature) is not None), default=None),
        oldest_seconds=max(
            (age for row in known if (age := row.host.age_seconds) is not None), default=None
        ),
    )


def is_whole_and_free(row: HostRow) -> bool:
    """Whether a job may have all GPUs of a host: it answers, all are free, none is missing.

    With a filter, all GPUs must pass and none may be divided.
    """
    return (
        row.is_known
        and row.gpus > 0
        and row.free == row.gpus == len(row.devices) == len(row.host.devices)
        and not row.missing
    )


def age_of(host: FleetHost, device: FleetDevice | None) -> float | None:
    """Return the seconds since the values of a device were taken, None if they never were."""
    own = None if device is None else device.age_seconds
    return host.age_seconds if own is None else own


def part_of(part: int, whole: int, noun: str) -> str:
    """Return `997 of 1,000 hosts`, or only one number if they are equal."""
    return counted(part, noun) if whole <= part else f"{part:,} of {counted(whole, noun)}"


@lru_cache(maxsize=1024)
def brief(names: tuple[str, ...], limit: int = 2) -> str:
    """Return some names in a few words: `alice, bob`, `alice, bob +3`; `-` for none."""
    if not names:
        return ABSENT
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} +{len(names) - limit}"
