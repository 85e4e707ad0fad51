"""What gpudash knows about many hosts at one instant, frozen; no I/O.

The document beside `Snapshot`: hosts with few fields of each GPU, their users and jobs, what is
wrong, and how well each source of it all answers. Nothing in it is live: every number is as old as
its host's `age_seconds`. A field that is None is not known; 0 means zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, json
from msgspec.structs import replace

from gpudash.model import snapshot, wire
from gpudash.model.device import STATUS, AnyDevice
from gpudash.model.errors import WireError
from gpudash.model.fields import Amount, Group, Index, Natural, Seconds, metric
from gpudash.model.process import AnyUser
from gpudash.model.snapshot import (
    CpuPercent,
    DriverVersion,
    Finding,
    MemoryTotal,
    MemoryUsed,
)
from gpudash.model.state import STATES, Level
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

HostState = Literal[
    "ok",
    "stale",
    "lost-contact",
    "connecting",
    "down",
    "auth",
    "host-key",
    "no-access",
    "no-gpudash",
    "no-gpus",
    "no-metrics",
    "powered-down",
    "garbled",
]
SourceState = Literal["ok", "starting", "stale", "failed"]
JobKind = Literal["slurm", "kubernetes"]
HostKey = tuple[str | None, str]
"""Cluster and name of a host."""
JobKey = tuple[str | None, str]
"""Cluster and id of a job."""
_EXACT_SECONDS, _DAY_SECONDS = 10.0, 86400.0
"""Maximum uncertainty of an instant for showing its second, and its first minute."""

_gpu = partial(metric, Group.STATE)
_host = partial(metric, Group.HOST)
_use = partial(metric, Group.PROCESS)
_document = partial(metric, Group.DOCUMENT)


class FleetDevice(AnyDevice, frozen=True, kw_only=True, gc=False):
    """A GPU or MIG instance of one of many hosts."""

    # fmt: off
    status: Annotated[str, STATUS] = "unknown"
    xid: Annotated[Index | None, _gpu(Unit.NONE,
        "The last XID error that is known to be recent, null for none.")] = None
    xid_seconds: Annotated[Seconds | None, _gpu(Unit.SECOND,
        "How long ago that error was, null if that is not known.", label="XID age")] = None
    users: Annotated[tuple[SafeText, ...], _use(Unit.NONE,
        "Whose processes or job it has, or had when it was last seen; empty if unknown.")] = ()
    job: Annotated[SafeText | None, _use(Unit.NONE,
        "Id of the job that it is allocated to, or was then, as in `jobs`.")] = None
    age_seconds: Annotated[Seconds | None, _document(Unit.SECOND,
        "Age of its values where it is not the host's; how long it is gone, if it is lost.")] = None
    losses: Annotated[Natural | None, _gpu(Unit.COUNT,
        "How often it was lost in a day while its host was there, null if not known.")] = None
    # fmt: on


class FleetProcess(Struct, frozen=True, kw_only=True, gc=False):
    """A process on GPUs of one of many hosts."""

    # fmt: off
    pid: Annotated[Index, _use(Unit.NONE, "Process id on its host.")]
    username: Annotated[SafeText | None, _use(Unit.NONE,
        "Owner, or the uid if it has no name; null if that is not known.")] = None
    job: Annotated[SafeText | None, _use(Unit.NONE,
        "Slurm's number of the job that it is part of, null for none.")] = None
    uuids: Annotated[tuple[str, ...], _use(Unit.NONE,
        "Devices that it is on.")] = ()
    # fmt: on


class FleetHost(Struct, frozen=True, kw_only=True):
    """One of many hosts."""

    # fmt: off
    name: Annotated[SafeText, _host(Unit.NONE, "Name, as the source has it.")]
    former_name: Annotated[SafeText | None, _host(Unit.NONE,
        "What it was called until a short time ago, null for the same.")] = None
    cluster: Annotated[SafeText | None, _host(Unit.NONE,
        "Distinguishes hosts of one name: the cluster label, null for none.")] = None
    group: Annotated[SafeText | None, _host(Unit.NONE,
        "Rack, partition or group that it stands in.")] = None
    source: Annotated[Index, _host(Unit.NONE, "Where it is known from: position in `sources`.")] = 0
    state: Annotated[HostState, _host(Unit.NONE, "Whether it answers, and if not, why.")] = "ok"
    message: Annotated[SafeText | None, _host(Unit.NONE,
        "The reason in one line: that of ssh, a scrape or Slurm; null for none.")] = None
    age_seconds: Annotated[Seconds | None, _host(Unit.SECOND,
        "Age of what is known of it, null if nothing is.")] = None
    expected_devices: Annotated[Natural | None, _host(Unit.COUNT,
        "GPUs that it should have: as it had, or by Slurm or Kubernetes.")] = None
    losses: Annotated[Natural | None, _host(Unit.COUNT,
        "How often it went away in a day, null if not known.")] = None
    driver_version: DriverVersion = None
    cpu_percent: CpuPercent = None
    memory_used_bytes: MemoryUsed = None
    memory_total_bytes: MemoryTotal = None
    node_name: Annotated[SafeText | None, _host(Unit.NONE,
        "What Slurm calls it, null for the same.")] = None
    drain_reason: Annotated[SafeText | None, _host(Unit.NONE,
        "Why the scheduler starts nothing there, null if it does or is not known.")] = None
    worst_finding: Annotated[str | None, _host(Unit.NONE,
        "Rule of the worst finding about it, warn or critical; null for none.")] = None
    slow_seconds: Annotated[Mapping[str, Seconds], Meta(max_length=1 << 14), _host(Unit.SECOND,
        "How long GPUs have been slow or hot, by UUID, of those of which that is known.")] = {}
    devices: Annotated[tuple[FleetDevice, ...], Meta(max_length=1 << 14), _host(Unit.NONE,
        "GPUs by index, each followed by its MIG instances; as last known.")] = ()
    processes: Annotated[Annotated[tuple[FleetProcess, ...], Meta(max_length=1 << 12)] | None,
        _host(Unit.NONE, "Processes that compute on its GPUs, null if they are not known.")] = None
    # fmt: on

    @property
    def key(self) -> HostKey:
        """Its key: names are unique only within a cluster."""
        return self.cluster, self.name


class FleetUser(AnyUser, frozen=True, kw_only=True):
    """A user who computes on GPUs or holds them, over all hosts."""

    # fmt: off
    hosts: Annotated[Natural, _use(Unit.COUNT, "Hosts that they have GPUs on.")] = 0
    busy: Annotated[Natural, _use(Unit.COUNT,
        "Of their GPUs, those that are busy, not slow or hot.")] = 0
    held_idle: Annotated[Natural, _use(Unit.COUNT, "Of their GPUs, those held idle.")] = 0
    idle_gpu_hours: Annotated[Amount | None, _use(Unit.NONE,
        "Hours that these GPUs have been held idle so far, added up.")] = None
    idle_cost: Annotated[Amount | None, _use(Unit.NONE,
        "What these hours cost by the prices of the settings, null without.")] = None
    kept_busy: Annotated[Natural, _use(Unit.COUNT,
        "Of their busy GPUs, those that look kept busy: next to no work at full utilization.")] = 0
    kept_cost_per_hour: Annotated[Amount | None, _use(Unit.NONE,
        "What an hour of these costs by the prices of the settings, null without.")] = None
    # fmt: on


class FleetJob(Struct, frozen=True, kw_only=True):
    """A job of Slurm, or a pod, with GPUs."""

    # fmt: off
    id: Annotated[SafeText, _use(Unit.NONE, "Job id, or namespace/pod.")]
    number: Annotated[SafeText | None, _use(Unit.NONE,
        "Slurm's number of a task of an array, as exporters and cgroups have it; null for others.")
        ] = None
    kind: Annotated[JobKind, _use(Unit.NONE, "slurm or kubernetes.")] = "slurm"
    cluster: Annotated[SafeText | None, _host(Unit.NONE,
        "That of its hosts: each cluster numbers its own jobs; null if not known.")] = None
    name: Annotated[SafeText | None, _use(Unit.NONE, "Its name.")] = None
    user: Annotated[SafeText | None, _use(Unit.NONE, "Whose it is.")] = None
    account: Annotated[SafeText | None, _use(Unit.NONE, "Account that pays for it.")] = None
    partition: Annotated[SafeText | None, _use(Unit.NONE, "Partition of Slurm.")] = None
    state: Annotated[SafeText | None, _use(Unit.NONE, "RUNNING, PENDING, ...")] = None
    hosts: Annotated[tuple[SafeText, ...], Meta(max_length=1 << 14), _use(Unit.NONE,
        "Hosts that it runs on.")] = ()
    devices: Annotated[Natural, _use(Unit.COUNT, "GPUs that it was given.")] = 0
    busy: Annotated[Natural | None, _use(Unit.COUNT,
        "Of these, GPUs that are busy, not slow or hot; null if none is known.")] = None
    gpu_utilization_percent: Annotated[Amount | None, _use(Unit.PERCENT,
        "Mean of its GPUs.")] = None
    min_gpu_utilization_percent: Annotated[Amount | None, _use(Unit.PERCENT,
        "Its least busy GPU.")] = None
    slow: Annotated[Natural | None, _use(Unit.COUNT,
        "Of its GPUs, those with a clock far below that of the others; null if not known.")] = None
    broken: Annotated[Natural | None, _use(Unit.COUNT,
        "Of its GPUs, those that are lost or unusable, or on hosts that do not answer; null if "
        "none is known.")] = None
    elapsed_seconds: Annotated[Seconds | None, _use(Unit.SECOND, "How long it has run.")] = None
    limit_seconds: Annotated[Seconds | None, _use(Unit.SECOND,
        "How long it may run, null without a limit.")] = None
    # fmt: on

    @property
    def key(self) -> JobKey:
        """Its key: ids are unique only within a cluster."""
        return self.cluster, self.id


class FleetSource(Struct, frozen=True, kw_only=True):
    """Where hosts are known from, and how well that answers."""

    # fmt: off
    kind: Annotated[str, Meta(pattern="^[a-z][a-z0-9-]{0,31}$"), _document(Unit.NONE,
        "ssh, prometheus, scrape, demo, slurm, ...")]
    name: Annotated[SafeText, _document(Unit.NONE, "Its URL without secrets, or the hosts asked.")]
    state: Annotated[SourceState, _document(Unit.NONE,
        "ok, starting, stale (it fails, what is shown is its last answer) or failed.")] = "ok"
    message: Annotated[SafeText | None, _document(Unit.NONE,
        "What is wrong with it, in one line; null for nothing.")] = None
    age_seconds: Annotated[Seconds | None, _document(Unit.SECOND,
        "Since its last answer, null if there was none.")] = None
    answering_hosts: Annotated[Natural, _document(Unit.COUNT, "Hosts with fresh values.")] = 0
    expected_hosts: Annotated[Natural | None, _document(Unit.COUNT,
        "Hosts that were asked for, or known a day ago; null if not known.")] = None
    warnings: Annotated[tuple[SafeText, ...], Meta(max_length=1 << 10), _document(Unit.NONE,
        "Its own warnings about its answer, such as a partial response.")] = ()
    partial: Annotated[bool, _document(Unit.NONE,
        "Whether some of what is asked of it has not been answered yet: what is missing proves "
        "nothing.")] = False
    within_seconds: Annotated[Seconds | None, _document(Unit.SECOND,
        "Of its past: how long before an instant what is new at it may have happened; else null.",
        )] = None
    data_since: Annotated[Annotated[datetime, Meta(tz=True)] | None, _document(Unit.NONE,
        "Of the past that the screen asked for: from when on it has data of it; else null.")] = None
    # fmt: on


class FleetLine(Struct, frozen=True, kw_only=True):
    """One line of a chart."""

    # fmt: off
    host: Annotated[SafeText | None, _host(Unit.NONE,
        "Whose it is, null for the mean of the whole fleet.")] = None
    uuid: Annotated[SafeText | None, _gpu(Unit.NONE,
        "The device, null for the mean of its host.")] = None
    index: Annotated[Index | None, _gpu(Unit.NONE, "NVML's index of the device.")] = None
    values: Annotated[tuple[float | None, ...], Meta(max_length=1 << 12), _document(Unit.NONE,
        "A value a step, the newest last; null where none is known.")] = ()
    # fmt: on


class FleetChart(Struct, frozen=True, kw_only=True):
    """The past of one metric: the answer to a `ChartRequest`."""

    # fmt: off
    metric: Annotated[str, _document(Unit.NONE, "The field of a device, in its unit.")]
    span_seconds: Annotated[Seconds, _document(Unit.SECOND, "How far it reaches back.")]
    by_device: Annotated[bool, _document(Unit.NONE, "Whether there is a line a device.")] = False
    cluster: Annotated[SafeText | None, _host(Unit.NONE,
        "The cluster that was asked for, null for none.")] = None
    hosts: Annotated[tuple[SafeText, ...], Meta(max_length=100), _host(Unit.NONE,
        "The hosts that were asked for, empty for the whole fleet.")] = ()
    end: Annotated[datetime, Meta(tz=True), _document(Unit.NONE, "The instant of its last values.")]
    step_seconds: Annotated[Seconds, _document(Unit.SECOND, "Between two values.")]
    lines: Annotated[tuple[FleetLine, ...], Meta(max_length=1 << 10), _document(Unit.NONE,
        "The lines by host and index; empty where nothing is known.")] = ()
    message: Annotated[SafeText | None, _document(Unit.NONE,
        "Why there is none, null for no reason.")] = None
    # fmt: on


EventKind = Literal[
    "gpu-lost",
    "gpu-returned",
    "renumbered",
    "host-down",
    "host-up",
    "xid",
    "throttled",
    "unthrottled",
    "drained",
    "undrained",
    "job-began",
    "job-ended",
    "lease-taken",
    "lease-ended",
    "signal",
]


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened; its instant is as exact as its snapshots are close to each other."""

    # fmt: off
    at: Annotated[datetime, Meta(tz=True), _document(Unit.NONE, "When it was first seen.")]
    within_seconds: Annotated[Seconds | None, _document(Unit.SECOND,
        "It was at most so long before, null where its source has dated it.")] = None
    kind: Annotated[EventKind, _document(Unit.NONE, "What kind it is of.")]
    host: Annotated[SafeText | None, _host(Unit.NONE,
        "Its host, null for a job on several, some of which `what` names.")] = None
    cluster: Annotated[SafeText | None, _host(Unit.NONE, "That of its host.")] = None
    gpu: Annotated[SafeText | None, _gpu(Unit.NONE,
        "What the GPU is called on its host; null for the host or a job.")] = None
    uuid: Annotated[SafeText | None, _gpu(Unit.NONE, "The UUID of that GPU.")] = None
    xid: Annotated[Index | None, _gpu(Unit.NONE, "The XID error.")] = None
    job: Annotated[SafeText | None, _use(Unit.NONE,
        "The job, or that which had the GPU; those on a host that went down.")] = None
    user: Annotated[SafeText | None, _use(Unit.NONE, "Whose job or lease it is.")] = None
    what: Annotated[SafeText, _document(Unit.NONE, "In a few words that go without the rest.")]
    # fmt: on

    @property
    def gpu_key(self) -> str | None:
        """The GPU of its host that it is about, as `key` of a device; None for none."""
        return None if self.gpu is None else self.uuid or f"#{self.gpu}"

    @property
    def level(self) -> Level:
        """How bad it is."""
        return "critical" if self.kind in ("gpu-lost", "host-down", "xid") else "ok"

    @property
    def when(self) -> str:
        """When it happened, or between which minutes, as far as known."""
        last, seconds = self.at.astimezone(), self.within_seconds or 0.0
        if seconds < _EXACT_SECONDS:
            return f"{last:%m-%d %H:%M:%S}"
        if seconds >= _DAY_SECONDS:
            return f"by {last:%m-%d %H:%M}"
        first = (self.at - timedelta(seconds=seconds)).astimezone()
        end = "" if seconds < 60 and first.minute == last.minute else f"-{last:%H:%M}"
        return f"{first:%m-%d %H:%M}{end}"

    @property
    def is_of_job(self) -> bool:
        """Whether a job began or ended."""
        return self.kind in ("job-began", "job-ended")


def mark_of(events: Sequence[Event]) -> tuple[int, float] | None:
    """Return number and last instant of events, which change with more events; None for none."""
    return (len(events), events[-1].at.timestamp()) if events else None


class ChartRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A past shown on the screen: of the whole fleet, of hosts, or of the devices of hosts."""

    metric: str
    """A numeric field of `FleetDevice`."""
    span_seconds: Seconds = 3600
    hosts: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    """By name; empty for one line for the whole fleet."""
    cluster: str | None = None
    """The cluster of the hosts, if they have one."""
    by_device: bool = False
    """A line per device of these hosts rather than per host."""
    points: Annotated[int, Meta(ge=2, le=2000)] = 120
    end: Annotated[datetime, Meta(tz=True)] | None = None
    """The time of its last values, None for now."""


class FleetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A screen's request to its collector: one line of JSON on stdin, which replaces the last.

    A source without a past ignores instant and charts.
    """

    at: Annotated[datetime, Meta(tz=True)] | None = None
    """The instant to show, None for now."""
    charts: Annotated[tuple[ChartRequest, ...], Meta(max_length=16)] = ()
    """The charts on the screen; queried again as time passes."""
    events_since: Annotated[datetime, Meta(tz=True)] | None = None
    """The start of the listed events, None for no events."""
    events_until: Annotated[datetime, Meta(tz=True)] | None = None
    """The end of the listed events, None for now."""
    events_known: tuple[int, float] | None = None
    """The `mark_of` the screen's events, which are not sent again."""
    is_brief: bool = False
    """Whether only a first picture is awaited; the sources list what is missing."""
    retries: Annotated[int, Meta(ge=0)] = 0
    """Counts how often the user asked to connect disconnected hosts without delay."""


FLEET_SCHEMA = 1
"""Version of the document; it only grows: fields are added, never renamed or removed."""


class FleetSnapshot(Struct, frozen=True, kw_only=True):
    """Many hosts at one instant: the document that gpudash prints, pipes, records and shows."""

    # fmt: off
    fleet: Annotated[Index, _document(Unit.NONE,
        "Version of this document; fields are only added.")] = FLEET_SCHEMA
    taken_at: Annotated[datetime, Meta(tz=True), _document(Unit.NONE,
        "When it was put together, or the instant that was asked for; RFC 3339 in UTC.")]
    sources: Annotated[tuple[FleetSource, ...], Meta(max_length=1 << 10), _document(Unit.NONE,
        "Where the hosts are known from.")] = ()
    hosts: Annotated[tuple[FleetHost, ...], Meta(max_length=1 << 16), _document(Unit.NONE,
        "All hosts, by name.")] = ()
    users: Annotated[tuple[FleetUser, ...], Meta(max_length=1 << 16), _document(Unit.NONE,
        "Users with GPUs, the most GPU-hours idle first, then the most GPUs.")] = ()
    jobs: Annotated[tuple[FleetJob, ...], Meta(max_length=1 << 16), _document(Unit.NONE,
        "Jobs with GPUs, the largest first.")] = ()
    findings: Annotated[tuple[Finding, ...], Meta(max_length=1 << 14), _document(Unit.NONE,
        "What is wrong or wasteful, the worst first.")] = ()
    charts: Annotated[tuple[FleetChart, ...], Meta(max_length=16), _document(Unit.NONE,
        "The past that the screen asked for; empty in what is printed.")] = ()
    events: Annotated[Annotated[tuple[Event, ...], Meta(max_length=1 << 14)] | None,
        _document(Unit.NONE, "What happened, the oldest first; null unless the screen asked "
        "for it and has not got it yet.")] = None
    events_since: Annotated[Annotated[datetime, Meta(tz=True)] | None, _document(Unit.NONE,
        "From when on the screen has all events that it asked for, with these; null while a "
        "source is being asked.")] = None
    # fmt: on

    @property
    def is_asking(self) -> bool:
        """Whether a source has yet to answer, so that missing data may still come."""
        return any(source.partial for source in self.sources)


EMPTY = FleetSnapshot(taken_at=snapshot.EMPTY.taken_at)
"""The snapshot before the first one: no hosts, no sources."""


def encode(snapshot: FleetSnapshot) -> bytes:
    """Return a snapshot of many hosts as one line of UTF-8 JSON without its newline."""
    return json.encode(snapshot)


def decode(line: bytes) -> FleetSnapshot:
    """Return the snapshot of many hosts of one line, its texts cleaned; raises WireError."""
    return _with_ids(wire.decode_document(line, _decoder()))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document, with each field's help and unit."""
    return wire.schema_of(FleetSnapshot, "gpudash snapshot of many hosts")


def encode_request(request: FleetRequest) -> bytes:
    """Return a request as one line with its newline."""
    return json.encode(request) + b"\n"


def decode_request(line: bytes) -> FleetRequest:
    """Return the request in one line; raises WireError."""
    try:
        return json.decode(line, type=FleetRequest)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"not a request: {error}") from None


_OLD_STATUSES = {state.word: state.id for state in STATES if state.word != state.id}
"""Names of statuses in older recordings."""


def _with_ids(snapshot: FleetSnapshot) -> FleetSnapshot:
    """Return a snapshot with status ids, even from an older recording."""
    statuses = [each.status for host in snapshot.hosts for each in host.devices]
    if _OLD_STATUSES.keys().isdisjoint(statuses):
        return snapshot
    hosts = [
        replace(
            host,
            devices=tuple(
                replace(each, status=_OLD_STATUSES.get(each.status, each.status))
                for each in host.devices
            ),
        )
        for host in snapshot.hosts
    ]
    return replace(snapshot, hosts=tuple(hosts))


@lru_cache(maxsize=1)
def _decoder() -> json.Decoder[FleetSnapshot]:
    return wire.decoder_of(FleetSnapshot)
