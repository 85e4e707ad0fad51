"""The past of hosts as a Prometheus has it: snapshots at coarse steps, by range queries.

Asked for is only what changes from one step to the next, so that the answers are small: the server
compares each device with itself a step before. Its work is bounded by the length of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import chain
from math import ceil, inf
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Raw, json
from msgspec.structs import replace

from gpudash.fleet.identity import home_of
from gpudash.fleet.prometheus.dialects import (
    DATED_XIDS,
    XIDS,
    Labels,
    Person,
    held_by,
)
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import KnownDevice, KnownHost, Row, finite, xid_of
from gpudash.fleet.prometheus.queries import Metric, promql, series
from gpudash.fleet.prometheus.workers import MATRIX, NAMES, VECTOR, RangeRow
from gpudash.model.device import device_label
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot, FleetSource, HostState
from gpudash.model.state import HOT, UNKNOWN
from gpudash.model.text import SafeText, clean
from gpudash.model.units import counted

QUERY, RANGE = "/api/v1/query", "/api/v1/query_range"
NAMES_PATH = "/api/v1/label/__name__/values"

Ask = Callable[[str, list[tuple[str, str]], json.Decoder[Any]], Any]
"""Asks the server and waits; raises PrometheusError."""

MIN_STEP = 60
_MAX_POINTS = 2_000_000
"""Devices times steps that the server looks at for one question about all of the span."""
_CHUNK_POINTS = 250_000
"""The same of one query."""
_INSTANTS = 5
"""After the first: those at which it is asked which devices there are."""
_COUNTED_SECONDS = 600
_MAX_WINDOW = 600
_MAX_STEPS = 10_000
"""Of one query: a Prometheus refuses more than 11,000."""
_MAX_SILENT = 200
"""Hosts of which it is asked whether their exporters answered, when their GPUs were gone."""
_THERMAL = 0x20 | 0x40
"""Bits of DCGM's reasons for lower clocks: thermal slowdown by software and by hardware."""
_REASONS = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS|DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
_HEAT_SECONDS = "DCGM_FI_DEV_THERMAL_VIOLATION|DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL"
_SMI_REASONS = "nvidia_smi_clocks_(event|throttle)_reasons_(hw|sw)_thermal_slowdown"

_Span = tuple[float, float]


class _Gpu:
    """What is known of a GPU over time: its MIG instances come and go, and it stays."""

    def __init__(self, device: KnownDevice) -> None:
        self.device = device
        self.open: dict[frozenset[tuple[str, str]], tuple[float, Person | None]] = {}
        """Its series that are there: since when, and who has it by their labels."""
        self.spans: list[tuple[float, float, Person | None]] = []
        """From when to when it had others."""
        self.xids: list[tuple[float, int, str]] = []
        """When it had which error, by which metric."""
        self.hot: list[float] = []
        """The steps at which it was throttled."""


class _Spacing(NamedTuple):
    start: float
    end: float
    step: int
    window: int
    """How far each step looks back: what is missing for less is not missed."""
    within: int
    """How long before a step it may have happened: the step, and the time between two scrapes."""

    def chunks(self, devices: int) -> Iterator[_Span]:
        """Yield the first and the last step of each query."""
        steps = max(1, min(_MAX_STEPS, _CHUNK_POINTS // max(1, devices)))
        at = self.start + self.step
        while at <= self.end:
            last = min(at + (steps - 1) * self.step, self.end)
            yield at, last
            at = last + self.step


class Past:
    """Asks a Prometheus for a span of its past."""

    def __init__(self, ask: Ask, inventory: Inventory, name: str) -> None:
        self._ask = ask
        self._inventory = inventory
        self._source = FleetSource(kind="prometheus", name=clean(name))
        self._last: dict[Hashable, KnownHost] = {}
        """The hosts of all devices of the end of the span, by UUID."""
        self._gpus: dict[tuple[KnownHost, int], _Gpu] = {}
        self._answered: dict[KnownHost, set[float]] = {}
        """The steps at which exporters answered of hosts that have lost all of their GPUs."""

    def snapshots(self, since: float, until: float) -> Iterator[FleetSnapshot]:
        """Yield a snapshot of the start, and one for each instant at which something changed."""
        # Where the clocks differ, all would be gone after the server's present.
        for row in self._ask(QUERY, [("query", "vector(time())")], VECTOR).result:
            until = min(until, row.number or until)
        self._learn(since, until)
        count = sum(1 for _ in self._inventory.devices())
        if not count:
            return
        spacing = self._spacing(since, until, count)
        catalog = self._inventory.catalog
        # Those that have no MIG instances any more may have had some.
        for term in catalog.main(of_past=True):
            self._ask_presence(term, spacing, count)
        for term in catalog.field(XIDS):
            self._ask_xids(term, spacing, count)
        for term in catalog.field(DATED_XIDS):
            self._ask_dated_xids(term, spacing, count)
        self._ask_heat(spacing, count)
        yield from self._sequence(spacing, self._gaps(spacing, count))

    # What is asked

    def _learn(self, since: float, until: float) -> None:
        """Learn which metrics and devices there were."""
        inventory = self._inventory
        span = [("start", f"{since:.0f}"), ("end", f"{until:.0f}")]
        try:
            found = self._ask(NAMES_PATH, [*span, ("match[]", inventory.catalog.selector)], NAMES)
        except PrometheusError as error:
            if error.status not in (400, 403, 404, 405, 422):
                raise
            found = ()
        inventory.set_names(found)
        expression = promql(inventory.catalog.identity(), series)
        for at in _instants(since, until) if expression else ():
            rows = self._instant(expression or "", at)
            if inventory.hosts:
                self._learn_gone(rows)
            else:
                inventory.learn(rows)
                self._last = {each.full_uuid: each.host for each in inventory.devices()}

    def _learn_gone(self, rows: list[Row]) -> None:
        """Take devices that there were; a host whose GPUs have another's name now is that one."""
        inventory, last = self._inventory, self._last
        inventory.learn_gone(rows)
        for host in {*inventory.hosts.values()} - {*last.values()}:
            uuids = [each.full_uuid for each in host.devices.values() if each.full_uuid]
            if (new := home_of(uuids, last)) is not None:
                inventory.rename(host, new)

    def _spacing(self, since: float, until: float, devices: int) -> _Spacing:
        """Return steps as short as the bound on the server's work and its scrapes allow."""
        step = max(MIN_STEP, (until - since) * devices / _MAX_POINTS)
        step = 15 * ceil(step / 15)
        slowest = 1.0
        for term in self._inventory.catalog.main():
            counts = f"count_over_time({term.selector}[{_COUNTED_SECONDS}s])"
            expression = f"min(max by ({term.host_by}) ({counts}) > 1)"
            # They may have been scraped more rarely before.
            for row in chain.from_iterable(
                self._instant(expression, at) for at in _instants(since, until)
            ):
                slowest = max(slowest, _COUNTED_SECONDS / (row.number or _COUNTED_SECONDS))
        slowest = min(slowest, _MAX_WINDOW / 2.2)
        window = step * max(1, ceil(2.2 * slowest / step))
        end = until - until % step
        return _Spacing(since - since % step - window, end, step, window, step + ceil(slowest))

    def _ask_presence(self, term: Metric, spacing: _Spacing, devices: int) -> None:
        """Ask when each series came and went, and with it its device and its job."""
        now, before = _windows(term.selector, spacing)
        rows = [(spacing.start, True, row.labels) for row in self._instant(now, spacing.start)]
        rows += [
            (at, True, row.metric)
            for row, at, _ in self._range(f"{now} unless {before}", spacing, devices)
        ]
        # What has gone was last there a window ago, or before the first step.
        first = spacing.start + 1
        rows += [
            (max(at - spacing.window, first), False, row.metric)
            for row, at, _ in self._range(f"{before} unless {now}", spacing, devices)
        ]
        # What was there only between the instants that were learned is known by its end.
        name, inventory = term.names[0], self._inventory
        self._learn_gone(
            [
                Row(Raw(json.encode({**labels, "__name__": name})), (at, str(at)))
                for at, _, labels in rows
                if inventory.device_of(labels) is None
            ]
        )
        for at, is_there, labels in sorted(rows, key=lambda each: each[:2]):
            if is_there:
                self._appear(name, labels, at)
            else:
                self._vanish(name, labels, at)

    def _ask_xids(self, term: Metric, spacing: _Spacing, devices: int) -> None:
        """Ask for last XID errors that are others than a step before."""
        now, before = (
            f"max by ({term.by}) ({each} > 0)" for each in _windows(term.selector, spacing)
        )
        for row in self._instant(now, spacing.start):
            self._xid(term, row.labels, spacing.start, row.number or 0.0)
        changed = f"{now} != {before} or ({now} unless {before})"
        for each, at, value in self._range(changed, spacing, devices):
            self._xid(term, each.metric, at, value)

    def _ask_dated_xids(self, term: Metric, spacing: _Spacing, devices: int) -> None:
        """Ask for the times of XID errors."""
        now, _ = _windows(term.selector, spacing)
        for row, at, value in self._range(f"{now} > time() - {spacing.step}", spacing, devices):
            if spacing.start < value <= at:
                self._xid(term, row.metric, value, value, is_dated=True)

    def _ask_heat(self, spacing: _Spacing, devices: int) -> None:
        """Ask at which steps devices were throttled for heat, where an exporter has that."""
        for name, metrics, form, is_mask in (
            ("dcgm-exporter", _HEAT_SECONDS, "increase({}[{}s]) > 0", False),
            ("dcgm-exporter", _REASONS, "last_over_time({}[{}s]) >= 32", True),
            ("nvidia_gpu_exporter", _SMI_REASONS, "last_over_time({}[{}s]) > 0", False),
        ):
            if name not in self._inventory.catalog.choices:
                continue
            function, _, condition = form.partition(" ")
            selector = f'{{__name__=~"{metrics}"}}'
            text = f"{function.format(selector, spacing.step)} {condition}"
            for row, at, value in self._range(text, spacing, devices):
                device = self._inventory.device_of(row.metric)
                if device is not None and (not is_mask or int(value) & _THERMAL):
                    self._of(device).hot.append(at)

    def _ask_answers(self, hosts: Iterable[KnownHost], spacing: _Spacing) -> None:
        """Ask when the exporters of some hosts answered."""
        instances = sorted({each.target[2] for each in hosts} - {""})[:_MAX_SILENT]
        for term in self._inventory.catalog.targets(instances) if instances else ():
            if term.condition == " == 1":
                now, _ = _windows(term.selector, spacing)
                for row, at, _ in self._range(f"{now} == 1", spacing, len(instances)):
                    host = self._inventory.host_of(row.metric)
                    if host is not None:
                        self._answered.setdefault(host, set()).add(at)

    def _gaps(self, spacing: _Spacing, devices: int) -> list[_Span]:
        """Ask when the server knew of no exporter at all, not even that it is down.

        None where it never knows of them.
        """
        found: list[_Span] = []
        for term in self._inventory.catalog.exporters():
            absent = f"absent_over_time({term.selector}[{spacing.window}s])"
            found += [
                (at - spacing.window, at + spacing.step)
                for _, at, _ in self._range(absent, spacing, devices)
            ]
        gaps = _joined(found, 0.0)
        return [each for each in gaps if each[0] > spacing.start or each[1] <= spacing.end]

    def _instant(self, expression: str, at: float) -> list[Row]:
        rows: list[Row] = self._ask(
            QUERY, [("query", expression), ("time", f"{at:.3f}")], VECTOR
        ).result
        return rows

    def _range(
        self, expression: str, spacing: _Spacing, devices: int
    ) -> Iterator[tuple[RangeRow, float, float]]:
        """Yield the series of a query with each of their instants and values."""
        for start, end in spacing.chunks(devices):
            span = [("start", f"{start:.0f}"), ("end", f"{end:.0f}"), ("step", str(spacing.step))]
            for row in self._ask(RANGE, [("query", expression), *span], MATRIX).result:
                for at, text in row.values:
                    value = finite(text)
                    if value is not None:
                        yield row, at, value

    # What becomes of it

    def _of(self, device: KnownDevice) -> _Gpu:
        return self._gpus.setdefault((device.host, device.index), _Gpu(device))

    def _appear(self, name: str, labels: Labels, at: float) -> None:
        device = self._inventory.device_of(labels)
        if device is not None:
            choices = self._inventory.catalog.choices.values()
            people = (choice.person(labels) for choice in choices)
            person = next(filter(None, people), None)
            self._of(device).open.setdefault(_identity(name, labels), (at, person))

    def _vanish(self, name: str, labels: Labels, at: float) -> None:
        device = self._inventory.device_of(labels)
        found = None if device is None else self._of(device).open.pop(_identity(name, labels), None)
        if device is not None and found is not None:
            self._of(device).spans.append((found[0], max(at, found[0]), found[1]))

    def _xid(
        self, term: Metric, labels: Labels, at: float, value: float, *, is_dated: bool = False
    ) -> None:
        device, code = self._inventory.device_of(labels), xid_of(labels, value, is_dated=is_dated)
        if device is not None and code is not None:
            self._of(device).xids.append((at, code, term.names[0]))

    def _sequence(self, spacing: _Spacing, gaps: Sequence[_Span]) -> Iterator[FleetSnapshot]:
        hosts: dict[KnownHost, list[_History]] = {}
        changes: dict[float, set[KnownHost]] = {}
        for (host, _), gpu in self._gpus.items():
            history = _History(gpu, spacing, gaps)
            hosts.setdefault(host, []).append(history)
            for at in history.instants:
                changes.setdefault(at, set()).add(host)
        silent = [host for host, gpus in hosts.items() if _was_silent(gpus, spacing.end)]
        self._ask_answers(silent, spacing)
        shown: dict[KnownHost, FleetHost] = {}
        there = [each.there[0][0] for some in hosts.values() for each in some if each.there]
        first = min(there, default=0)
        # Where the data begin, not all hosts are there with the first: none of them is new.
        first += spacing.window
        changes.setdefault(first, set()).update(hosts)
        # What has been missing since long is so at the end.
        changes.setdefault(spacing.end, set())
        is_over = gaps and gaps[-1][1] > spacing.end
        is_over = is_over and not any(each.open for each in self._gpus.values())
        last = gaps[-1][0] - spacing.window if is_over else inf
        unseen = {end: end - start + spacing.within for start, end in gaps}
        for at in sorted(at for at in changes if first <= at < last):
            for host in changes[at]:
                answers = at + spacing.window in self._answered.get(host, ())
                now = _host_at(host, hosts[host], at, answers=answers)
                if now is not None:
                    shown[host] = now
            yield FleetSnapshot(
                taken_at=datetime.fromtimestamp(at, timezone.utc),
                sources=(replace(self._source, within_seconds=unseen.get(at, spacing.within)),),
                hosts=tuple(shown.values()),
            )


class _History:
    """What a GPU was at each instant."""

    def __init__(self, gpu: _Gpu, spacing: _Spacing, gaps: Sequence[_Span]) -> None:
        self._device = gpu.device
        end, window, within = spacing.end + 1, spacing.window, spacing.within
        spans = [*gpu.spans, *((at, end, person) for at, person in gpu.open.values())]
        # A series whose labels change ends, and its GPU and its job go on.
        seen = _joined([each[:2] for each in spans], window)
        self.there = _through(_joined(seen, window, gaps), gaps, within)
        people: dict[Person, list[_Span]] = {}
        for *span, person in spans:
            if person is not None:
                people.setdefault(person, []).append((span[0], span[1]))
        self._people = {
            person: _through(_joined(some, window, gaps), gaps, within)
            for person, some in people.items()
        }
        self._hot = _joined([(at, at + spacing.step) for at in gpu.hot], spacing.step, gaps)
        self._xids: list[tuple[float, int | None]] = []
        last = ""
        for at, code, metric in sorted({*gpu.xids}):
            before, last = last, metric
            if self._xids and self._xids[-1][1] == code:
                since = max((start for start, _ in seen if start <= at), default=0.0)
                if at - since <= window or metric != before:
                    # It has come back with the error that it had, or another exporter has it too.
                    continue
                self._xids.append((at - 1, None))
            self._xids.append((at, code))
        jobs = chain.from_iterable(self._people.values())
        instants = {at for span in (*self.there, *jobs, *self._hot) for at in span}
        instants |= {at for at, _ in self._xids}
        self.instants = {at for at in instants if spacing.start <= at <= spacing.end}

    def at(self, at: float) -> tuple[FleetDevice, ...]:
        """Return what it was and a part for each further job, nothing before it was there."""
        # Of one without a utilization or the like there is no other sign than its errors.
        if self.there and at < self.there[0][0]:
            return ()
        device = self._device
        label = device_label(device.index)
        fields: dict[str, Any] = {"index": device.index, "label": label, "uuid": device.uuid}
        if self.there and not _has(self.there, at):
            return (FleetDevice(**fields, state="lost"),)
        people = [person for person, spans in self._people.items() if _has(spans, at)]
        job, users = held_by(people)
        jobs = {*(held_by([each]) for each in people)} if len(people) > 1 else ()
        fields_of_part = {**fields, "uuid": None, "parent_uuid": device.uuid or label}
        last, xid = max((each for each in self._xids if each[0] <= at), default=(0.0, None))
        gpu = FleetDevice(
            **fields,
            status=(HOT if _has(self._hot, at) else UNKNOWN).id,
            xid=xid,
            xid_seconds=None if xid is None else at - last,
            job=job,
            users=users,
        )
        parts = (
            FleetDevice(**fields_of_part, job=own, users=its) for own, its in jobs if own != job
        )
        return (gpu, *parts)


def _instants(since: float, until: float) -> list[float]:
    """Return some instants of a span, the last first."""
    return [since + (until - since) * number / _INSTANTS for number in range(_INSTANTS, -1, -1)]


def _identity(name: str, labels: Labels) -> frozenset[tuple[str, str]]:
    # Some servers leave out the name, and with a rule it is another one.
    return frozenset({**labels, "__name__": name}.items())


def _joined(spans: Iterable[_Span], distance: float, gaps: Sequence[_Span] = ()) -> list[_Span]:
    """Return spans in order, as one those that are so close to each other, or to one of the gaps.

    In a gap nothing is known: what was there before and after it is taken to have stayed.
    """
    found: list[_Span] = []
    for start, end in sorted(spans):
        before = found[-1][1] if found else -inf
        if start - before <= distance or any(
            first - distance <= before and start <= last + distance for first, last in gaps
        ):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _through(spans: Iterable[_Span], gaps: Sequence[_Span], within: float) -> list[_Span]:
    """Return spans, those that end as a gap begins until its end: before, nobody saw them end."""
    return [
        (start, next((last for first, last in gaps if first - within <= end < last), end))
        for start, end in spans
    ]


def _has(spans: Iterable[_Span], at: float) -> bool:
    return any(start <= at < end for start, end in spans)


def _was_silent(gpus: Sequence[_History], end: float) -> bool:
    """Whether a host was without any of its GPUs at a time until an end."""
    ends = (span[1] for each in gpus for span in each.there if span[1] <= end)
    return any(not any(_has(each.there, at) for each in gpus) for at in ends)


def _host_at(
    host: KnownHost, gpus: Iterable[_History], at: float, *, answers: bool
) -> FleetHost | None:
    """Return a host as it was at an instant, None before it was there.

    `answers` says whether its exporter does, with or without GPUs.
    """
    found = [now for each in gpus for now in each.at(at)]
    if not found:
        return None
    is_up = any(each.state == "ok" for each in found)
    state: HostState = "ok" if is_up else "no-gpus" if answers else "down"
    why = f"it had {counted(len(found), 'GPU')}" if answers else "its series have ended"
    return FleetHost(
        name=host.name,
        cluster=host.cluster,
        group=host.group,
        state=state,
        message=None if is_up else SafeText(why),
        devices=tuple(sorted(found, key=attrgetter("index"))),
    )


def _windows(selector: str, spacing: _Spacing) -> tuple[str, str]:
    """Return each series' last value within the window, now and a step before."""
    over = f"last_over_time({selector}[{spacing.window}s]"
    return f"{over})", f"{over} offset {spacing.step}s)"
