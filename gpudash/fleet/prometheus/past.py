"""The past of hosts in a Prometheus: snapshots at coarse steps, by range queries.

Queries return only what changes from one step to the next, so that the answers are small: the
server compares each device with itself a step before. Longer steps bound its work.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from math import ceil, inf
from typing import Any

from msgspec import Raw, json
from msgspec.structs import replace

from gpudash.fleet.identity import home_of
from gpudash.fleet.prometheus.dialects import (
    DATED_XIDS,
    ENGINE,
    INSTANCE_LABEL,
    MEMORY,
    UTILIZATION,
    XIDS,
    Labels,
    dialects,
)
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.histories import (
    GpuHistory,
    GpuPast,
    Spacing,
    Span,
    host_at,
    joined,
    was_silent,
)
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import KnownDevice, KnownHost, Row, finite, xid_of
from gpudash.fleet.prometheus.queries import Metric, max_by, promql, series
from gpudash.fleet.prometheus.workers import MATRIX, NAMES, VECTOR, RangeRow
from gpudash.model.fleet import FleetHost, FleetSnapshot, FleetSource
from gpudash.model.text import clean

QUERY, RANGE = "/api/v1/query", "/api/v1/query_range"
NAMES_PATH = "/api/v1/label/__name__/values"
NAMES_REFUSED = (400, 403, 404, 405, 422)
"""HTTP statuses of servers and proxies that do not list metric names."""

Ask = Callable[[str, list[tuple[str, str]], json.Decoder[Any]], Any]
"""Queries the server and waits; raises PrometheusError."""

_MIN_STEP = 60
_MAX_POINTS = 2_000_000
"""Devices times steps that the server evaluates for one query over the whole span."""
_LONG_SECONDS = 8 * 86400.0
"""Length of a span beyond the usual look back, which may begin before the data."""
_LOOKS = 60
"""Instants of a span to check for its first data."""
_INSTANTS = 5
"""Further instants at which the devices are listed."""
_COUNTED_SECONDS, _MAX_COUNTS = 600, 1_000_000
"""The least seconds in which scrapes are counted, and the most counts, over all devices."""
_MAX_WINDOW = 600
_MAX_SILENT = 200
"""Hosts whose exporters are asked whether they answered while the GPUs were gone."""
_THERMAL = 0x20 | 0x40
"""Bits of DCGM's reasons for lower clocks: thermal slowdown by software and by hardware."""
_REASONS = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS|DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
_HEAT_SECONDS = "DCGM_FI_DEV_THERMAL_VIOLATION|DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL"
_SMI_REASONS = "nvidia_smi_clocks_(event|throttle)_reasons_(hw|sw)_thermal_slowdown"


class Past:
    """Queries a Prometheus for a span of its past."""

    def __init__(self, ask: Ask, inventory: Inventory, name: str) -> None:
        self._ask = ask
        self._inventory = inventory
        self._source = FleetSource(kind="prometheus", name=clean(name))
        self._last: dict[Hashable, KnownHost] = {}
        """The hosts of all devices at the end of the span, by UUID."""
        self._gpus: dict[tuple[KnownHost, str | int], GpuPast] = {}
        self._open: dict[frozenset[tuple[str, str]], KnownDevice] = {}
        """The devices of present series."""
        self._holders: dict[tuple[KnownHost, int, str], list[tuple[float, KnownDevice]]] = {}
        """Which devices had an index, by series with their UUIDs, and from when on."""
        self._answered: dict[KnownHost, set[float]] = {}
        """The steps at which the exporters of hosts without GPUs answered."""

    def snapshots(self, since: float, until: float) -> Iterator[FleetSnapshot]:
        """Yield a snapshot of the start, and one for each instant at which something changed."""
        until = self._present(until)
        if until - since > _LONG_SECONDS:
            # Months without data would make the steps too coarse.
            since = max(since, min(until, oldest(self._ask, since, until)))
        self._learn(since, until)
        count = self._inventory.size
        if not count:
            return
        spacing = self._spacing(since, until, count)
        catalog = self._inventory.catalog
        # Dialects without MIG instances at present may have had some.
        for term in catalog.main(of_past=True):
            self._ask_presence(term, spacing, count)
        for term in catalog.field(XIDS):
            self._ask_xids(term, spacing, count)
        for term in catalog.field(DATED_XIDS):
            self._ask_dated_xids(term, spacing, count)
        self._ask_heat(spacing, count)
        yield from self._sequence(spacing, self._gaps(spacing, count))

    # What is asked

    def _present(self, until: float) -> float:
        """Return an instant, or the server's present if that is earlier."""
        # If the clocks differ, everything would be gone after that.
        for row in self._ask(QUERY, [("query", "vector(time())")], VECTOR).result:
            until = min(until, row.number or until)
        return until

    def _learn(self, since: float, until: float) -> None:
        """Learn which metrics and devices there were."""
        inventory = self._inventory
        span = [("start", f"{since:.0f}"), ("end", f"{until:.0f}")]
        try:
            found = self._ask(NAMES_PATH, [*span, ("match[]", inventory.catalog.selector)], NAMES)
        except PrometheusError as error:
            if error.status not in NAMES_REFUSED:
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
        """Add devices that are gone; a host whose GPUs now have another's name was renamed."""
        inventory, last = self._inventory, self._last
        inventory.learn_gone(rows)
        for host in {*inventory.hosts.values()} - {*last.values()}:
            uuids = [each.full_uuid for each in host.devices.values() if each.full_uuid]
            if (new := home_of(uuids, last)) is not None:
                inventory.rename(host, new)

    def _spacing(self, since: float, until: float, devices: int) -> Spacing:
        """Return steps as short as the limit on the server's work and the scrape interval allow."""
        step = max(_MIN_STEP, (until - since) * devices / _MAX_POINTS)
        step = 15 * ceil(step / 15)
        slowest = min(self._slowest(since, until, devices), _MAX_WINDOW / 2.2)
        window = step * max(1, ceil(2.2 * slowest / step))
        end = until - until % step
        return Spacing(since - since % step - window, end, step, window, step + ceil(slowest))

    def _slowest(self, since: float, until: float, devices: int) -> float:
        """Return the seconds between two scrapes, for the host and time with the fewest.

        Scrapes too rare to count are left out, and so is the hundredth of a host's time with the
        fewest scrapes.
        """
        length = ceil((until - since) * devices / _MAX_COUNTS / _COUNTED_SECONDS)
        length = max(1, length) * _COUNTED_SECONDS
        start, end = since - since % length - length, until - until % length + length
        looks = Spacing(start, end, length, length, length)
        slowest = 1.0
        for term in self._inventory.catalog.main():
            # Its first instant is the last one of the time before.
            counts = f"max by ({term.host_by}) (count_over_time({term.selector}[{length - 1}s]))"
            hosts: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
            for row, at, count in self._range(counts, looks, devices):
                hosts.setdefault(frozenset(row.metric.items()), {})[at] = count
            for each in hosts.values():
                # Of two counts in a row, at most one is of a time in which a host came or went.
                pairs = sorted(
                    max(each[at], each[at - length]) for at in each if at - length in each
                )
                fewest = pairs[len(pairs) // 100] if pairs else max(each.values())
                if fewest > length / _COUNTED_SECONDS:
                    # Either count may have a scrape more.
                    slowest = max(slowest, length / (fewest - 0.5))
        return slowest

    def _ask_presence(self, term: Metric, spacing: Spacing, devices: int) -> None:
        """Query when each series, and with it its device and job, came and went."""
        now, before = _windows(term.selector, spacing)
        rows = [(spacing.start, True, row.labels) for row in self._instant(now, spacing.start)]
        rows += [
            (at, True, row.metric)
            for row, at, _ in self._range(f"{now} unless {before}", spacing, devices)
        ]
        # A series that is gone was last there a window ago, or before the first step.
        first = spacing.start + 1
        rows += [
            (max(at - spacing.window, first), False, row.metric)
            for row, at, _ in self._range(f"{before} unless {now}", spacing, devices)
        ]
        # A device seen only between the listed instants is known by the end of its series.
        name, inventory = term.names[0], self._inventory
        self._learn_gone(
            [
                Row(Raw(json.encode({**labels, "__name__": name})), (at, str(at)))
                for at, _, labels in rows
                if inventory.device_of(labels) is None
            ]
        )
        rows.sort(key=lambda each: each[:2])
        for at, is_there, labels in rows:
            if is_there and _has_uuid(labels):
                self._hold(labels, at)
        for at, is_there, labels in rows:
            if is_there:
                self._appear(name, labels, at)
            else:
                self._vanish(name, labels, at)

    def _ask_xids(self, term: Metric, spacing: Spacing, devices: int) -> None:
        """Query last XID errors that differ from those a step before."""
        now, before = (
            max_by(term.past_by, f"{each} > 0") for each in _windows(term.selector, spacing)
        )
        for row in self._instant(now, spacing.start):
            self._xid(term, row.labels, spacing.start, row.number or 0.0)
        changed = f"{now} != {before} or ({now} unless {before})"
        for each, at, value in self._range(changed, spacing, devices):
            self._xid(term, each.metric, at, value)

    def _ask_dated_xids(self, term: Metric, spacing: Spacing, devices: int) -> None:
        """Query the times of XID errors."""
        now, _ = _windows(term.selector, spacing)
        for row, at, value in self._range(f"{now} > time() - {spacing.step}", spacing, devices):
            if spacing.start < value <= at:
                self._xid(term, row.metric, value, value, is_dated=True)

    def _ask_heat(self, spacing: Spacing, devices: int) -> None:
        """Query at which steps devices were throttled for heat, if an exporter reports that."""
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

    def _ask_answers(self, hosts: Iterable[KnownHost], spacing: Spacing) -> None:
        """Query when the exporters of some hosts answered."""
        instances = sorted({each.target[2] for each in hosts} - {""})[:_MAX_SILENT]
        for term in self._inventory.catalog.targets(instances) if instances else ():
            if term.condition == " == 1":
                now, _ = _windows(term.selector, spacing)
                for row, at, _ in self._range(f"{now} == 1", spacing, len(instances)):
                    host = self._inventory.host_of(row.metric)
                    if host is not None:
                        self._answered.setdefault(host, set()).add(at)

    def _gaps(self, spacing: Spacing, devices: int) -> list[Span]:
        """Query when the server knew of no exporter at all, not even that it is down.

        Return no gaps if it never knows of any.
        """
        found: list[Span] = []
        for term in self._inventory.catalog.exporters():
            absent = f"absent_over_time({term.selector}[{spacing.window}s])"
            found += [
                (at - spacing.window, at + spacing.step)
                for _, at, _ in self._range(absent, spacing, devices)
            ]
        gaps = joined(found, 0.0)
        return [each for each in gaps if each[0] > spacing.start or each[1] <= spacing.end]

    def _instant(self, expression: str, at: float) -> list[Row]:
        rows: list[Row] = self._ask(
            QUERY, [("query", expression), ("time", f"{at:.3f}")], VECTOR
        ).result
        return rows

    def _range(
        self, expression: str, spacing: Spacing, devices: int
    ) -> Iterator[tuple[RangeRow, float, float]]:
        """Yield the series of a query with all of their instants and values."""
        for start, end in spacing.chunks(devices):
            span = [("start", f"{start:.0f}"), ("end", f"{end:.0f}"), ("step", str(spacing.step))]
            for row in self._ask(RANGE, [("query", expression), *span], MATRIX).result:
                for at, text in row.values:
                    value = finite(text)
                    if value is not None:
                        yield row, at, value

    # What becomes of it

    def _of(self, device: KnownDevice) -> GpuPast:
        return self._gpus.setdefault((device.host, device.gpu), GpuPast(device))

    def _hold(self, labels: Labels, at: float) -> None:
        device, index = self._inventory.device_of(labels), self._inventory.index_of(labels)
        if device is not None and index is not None:
            place = device.host, index, device.instance
            self._holders.setdefault(place, []).append((at, device))

    def _device_at(self, labels: Labels, at: float) -> KnownDevice | None:
        """Return the device of a series at an instant.

        Without a UUID, it is the device that had its index then, or the first one known to have it.
        """
        device, index = self._inventory.device_of(labels), None
        if device is not None and not _has_uuid(labels):
            index = self._inventory.index_of(labels)
        if device is None or index is None:
            return device
        host, instance = device.host, labels.get(INSTANCE_LABEL, "")
        held = self._holders.get((host, index, instance), [])
        for since, each in reversed(held):
            if since <= at:
                return each
        # A device that had another index before has moved to this one later.
        before = {
            each
            for (on, other, _), some in self._holders.items()
            if on is host and other != index
            for since, each in some
            if held and since < held[0][0]
        }
        is_first = held and held[0][1] not in before
        return held[0][1] if is_first else host.without_uuid(index, instance)

    def _appear(self, name: str, labels: Labels, at: float) -> None:
        device = self._device_at(labels, at)
        if device is not None:
            self._open.setdefault(_identity(name, labels), device)
            choices = self._inventory.catalog.choices.values()
            people = (choice.person(labels) for choice in choices)
            person = next(filter(None, people), None)
            gpu, index = self._of(device), self._inventory.index_of(labels)
            gpu.open.setdefault(_identity(name, labels), (at, person))
            if index is not None:
                gpu.indices.append((at, index))
                device.host.indices.add(index)

    def _vanish(self, name: str, labels: Labels, at: float) -> None:
        series = _identity(name, labels)
        device = self._open.pop(series, None)
        found = None if device is None else self._of(device).open.pop(series, None)
        if device is not None and found is not None:
            self._of(device).spans.append((found[0], max(at, found[0]), found[1]))

    def _xid(
        self, term: Metric, labels: Labels, at: float, value: float, *, is_dated: bool = False
    ) -> None:
        device, code = self._device_at(labels, at), xid_of(labels, value, is_dated=is_dated)
        if device is not None and code is not None:
            self._of(device).xids.append((at, code, term.names[0]))

    def _sequence(self, spacing: Spacing, gaps: Sequence[Span]) -> Iterator[FleetSnapshot]:
        hosts: dict[KnownHost, list[GpuHistory]] = {}
        changes: dict[float, set[KnownHost]] = {}
        for (host, _), gpu in self._gpus.items():
            history = GpuHistory(gpu, spacing, gaps)
            hosts.setdefault(host, []).append(history)
            for at in history.instants:
                changes.setdefault(at, set()).add(host)
        silent = [host for host, gpus in hosts.items() if was_silent(gpus, spacing.end)]
        self._ask_answers(silent, spacing)
        shown: dict[KnownHost, FleetHost] = {}
        there = [each.there[0][0] for some in hosts.values() for each in some if each.there]
        first = min(there, default=0)
        # Where the data begin, not all hosts appear at once, but none of them is new.
        first += spacing.window
        changes.setdefault(first, set()).update(hosts)
        # Anything missing for long is still missing at the end.
        changes.setdefault(spacing.end, set())
        is_over = gaps and gaps[-1][1] > spacing.end
        is_over = is_over and not any(each.open for each in self._gpus.values())
        last = gaps[-1][0] - spacing.window if is_over else inf
        unseen = {end: end - start + spacing.within for start, end in gaps}
        for at in sorted(at for at in changes if first <= at < last):
            for host in changes[at]:
                answers = at + spacing.window in self._answered.get(host, ())
                now = host_at(host, hosts[host], at, answers=answers)
                if now is not None:
                    shown[host] = now
            yield FleetSnapshot(
                taken_at=datetime.fromtimestamp(at, timezone.utc),
                sources=(replace(self._source, within_seconds=unseen.get(at, spacing.within)),),
                hosts=tuple(shown.values()),
            )


def oldest(ask: Ask, since: float, until: float) -> float:
    """Return from when on a span has GPUs, infinity for never; raises PrometheusError."""
    fields = (UTILIZATION, ENGINE, MEMORY)
    names = (each.name for dialect in dialects() for field in fields for each in dialect.of(field))
    expression = f'count({{__name__=~"{"|".join(names)}"}})'
    while True:
        step, end = max(15, ceil((until - since) / _LOOKS)), ceil(until)
        # Check the end too: all data may lie between two instants.
        span = [("start", str(end - _LOOKS * step)), ("end", str(end)), ("step", str(step))]
        rows = ask(RANGE, [("query", expression), *span], MATRIX).result
        found = (each.values[0][0] for each in rows if each.values)
        first = min((at for at in found if since - step <= at <= until + step), default=inf)
        if first == inf or step <= _MIN_STEP:
            return float(first)
        since, until = max(since, first - step), first


def _instants(since: float, until: float) -> list[float]:
    """Return some instants of a span, the last first."""
    return [since + (until - since) * number / _INSTANTS for number in range(_INSTANTS, -1, -1)]


def _has_uuid(labels: Labels) -> bool:
    return any(labels.get(dialect.uuid_label) for dialect in dialects())


def _identity(name: str, labels: Labels) -> frozenset[tuple[str, str]]:
    # Some servers leave out the name, and recording rules change it.
    return frozenset({**labels, "__name__": name}.items())


def _windows(selector: str, spacing: Spacing) -> tuple[str, str]:
    """Return queries for each series' last value within the window, at a step and one before."""
    over = f"last_over_time({selector}[{spacing.window}s]"
    return f"{over})", f"{over} offset {spacing.step}s)"
