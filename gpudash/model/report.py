"""The use of GPUs over a span of time: numbers per minute, and a report on many of them.

A history keeps a line of numbers per minute beside its samples, and chart values of several minutes
per line. Seconds without a sample are not counted: nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, json

from gpudash.model import wire
from gpudash.model.fields import Amount, Group, Index, Natural, Seconds, metric
from gpudash.model.snapshot import FindingLevel
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

_use = partial(metric, Group.PROCESS)
_gpu = partial(metric, Group.IDENTITY)
_document = partial(metric, Group.DOCUMENT)
_finding = partial(metric, Group.FINDING)

Grouping = Literal["user", "gpu", "job", "host"]
"""The rows of a report: users, devices, jobs of users, or hosts."""
Columns = Mapping[str, tuple[float | None, ...]]
"""The value of each device, by metric."""
_LARGE = 1000


class Use(Struct, frozen=True):
    """For how long devices were held, and how; of a user, a GPU counts once, whatever is on it."""

    # fmt: off
    held_seconds: Annotated[Amount, _use(Unit.SECOND,
        "Time in which processes held a GPU, of several GPUs added up: two GPUs for an hour are "
        "two hours. Of a user or a job, whatever of its MIG instances they held.")] = 0.0
    share_seconds: Annotated[Amount, _use(Unit.SECOND,
        "The part of this time that is theirs, if a GPU is divided equally among its MIG "
        "instances in use, these among their users, and theirs among their jobs; all shares of a "
        "GPU add up to the time in which it was held.")] = 0.0
    idle_seconds: Annotated[Amount, _use(Unit.SECOND,
        "The part of the time held in which the GPU was held idle, as the column STATUS shows it: "
        "pauses of up to five minutes are none. By a MIG instance that is idle a user's GPU is.")
        ] = 0.0
    unknown_seconds: Annotated[Amount, _use(Unit.SECOND,
        "The part of the time held in which it is not known whether it computed: MIG instances "
        "without GPM, GPUs that are not read.")] = 0.0
    peak_memory_bytes: Annotated[Natural | None, _use(Unit.BYTE,
        "The most memory at once, to the minute: of a GPU in use, of others that of their "
        "processes; on one host. Null where none is known.")] = None
    energy_mj: Annotated[Amount | None, _use(Unit.MILLIJOULE,
        "Energy: of a GPU by its counter, whether held or not. Of a user or a job an estimate: "
        "what the GPU takes is divided among those who hold it, by the SM utilization of their "
        "processes, by their shares while one of these is not known. Null without a counter.")
        ] = None
    # fmt: on


class MinuteUse(Use, frozen=True, array_like=True):
    """What a user, or a job of theirs, had of a GPU in a minute."""

    device: Index = 0
    """The GPU: index in `Minute.devices`."""
    user: SafeText | None = None
    """None if the holder is unknown."""
    job: SafeText | None = None
    """As displayed, None for none; in `Minute.users` for all."""


class MinuteDevice(Use, frozen=True, array_like=True):
    """What a GPU or a MIG instance did in a minute."""

    seen_seconds: Seconds = 0.0
    """Seconds in which it is known whether it was held."""
    key: SafeText = SafeText("")
    """`Device.key`."""
    label: SafeText = SafeText("")
    name: SafeText | None = None
    parent: Index | None = None
    """The GPU of an instance: index in `Minute.devices`."""


class MinuteFinding(Struct, frozen=True, array_like=True):
    """How long something was wrong in a minute."""

    rule: SafeText
    level: FindingLevel
    seconds: Seconds
    device: Index | None = None
    """Index in `Minute.devices`, None if it is not about one."""


class Charted(Struct, frozen=True, kw_only=True):
    """What is charted of the devices of one host in some time."""

    taken_at: Annotated[datetime, Meta(tz=True)]
    """When its last sample was taken."""
    means: Columns = {}
    """By charted field, the mean for each device; fields without any value are left out."""
    maxima: Columns = {}
    """The maximum of each."""


class ChartedMinutes(Charted, frozen=True, kw_only=True):
    """The same of several minutes that follow each other: a line of a history, for long charts."""

    keys: tuple[SafeText, ...] = ()
    """`Device.key` of each device."""
    minima: Columns = {}
    """The lowest mean of a minute."""


class Minute(Charted, frozen=True, kw_only=True):
    """A minute of one host in numbers: a line of a history."""

    minute: Index = 1
    """Version of this document; fields are only added."""
    host: SafeText
    cluster: SafeText | None = None
    """The host's cluster, None if unknown."""
    seconds: Seconds = 0.0
    """How much of it was seen: the time between samples, without gaps."""
    devices: Annotated[tuple[MinuteDevice, ...], Meta(max_length=1 << 14)] = ()
    users: tuple[MinuteUse, ...] = ()
    jobs: tuple[MinuteUse, ...] = ()
    """The same by job."""
    findings: tuple[MinuteFinding, ...] = ()


class ModelUse(Struct, frozen=True, kw_only=True):
    """The part of a row that is of GPUs of one model."""

    # fmt: off
    name: Annotated[SafeText | None, _gpu(Unit.NONE, "Product name.")]
    share_seconds: Annotated[Amount, _use(Unit.SECOND, "Its part of the row's.")]
    # fmt: on


class ReportRow(Use, frozen=True, kw_only=True):
    """A user, a job, a device or a host over the span of a report."""

    # fmt: off
    host: Annotated[SafeText | None, _document(Unit.NONE,
        "Its host, null for a user or a job.")] = None
    user: Annotated[SafeText | None, _use(Unit.NONE,
        "Whose it was; null for a device or a host, and where that is not known.")] = None
    job: Annotated[SafeText | None, _use(Unit.NONE,
        "Container, pod, Slurm job or unit; null for none.")] = None
    gpu: Annotated[SafeText | None, _gpu(Unit.NONE,
        "What the device is called on its host: 0, of a MIG instance 0:1.")] = None
    uuid: Annotated[SafeText | None, _gpu(Unit.NONE, "The device.")] = None
    parent_uuid: Annotated[SafeText | None, _gpu(Unit.NONE,
        "UUID of the GPU that it is an instance of, in whose row it is, too; null for a GPU.")
        ] = None
    seen_seconds: Annotated[Amount | None, _document(Unit.SECOND,
        "Of a device or a host: for how long it is known whether its GPUs were held, added up.")
        ] = None
    models: Annotated[tuple[ModelUse, ...], Meta(max_length=1 << 10), _use(Unit.NONE,
        "The share by model of GPU, the largest first.")] = ()
    cost: Annotated[Amount | None, _use(Unit.NONE,
        "What the share costs by the prices of the settings; null without.")] = None
    cluster: Annotated[SafeText | None, _document(Unit.NONE,
        "Of a job: that of its hosts, as each cluster numbers its own; null if not known.")] = None
    # fmt: on


class ReportFinding(Struct, frozen=True, kw_only=True):
    """How long something was wrong with a device or a host."""

    # fmt: off
    rule: Annotated[SafeText, _finding(Unit.NONE, "Which rule found it, such as power-capped.")]
    level: Annotated[FindingLevel, _finding(Unit.NONE, "info, warn or critical, the worst.")]
    host: Annotated[SafeText, _document(Unit.NONE, "Its host.")]
    gpu: Annotated[SafeText | None, _gpu(Unit.NONE,
        "What the device is called there, null if it is not about one.")] = None
    seconds: Annotated[Amount, _finding(Unit.SECOND, "How long it was found, added up.")]
    # fmt: on


class ReportHost(Struct, frozen=True, kw_only=True):
    """How much was seen of a host."""

    # fmt: off
    name: Annotated[SafeText, _document(Unit.NONE, "Its name.")]
    seen_seconds: Annotated[Amount, _document(Unit.SECOND,
        "For how long it was watched in the span of the report.")] = 0.0
    gpu_seconds: Annotated[Amount, _document(Unit.SECOND,
        "Of its GPUs: for how long it is known whether they were held, added up.")] = 0.0
    message: Annotated[SafeText | None, _document(Unit.NONE,
        "Why there is nothing of it, null if there is.")] = None
    note: Annotated[SafeText | None, _document(Unit.NONE,
        "What is missing in it, such as samples behind damage; null for nothing.")] = None
    # fmt: on


class Report(Struct, frozen=True, kw_only=True):
    """What GPUs were used for: the document of `gpudash report --json`."""

    # fmt: off
    report: Annotated[Index, _document(Unit.NONE,
        "Version of this document; fields are only added.")] = 1
    taken_at: Annotated[datetime, Meta(tz=True), _document(Unit.NONE, "When it was made.")]
    by: Annotated[Grouping, _document(Unit.NONE, "What its rows are: user, gpu, job or host.")]
    since: Annotated[datetime, Meta(tz=True), _document(Unit.NONE, "From when.")]
    until: Annotated[datetime, Meta(tz=True), _document(Unit.NONE, "Until when.")]
    hosts: Annotated[tuple[ReportHost, ...], Meta(max_length=1 << 16), _document(Unit.NONE,
        "What was seen of each host.")] = ()
    rows: Annotated[tuple[ReportRow, ...], Meta(max_length=1 << 17), _document(Unit.NONE,
        "Users and jobs by their time, the most first; devices and hosts in their order.")] = ()
    findings: Annotated[tuple[ReportFinding, ...], Meta(max_length=1 << 17), _document(Unit.NONE,
        "What was wrong, the worst and longest first.")] = ()
    # fmt: on


def joined(minutes: Sequence[Minute]) -> ChartedMinutes:
    """Return the chart values of consecutive minutes, at least one."""
    keys = tuple(dict.fromkeys(device.key for minute in minutes for device in minute.devices))
    means, maxima = (_known(minutes, keys, kind) for kind in ("means", "maxima"))
    return ChartedMinutes(
        taken_at=minutes[-1].taken_at,
        keys=keys,
        minima=charted(means, lowest),
        means=charted(means, rounded_mean),
        maxima=charted(maxima, highest),
    )


def _known(
    minutes: Sequence[Minute], keys: Sequence[str], kind: str
) -> dict[str, list[list[float]]]:
    """Return by metric the known means or maxima of each device."""
    found: dict[str, dict[str, list[float]]] = {}
    for minute in minutes:
        for name, values in getattr(minute, kind).items():
            by_key = found.setdefault(name, {key: [] for key in keys})
            for device, value in zip(minute.devices, values, strict=True):
                if value is not None:
                    by_key[device.key].append(value)
    return {name: [*by_key.values()] for name, by_key in found.items()}


def charted(
    known: Mapping[str, Sequence[Sequence[float]]],
    combine: Callable[[Sequence[float]], float | None],
) -> Columns:
    """Return by metric the combination of each device's known values."""
    return {name: tuple(map(combine, of_each)) for name, of_each in known.items()}


lowest, highest = partial(min, default=None), partial(max, default=None)


def rounded_mean(values: Sequence[float]) -> float | None:
    """Return the mean, rounded to the precision of charts; None for no values."""
    mean = sum(values) / len(values) if values else None
    return mean if mean is None else round(mean, 1 if mean < _LARGE else None)


def encode_minute(minute: Charted) -> bytes:
    """Return a minute, or several, as one line of JSON without its newline."""
    return json.encode(minute)


def decode_minute(line: bytes) -> Minute:
    """Return the minute in one line, its texts cleaned; raises WireError."""
    return wire.decode_document(line, _minutes(), _require_devices, "minute")


def decode(line: bytes) -> Report:
    """Return the report in one line, its texts cleaned; raises WireError."""
    return wire.decode_document(line, _reports(), what="report")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report, with each field's help and unit."""
    return wire.schema_of(Report, "gpudash report")


@lru_cache(maxsize=1)
def _minutes() -> json.Decoder[Minute]:
    return wire.decoder_of(Minute)


@lru_cache(maxsize=1)
def _reports() -> json.Decoder[Report]:
    return wire.decoder_of(Report)


def _require_devices(minute: Minute) -> None:
    """Raise ValidationError for an invalid device index, or unless each device has one value."""
    count = len(minute.devices)
    positions = [each.device for each in (*minute.users, *minute.jobs)]
    positions += [each.device for each in minute.findings if each.device is not None]
    positions += [each.parent for each in minute.devices if each.parent is not None]
    if max(positions, default=-1) >= count:
        raise ValidationError("Expected the position of a device - at `$`")
    if any(len(each) != count for each in (*minute.means.values(), *minute.maxima.values())):
        raise ValidationError(f"Expected {count} values, one a device - at `$`")
