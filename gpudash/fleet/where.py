"""The filter of GPUs of many hosts: `host:gpu[01-08] idle>1h mem>10G`, `-state:busy alice`.

The grammar is that of the process filter. The GPUs of a silent host have their last users and job;
their activity is unknown, and none of their numbers match. Events are filtered with the same words,
by the GPU that they are about, and by their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from msgspec.structs import replace

from gpudash.analysis.filter import Filter, Grammar
from gpudash.analysis.filter.predicates import (
    LOOSE,
    OTHER,
    Builder,
    Test,
    of_set,
    of_text,
    on_gpus,
)
from gpudash.analysis.filter.terms import SHARE, SIZE, SPAN, Quantities, Term, named, number
from gpudash.fleet.jobs import job_key
from gpudash.fleet.names import expand, short
from gpudash.fleet.summary import Fits, age_of, label_of
from gpudash.model import units
from gpudash.model.errors import UsageError
from gpudash.model.fleet import Event, EventKind, FleetDevice, FleetHost, HostKey, JobKey
from gpudash.model.host_words import HOST_STATES
from gpudash.model.state import STATES, state_of
from gpudash.model.text import SafeText
from gpudash.model.units import Quantity


class GpuOfHost(NamedTuple):
    """A GPU that a filter may match; None for a host without known GPUs."""

    host: FleetHost
    device: FleetDevice | None
    event: Event | None = None
    """The event about it, if events are filtered."""


def where(text: str) -> Fits | None:
    """Return the test of a filter, None if everything passes; raises FilterError."""
    return fits(GRAMMAR.parse(text))


def fits(wanted: Filter[GpuOfHost]) -> Fits | None:
    """Return the test of a parsed filter, None if everything passes; GPUs have no kind of event."""
    clauses = tuple(each for each in wanted.clauses if each.term != KIND.names[0])
    if not clauses:
        return None
    matches = Filter(wanted.text, clauses).matches
    return lambda host, device: matches(GpuOfHost(host, device))


def passing(
    found: Sequence[Event], hosts: Iterable[FleetHost], wanted: Filter[GpuOfHost]
) -> Sequence[Event]:
    """Return the events that pass a filter; `hosts` show what their GPUs do at present."""
    if not wanted.clauses or not found:
        return found
    known = {host.key: host for host in hosts}
    jobs: dict[JobKey | None, list[tuple[FleetHost, FleetDevice]]] = {
        (event.cluster, event.job): []
        for event in found
        if event.job is not None and event.host is None
    }
    for host in known.values() if jobs else ():
        for device in host.devices:
            key = job_key(host, device)
            if key in jobs:
                jobs[key].append((host, device))
    return [event for event in found if any(map(wanted.matches, _rows(event, known, jobs)))]


def _rows(
    event: Event,
    known: Mapping[HostKey, FleetHost],
    jobs: Mapping[JobKey | None, Sequence[tuple[FleetHost, FleetDevice]]],
) -> Iterator[GpuOfHost]:
    """Yield an event once for each GPU that it is about, with that GPU's known data."""
    # The text for a job on several hosts names some of them.
    name = event.host or event.what
    host = known.get((event.cluster, name)) or FleetHost(name=name, cluster=event.cluster)
    about = (
        jobs.get((event.cluster, event.job or ""), ())
        if event.host is None
        else [
            (host, each)
            for each in host.devices
            if (each.key == event.gpu_key if event.gpu else event.job in (None, each.job))
        ]
    )
    users = () if event.user is None else (event.user,)
    gone = host, FleetDevice(index=0, label=event.gpu or SafeText(""))
    for on, device in about or (gone,):
        whose = event.job or device.job
        # It may have had another index at the time.
        label = event.gpu or device.label
        merged = replace(device, label=label, xid=event.xid, job=whose, users=users or device.users)
        yield GpuOfHost(on, merged, event)


def _live(row: GpuOfHost) -> FleetDevice | None:
    """Return the device if its activity is known; for an event, the last known device."""
    return row.device if row.host.state == "ok" or row.event is not None else None


def _host(row: GpuOfHost) -> Iterable[str]:
    return (row.host.name,)


def _group(row: GpuOfHost) -> Iterable[str]:
    return () if row.host.group is None else (row.host.group,)


def _cluster(row: GpuOfHost) -> Iterable[str]:
    return () if row.host.cluster is None else (row.host.cluster,)


def _model(row: GpuOfHost) -> Iterable[str]:
    return () if row.device is None or row.device.name is None else (row.device.name,)


def _driver(row: GpuOfHost) -> Iterable[str]:
    return () if row.host.driver_version is None else (row.host.driver_version,)


def _state(row: GpuOfHost) -> Iterable[str]:
    device = _live(row)
    if device is not None and row.host.state == "ok":
        state = state_of(device.status)
        return (state.id, state.word)
    return (row.host.state, HOST_STATES[row.host.state].word)


def _user(row: GpuOfHost) -> Iterable[str]:
    return () if row.device is None else row.device.users


def _job(row: GpuOfHost) -> Iterable[str]:
    return () if row.device is None or row.device.job is None else (row.device.job,)


def _namespace(row: GpuOfHost) -> Iterable[str]:
    return [job.partition("/")[0] for job in _job(row) if "/" in job]


def _label(row: GpuOfHost) -> frozenset[str]:
    return frozenset() if row.device is None else frozenset((label_of(row.host, row.device),))


def _age(row: GpuOfHost) -> float | None:
    return age_of(row.host, row.device)


def _kind(row: GpuOfHost) -> Iterable[str]:
    return () if row.event is None else (row.event.kind,)


def searched(row: GpuOfHost) -> Iterable[str]:
    """Return the texts to search for a plain word: host, group, model, user, job.

    For an event, its kind and its text too.
    """
    texts = (*_host(row), *_group(row), *_model(row), *_user(row), *_job(row))
    return texts if row.event is None else (*texts, row.event.kind, row.event.what)


def _hosts(sign: str, value: str) -> Test[GpuOfHost] | None:
    """Return the test for host names, which may be abbreviated with brackets."""
    if "[" not in value:
        return _HOST_NAMES(sign, value)
    if set(value) & _ELSEWHERE:
        return None
    try:
        wanted = {host.casefold() for host in expand([value])}
    except UsageError:
        return None

    def test(row: GpuOfHost) -> bool:
        name = row.host.name.casefold()
        # Some sources know a host by its full name.
        return (name in wanted or short(name) in wanted) is (sign != OTHER)

    return test


_ELSEWHERE = frozenset("@:!")
"""In names that need a lookup: groups, and hosts of Slurm."""
_HOST_NAMES = of_text(_host, several=True)


def _one_of(read: Callable[[GpuOfHost], Iterable[str]], words: Iterable[str]) -> Builder[GpuOfHost]:
    """Return the builder of a term over certain words; it rejects any other word."""
    known = {word.casefold() for word in words}

    def build(sign: str, value: str) -> Test[GpuOfHost] | None:
        for part in value.casefold().split(","):
            if not (part in known or (sign == LOOSE and part and any(part in k for k in known))):
                return None
        return of_text(read, several=True)(sign, value)

    return build


def _watts(text: str) -> Quantity | None:
    return _plain(text.lower().removesuffix("w"))


def _degrees(text: str) -> Quantity | None:
    return _plain(text.lower().removesuffix("c"))


def _plain(text: str) -> Quantity | None:
    return None if text.endswith("%") else units.parse_percentage(text)


def _milliwatts(device: FleetDevice) -> float | None:
    return None if device.power_usage_mw is None else device.power_usage_mw / 1000


def _number(
    names: tuple[str, ...],
    example: str,
    help: str,
    written: Quantities,
    read: Callable[[FleetDevice], float | None],
) -> Term[GpuOfHost]:
    """Return a term over a number of a GPU, if its values are live."""

    def value(row: GpuOfHost) -> float | None:
        device = _live(row)
        return None if device is None else read(device)

    return number(names, example, help, written, value)


_STATE_WORDS = (
    *(text for each in STATES for text in (each.id, each.word)),
    *(text for state, words in HOST_STATES.items() for text in (state, words.word)),
)

TERMS: tuple[Term[GpuOfHost], ...] = (
    Term(
        ("host",),
        "host:gpu[01-08]",
        "name of the host or a part of it, or several; brackets are whole names",
        "a name, several such as n1,n2, or gpu[01-08]",
        _hosts,
    ),
    named(("rack", "group"), "rack:r07", "rack, partition or group of the host", _group),
    Term(
        ("state", "status"),
        "state:held",
        "what it does: busy, held, free, LOST, DOWN",
        ", ".join(dict.fromkeys((*(state.id for state in STATES), *HOST_STATES))),
        _one_of(_state, _STATE_WORDS),
    ),
    named(("user", "owner"), "user:alice", "whose processes or job it has, or several", _user),
    _number(
        ("idle",),
        "idle>1h",
        "time since it last computed",
        SPAN,
        lambda device: device.idle_seconds,
    ),
    _number(
        ("mem", "memory"),
        "mem>10G",
        "memory in use",
        SIZE,
        lambda device: device.memory_used_bytes,
    ),
    _number(
        ("util", "utilization"),
        "util<5",
        "utilization in percent",
        SHARE,
        lambda device: device.gpu_utilization_percent,
    ),
    named(("job",), "job:4242", "id of its job, or namespace/pod", _job),
    named(("ns", "namespace"), "ns:ml", "namespace of its pod", _namespace),
    named(("model",), "model:h100", "product name", _model),
    _number(
        ("power",), "power>500", "power draw in watts", Quantities("watts", _watts), _milliwatts
    ),
    _number(
        ("temp", "temperature"),
        "temp>80",
        "temperature in degrees Celsius",
        Quantities("degrees", _degrees),
        lambda device: device.temperature_celsius,
    ),
    _number(
        ("xid",),
        "xid:79",
        "recent XID error",
        Quantities("its number", _plain),
        lambda device: device.xid,
    ),
    number(("age",), "age>1m", "age of what is known of it", SPAN, _age),
    Term(
        ("gpu", "gpus"),
        "gpu:0-3",
        "its index on the host, or a MIG instance such as 0:1",
        "indices such as 2, 0-3,6 or the MIG instance 0:1",
        of_set(_label, on_gpus),
    ),
    named(("driver",), "driver:550", "version of the driver", _driver),
    named(("cluster",), "cluster:a", "cluster of the host", _cluster),
)
"""Every term, in the order in which help and messages name them."""

KIND = Term[GpuOfHost](
    ("kind",),
    "kind:lost",
    "kind of what happened, or several; GPUs have none, and all pass",
    ", ".join(get_args(EventKind)),
    _one_of(_kind, get_args(EventKind)),
)
"""A term only for events."""

GRAMMAR, GRAMMAR_OF_EVENTS = Grammar(TERMS, searched), Grammar((*TERMS, KIND), searched)
