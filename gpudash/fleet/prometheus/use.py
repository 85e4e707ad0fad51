"""How long GPUs were held in the past of a Prometheus: the minutes of a report, and longer.

Queries count the steps at which something held of each GPU, and of each holder by its labels; a
step without a sample is in no sum. A GPU with a job in its labels is held, whatever it does; any
other one by its memory or utilization, unless gpudash exports it and says so itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import groupby
from math import ceil
from typing import NamedTuple, get_args

from msgspec.structs import replace

from gpudash.analysis.activity import BUSY_PERCENT, IDLE_PERCENT, PAUSE_SECONDS
from gpudash.fleet.prometheus.dialects import INSTANCE_LABEL, PERSON_LABELS, Dialect, Labels
from gpudash.fleet.prometheus.known import KnownHost, Row, index_of, number_of, uuid_of
from gpudash.fleet.prometheus.past import Past
from gpudash.fleet.prometheus.queries import Metric, promql, series
from gpudash.model.dcgm import dcgm_metric
from gpudash.model.device import device_fields, device_label
from gpudash.model.report import Minute, MinuteDevice, MinuteFinding, MinuteUse
from gpudash.model.snapshot import FindingLevel
from gpudash.model.text import NAME_BYTES, SafeText, clean

_PAUSE = f"{PAUSE_SECONDS:.0f}s"
_MAX_POINTS, _CHUNK_POINTS = 1_000_000, 100_000
"""Devices times steps that the server evaluates for one question, and for one query of it."""
_DCGM = [dcgm_metric(device_fields()["total_energy_mj"], each) for each in ("legacy", "4.9")]
_ENERGY: Mapping[str, Sequence[tuple[str, float]]] = {
    "gpudash": (("gpudash_total_energy_mj", 1.0),),
    "dcgm-exporter": [(each.name, 1 / each.factor) for each in _DCGM if each is not None],
    "nvidia_gpu_exporter": (("nvidia_smi_energy_joules_total", 1e3),),
}
"""The counters of dialects, with the factor to mJ."""

_OWN, _HELD = "gpudash", "gpudash_gpu_held"
"""Our own exporter, and its metric for held GPUs."""

_Who = tuple[SafeText | None, SafeText | None]
"""A user, and one of their jobs."""
_NOBODY: _Who = None, None
_Finding = tuple[SafeText, FindingLevel, int | None]
"""Its rule, its level, and the index of its GPU, None for the host."""
_LEVELS: Mapping[str, FindingLevel] = {each: each for each in get_args(FindingLevel)}


class _Key(NamedTuple):
    """A GPU of a host."""

    host: KnownHost
    number: int
    """Its present index."""
    uuid: SafeText | None = None
    """None if unknown."""


class _Amounts:
    """The sums of a GPU or one of its holders: steps, energy and peak memory."""

    __slots__ = ("energy", "held", "idle", "peak", "share", "unknown")

    def __init__(self) -> None:
        self.held = self.idle = self.unknown = 0.0
        self.share: float | None = None
        """The holder's part of the steps held; None if unknown."""
        self.energy: float | None = None
        self.peak: float | None = None

    def values(
        self, step: int, part: float = 1.0
    ) -> tuple[float, float, float, float, int | None, int | None]:
        """Return the values in the order of `Use`; `part` is the holder's part of the time held."""
        return (
            self.held * step,
            self.held * part * step,
            min(self.idle, self.held) * step,
            min(self.unknown, self.held) * step,
            None if self.peak is None else int(self.peak),
            None if self.energy is None else round(self.energy * part),
        )


class _Gpu:
    """A GPU in a part of the span, as one exporter shows it."""

    def __init__(self, index: int, seen: float) -> None:
        self.index, self.seen = index, seen
        self.uuid: SafeText | None = None
        self.name: SafeText | None = None
        self.energy: float | None = None
        self.people: dict[_Who, _Amounts] = {}

    def of(self, who: _Who) -> _Amounts:
        """Return the sums of a holder."""
        return self.people.setdefault(who, _Amounts())

    def bounded(self, name: str, value: float, each: list[float]) -> float:
        """Return the sum of values, at most the time that it was seen; the highest for peaks."""
        if name == "peak":
            return max(each)
        return value if name == "energy" else min(value, self.seen)

    def total(self) -> _Amounts:
        """Return the sums of the GPU: time with several holders counts once."""
        total = _Amounts()
        total.energy = self.energy
        for each in self.people.values():
            total.held = min(total.held + each.held, self.seen)
            total.idle = min(total.idle + each.idle, self.seen)
            total.unknown = min(total.unknown + each.unknown, self.seen)
            if each.peak is not None:
                total.peak = max(total.peak or 0.0, each.peak)
        return total


class _Terms(NamedTuple):
    """PromQL that returns a value for each GPU that meets a condition; empty for no query."""

    there: str
    held: str
    rests: str
    """It has not computed for as long as a job may pause."""
    held_idle: str
    """The same, and it was held all the while."""
    unknown: str
    energy: str
    memory: str


class PastUse(Past):
    """Queries a Prometheus for the use of GPUs in a span of its past."""

    def minutes(
        self, since: float, until: float, owners: Mapping[str, SafeText], *, by_host: bool
    ) -> Iterator[Minute]:
        """Yield the use of each host in each part of the span; raises PrometheusError.

        `owners` are those of jobs whose labels do not name one, in one cluster: with several
        clusters they are ignored, as job numbers may repeat.
        With `by_host`, one GPU of a host has the peak memory of all of them together.
        """
        self._by_host, self._owners = by_host, owners
        until = self._present(until)
        self._learn(since, until)
        count = self._inventory.size
        if not count:
            return
        if len({host.cluster for host in self._inventory.hosts.values()}) > 1:
            self._owners = {}
        spacing = self._spacing(since, until, count)
        # A series without samples for longer is gone, whether the server noticed or not.
        self._fresh = ceil(1.1 * (spacing.within - spacing.step))
        step = max(spacing.step, 15 * ceil((until - since) * count / _MAX_POINTS / 15))
        identity = promql(self._inventory.catalog.identity(), series) or ""
        at, last = since - since % step, until - until % step
        while at < last:
            length = min(max(1, _CHUNK_POINTS // count) * step, int(last - at))
            at += length
            self._steps = length // step
            # Devices present for only some of the time are known from the part that had them.
            self._learn_gone(self._instant(identity, at))
            # Its first instant is the last one of the part before.
            yield from self._part(at, f"[{length - 1}s:{step}s]", step)

    def _part(self, end: float, span: str, step: int) -> Iterator[Minute]:
        gpus: dict[_Key, _Gpu] = {}
        for dialect, compute, memory in self._inventory.catalog.uses():
            # Of several exporters, the one that saw most counts, else the last.
            for key, gpu in self._gpus_of(dialect, compute, memory, end, span, step).items():
                if key not in gpus or gpu.seen >= gpus[key].seen:
                    gpus[key] = gpu
        users, peaks = self._users(end, span), self._peaks(end, span) if self._by_host else None
        wrong = self._findings(end, span)
        found = sorted(
            gpus.items(), key=lambda each: (each[0][0].key[1], id(each[0][0]), each[1].index)
        )
        for host, some in groupby(found, key=lambda each: each[0][0]):
            gpus_of_host, of_host = [gpu for _, gpu in some], users.get(host, {})
            minute = _minute(host, gpus_of_host, of_host, wrong.get(host, {}), end, step)
            if peaks is not None:
                first, *others = (replace(each, peak_memory_bytes=None) for each in minute.devices)
                first = replace(first, peak_memory_bytes=peaks.get(host))
                minute = replace(minute, devices=(first, *others))
            yield minute

    def _gpus_of(
        self,
        dialect: Dialect,
        compute: list[Metric],
        memory: list[Metric],
        end: float,
        span: str,
        step: int,
    ) -> dict[_Key, _Gpu]:
        """Return the GPUs shown by one exporter."""
        own, by, named = self._labels(dialect, compute, memory)

        def terms(by: str) -> _Terms:
            return _terms(dialect, compute, memory, by, self._fresh, step)

        def rows(text: str, function: str = "count") -> list[Row]:
            return self._instant(f"{function}_over_time(({text}){span})", end) if text else []

        of_gpu, of_people = terms(own), terms(by)
        seen = self._by_key(rows(of_gpu.there), dialect)
        found = {key: _Gpu(key.number, self._together(each, each)) for key, each in seen.items()}
        if not found:
            return found
        self._name(found, dialect, rows(terms(named).there))
        if self._inventory.catalog.choices[dialect.name].has_instances:
            of_people = _of_instances(of_people, terms(f"{by}, {INSTANCE_LABEL}"), by)
        if dialect.name == _OWN:
            asked = f"count(count_over_time({_HELD}{span.partition(':')[0]}]))"
            known = self._instant(asked, end)
            of_people = _own_terms(of_people, by, self._fresh) if known else of_people
        for key, each in self._by_key(rows(of_gpu.energy, "sum"), dialect).items():
            if key in found:
                found[key].energy = self._together(each, seen[key])
        for name, function, text, of_allocated in _asked(of_people):
            by_who: dict[_Who, list[Row]] = {}
            for row in rows(text, function):
                who = self._who(row.labels, dialect)
                if of_allocated in (None, who != _NOBODY):
                    by_who.setdefault(who, []).append(row)
            for who, some in by_who.items():
                for key, each in self._by_key(some, dialect).items():
                    if key in found:
                        value = self._together(each, seen[key])
                        setattr(found[key].of(who), name, found[key].bounded(name, value, each))
        return found

    def _by_key(self, rows: Iterable[Row], dialect: Dialect) -> dict[_Key, list[float]]:
        """Return the values of each GPU: several if its host had several names."""
        found: dict[_Key, list[float]] = {}
        for row in rows:
            key = self._key(row.labels, dialect)
            if key is not None and row.number is not None:
                found.setdefault(key, []).append(row.number)
        return found

    def _together(self, values: list[float], seen: list[float]) -> float:
        """Return the sum of a GPU's values under several names, each seen for that many steps.

        With two names at once, it is seen for more steps than there are: each step counts once.
        """
        return sum(values) * min(1.0, self._steps / (sum(seen) or 1.0))

    def _users(self, end: float, span: str) -> dict[KnownHost, dict[_Who, _Amounts]]:
        """Return the use by users of hosts that run gpudash, in steps of a GPU."""
        found: dict[KnownHost, dict[_Who, _Amounts]] = {}
        for metric, name, function in (
            ("gpudash_user_gpus", "held", "sum"),
            # Replaces the first one, of older versions, which counts desktops too.
            ("gpudash_user_held_gpus", "held", "sum"),
            ("gpudash_user_gpu_shares", "share", "sum"),
            ("gpudash_user_idle_gpus", "idle", "sum"),
            ("gpudash_user_unknown_gpus", "unknown", "sum"),
            ("gpudash_user_memory_bytes", "peak", "max"),
        ):
            now = f"last_over_time({metric}[{self._fresh}s])"
            rows = self._instant(f"{function}_over_time(({now}){span})", end)
            for host, value, labels in self._inventory.hosts_of(rows):
                user = clean(labels.get("user", ""), NAME_BYTES) or None
                each = found.setdefault(host, {}).setdefault((user, None), _Amounts())
                setattr(each, name, value)
        return found

    def _findings(self, end: float, span: str) -> dict[KnownHost, dict[_Finding, float]]:
        """Return for how many steps hosts that run gpudash have reported each finding."""
        found: dict[KnownHost, dict[_Finding, float]] = {}
        if _OWN not in self._inventory.catalog.choices:
            return found
        now = f"last_over_time(gpudash_finding[{self._fresh}s])"
        rows = self._instant(f"count_over_time(({now}){span})", end)
        for host, steps, labels in self._inventory.hosts_of(rows):
            if (level := _LEVELS.get(labels.get("level", ""))) is not None:
                rule = clean(labels.get("rule", ""), NAME_BYTES)
                what = rule, level, number_of(labels.get("gpu", ""))
                some = found.setdefault(host, {})
                some[what] = max(steps, some.get(what, 0.0))
        return found

    def _peaks(self, end: float, span: str) -> dict[KnownHost, int]:
        """Return the most memory that was in use at once on all GPUs of each host, in bytes."""
        found: dict[KnownHost, int] = {}
        for dialect, compute, memory in self._inventory.catalog.uses():
            by_gpu, _, _ = self._labels(dialect, compute, memory)
            for term in memory:
                now = f"max by ({by_gpu}) (last_over_time({term.selector}[{self._fresh}s]))"
                text = f"max_over_time((sum by ({term.host_by}) ({now})){span}) * {term.factor:g}"
                for host, value, _ in self._inventory.hosts_of(self._instant(text, end)):
                    found[host] = max(int(value), found.get(host, 0))
        return found

    def _key(self, labels: Labels, dialect: Dialect) -> _Key | None:
        host = self._inventory.host_of(labels)
        if host is None:
            return None
        uuid, index = uuid_of(labels, dialect), index_of(labels, dialect)
        # After renumbering, another GPU may have the index.
        device = host.device(None if self._goes_by_index(dialect) else uuid, index, "")
        if device is not None:
            return _Key(host, device.index, device.uuid)
        return None if index is None else _Key(host, index)

    def _labels(self, dialect: Dialect, *terms: Sequence[Metric]) -> tuple[str, str, str]:
        """Return the labels that distinguish GPUs, their holders, and their names."""
        known = next((some[0].by for some in terms if some), "")
        labels = [each for each in known.split(", ") if each != INSTANCE_LABEL]
        if not self._goes_by_index(dialect):
            labels = [*dict.fromkeys((*labels, dialect.uuid_label))]
        named = dict.fromkeys((*labels, INSTANCE_LABEL, dialect.uuid_label, dialect.model_label))
        return ", ".join(labels), ", ".join((*labels, *PERSON_LABELS)), ", ".join(named)

    def _goes_by_index(self, dialect: Dialect) -> bool:
        """Whether only the index shows the GPU of a MIG instance: our exporter has other UUIDs."""
        choices = self._inventory.catalog.choices
        return _OWN in choices and choices[dialect.name].has_instances

    def _name(self, gpus: Mapping[_Key, _Gpu], dialect: Dialect, rows: Iterable[Row]) -> None:
        """Set UUIDs and names of GPUs from series with these labels."""
        # A MIG instance may have its own: they count only if there are no others.
        for labels in sorted(
            (row.labels for row in rows), key=lambda each: each.get(INSTANCE_LABEL, "")
        ):
            key = self._key(labels, dialect)
            gpu = None if key is None else gpus.get(key)
            if gpu is not None and gpu.uuid is None:
                name = labels.get(dialect.model_label)
                gpu.uuid, gpu.name = (
                    uuid_of(labels, dialect),
                    clean(name, NAME_BYTES) if name else None,
                )

    def _who(self, labels: Labels, dialect: Dialect) -> _Who:
        person = self._inventory.catalog.choices[dialect.name].person(labels)
        if person is None:
            return _NOBODY
        named = None if person.user is None else clean(person.user, NAME_BYTES)
        return named or self._owners.get(person.job), clean(person.job, NAME_BYTES)


def _asked(terms: _Terms) -> Iterable[tuple[str, str, str, bool | None]]:
    """Return what to sum up, how, the query, and if of allocated GPUs or others; None for all."""
    energy_held = f"({terms.energy}) and ({terms.held})" if terms.energy and terms.held else ""
    return (
        ("held", "count", terms.there, True),
        ("held", "count", terms.held, False),
        ("idle", "count", terms.rests, True),
        ("idle", "count", terms.held_idle, False),
        ("unknown", "count", terms.unknown, None),
        ("energy", "sum", terms.energy, True),
        ("energy", "sum", energy_held, False),
        ("peak", "max", terms.memory, None),
    )


def _terms(
    dialect: Dialect, compute: list[Metric], memory: list[Metric], by: str, fresh: int, step: int
) -> _Terms:
    """Return the queries for the GPUs of a dialect, with one value for each set of labels `by`."""

    def last(selector: str, before: int = 0) -> str:
        offset = f" offset {before}s" if before else ""
        return f"max by ({by}) (last_over_time({selector}[{fresh}s]{offset}))"

    def long(selector: str, function: str, condition: str) -> str:
        return f"max by ({by}) ({function}_over_time({selector}[{_PAUSE}])) {condition}"

    def alone(each: Metric, text: str) -> str:
        # If other metrics show what a device does, this one does not count.
        others = "".join(f" unless {last(other.selector)}" for other in each.without)
        return f"({text}{others})" if others else text

    def rest(each: Metric) -> str:
        # An idle time that is too short, or over, proves nothing.
        then, now = last(each.selector, round(PAUSE_SECONDS)), last(each.selector)
        return f"({long(each.selector, 'max', each.bound)} and {then} and {now})"

    # Metrics without a bound only show that the device exists.
    used = [each for each in compute if each.bound]
    busy = (alone(each, f"{last(each.selector)} {_busy_bound(each)}") for each in used)
    held = [f"{last(each.selector)} {each.bound}" for each in memory]
    computes = " or ".join(last(each.selector) for each in used)
    rests = " or ".join(alone(each, rest(each)) for each in used)
    kept = " or ".join(f"({long(each.selector, 'min', each.bound)})" for each in memory)
    notable = " or ".join(f"({each})" for each in held)
    energy = (
        f"(({last(name)} - {last(name, step)}) >= 0) * {factor:g}"
        for name, factor in _ENERGY.get(dialect.name, ())
    )
    return _Terms(
        there=" or ".join(last(each.selector) for each in (*compute, *memory)),
        held=" or ".join(f"({each})" for each in (*held, *busy)),
        rests=rests,
        held_idle=f"({rests}) and ({kept})" if rests and kept else "",
        unknown=f"({notable}) unless ({computes})" if computes and notable else notable,
        energy=" or ".join(energy),
        memory=" or ".join(f"{last(each.selector)} * {each.factor:g}" for each in memory),
    )


def _busy_bound(term: Metric) -> str:
    """Return the bound of a device that computes, from that of one that does not."""
    return f">= {float(term.bound[1:]) * BUSY_PERCENT / IDLE_PERCENT:g}"


def _of_instances(terms: _Terms, fine: _Terms, by: str) -> _Terms:
    """Return terms in which a computing instance does not hide another one of its GPU."""
    texts = (fine.rests, fine.held_idle, fine.unknown)
    rests, held_idle, unknown = (f"max by ({by}) ({text})" if text else "" for text in texts)
    return terms._replace(rests=rests, held_idle=held_idle, unknown=unknown)


def _own_terms(terms: _Terms, by: str, fresh: int) -> _Terms:
    """Return terms that use our own exporter's word on what is held and idle."""

    def held(does: str) -> str:
        return f"max by ({by}) (last_over_time({_HELD}{does}[{fresh}s])) > 0"

    idle, unknown = (held(f'{{activity="{does}"}}') for does in ("idle", "unknown"))
    return terms._replace(held=held(""), rests="", held_idle=idle, unknown=unknown)


def _minute(
    host: KnownHost,
    gpus: list[_Gpu],
    users: Mapping[_Who, _Amounts],
    wrong: Mapping[_Finding, float],
    end: float,
    step: int,
) -> Minute:
    """Return the use of a host in a part of the span."""
    totals = [gpu.total() for gpu in gpus]
    positions: Mapping[int | None, int] = {gpu.index: each for each, gpu in enumerate(gpus)}
    devices = tuple(
        MinuteDevice(
            *total.values(step),
            gpu.seen * step,
            gpu.uuid or SafeText(f"#{gpu.index}"),
            device_label(gpu.index),
            gpu.name,
        )
        for gpu, total in zip(gpus, totals, strict=True)
    )
    jobs = [
        MinuteUse(*each.values(step, total.held / sum_held), position, *who)
        for position, (gpu, total) in enumerate(zip(gpus, totals, strict=True))
        if (sum_held := sum(each.held for each in gpu.people.values()))
        for who, each in gpu.people.items()
        if each.held
    ]
    named = [*_of_users(users, totals, step)] or [*_of_jobs(jobs)]
    return Minute(
        taken_at=datetime.fromtimestamp(end, timezone.utc),
        host=host.name if host.cluster is None else SafeText(f"{host.cluster}/{host.name}"),
        cluster=host.cluster,
        seconds=max((gpu.seen * step for gpu in gpus), default=0.0),
        devices=devices,
        users=tuple(named),
        jobs=tuple(jobs if any(each.job for each in jobs) or not named else named),
        findings=tuple(
            MinuteFinding(rule, level, count * step, positions.get(index))
            for (rule, level, index), count in wrong.items()
        ),
    )


def _of_jobs(jobs: Iterable[MinuteUse]) -> Iterator[MinuteUse]:
    """Yield the use by users from their jobs, several of which may have had a GPU in turn.

    Their peak memory is not added up.
    """
    known: set[tuple[int, SafeText | None]] = set()
    for each in sorted(jobs, key=lambda each: -(each.peak_memory_bytes or 0)):
        key = each.device, each.user
        yield replace(each, job=None, **({"peak_memory_bytes": None} if key in known else {}))
        known.add(key)


def _of_users(
    users: Mapping[_Who, _Amounts], totals: Sequence[_Amounts], step: int
) -> Iterator[MinuteUse]:
    """Yield the use by users of the GPUs of a host; unknown shares are in proportion."""
    held = sum(each.held for each in totals)
    claimed = sum(each.held for each in users.values())
    share = min(1.0, held / claimed) if claimed else 0.0
    for who, each in users.items():
        if each.held:
            values = each.values(step, share if each.share is None else each.share / each.held)
            yield MinuteUse(*values, 0, *who)
