"""The table of all queries: when each is made, and what becomes of the answer.

A Prometheus is asked all of them; for those of exporters, see `is_of_exporters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import NamedTuple

from gpudash.analysis.health.rules.reliability import DAY_SECONDS, FLAPPING
from gpudash.fleet.prometheus import queries
from gpudash.fleet.prometheus.catalog import Catalog
from gpudash.fleet.prometheus.dates import RESTING, outside
from gpudash.fleet.prometheus.dialects import (
    FIELDS,
    MEMORY,
    MEMORY_TOTAL,
    POWER,
    POWER_LIMIT,
    TEMPERATURE,
    UTILIZATION,
    XID_LABEL,
    XIDS,
)
from gpudash.fleet.prometheus.known import KnownDevice, Row, named, names_by_label
from gpudash.fleet.prometheus.memory import Memory
from gpudash.fleet.prometheus.picture import LONG_SECONDS, Picture
from gpudash.fleet.prometheus.queries import HOST_MARK, Form, Metric, promql

INTERVAL_SECONDS = 10.0
"""Between two main queries: exporters are scraped every 15 seconds or more."""
_MAIN_SHARE, _BRIEF_SHARE, _SHARE = 0.01, 0.002, 0.005
"""Share of the time that the server may work for main, another brief query, all but main."""
_MAX_MAIN_SECONDS, _MAX_STRETCH = 60.0, 4.0

DATES = "dates"
"""The query that is due whenever a new finding needs a date."""
MAX_AT_ONCE = 10_000
"""Devices per query of a look back: servers stop queries that take long."""
_MAX_NAMED = 6000
"""Characters of host names in a term: some servers accept queries of 16 KiB."""
_SEEN_FIRST = (MEMORY, TEMPERATURE, POWER)
_PERIODS = {MEMORY: 60.0, TEMPERATURE: 60.0, POWER: 60.0, MEMORY_TOTAL: 600.0, POWER_LIMIT: 600.0}


_Take = Callable[[Picture, list[Row], float], None]


class Query(NamedTuple):
    """A query to repeat, and what becomes of the answer."""

    name: str
    period: float
    """Seconds, infinity for once."""
    terms: Callable[[Picture], Iterable[Metric]] = lambda _: ()
    """What to query; empty if the answer has no series, as for names of metrics."""
    take: _Take = lambda *_: None
    """Stores the series of an instant."""
    form: Form = queries.value
    after: str = "main"
    """The query that must be answered first."""
    is_core: bool = False
    """Whether nothing is known of any host without it."""
    is_brief: bool = False
    """Whether a first picture waits for it."""
    is_brief_late: bool = False
    """Whether it is repeated as often as a brief query while hosts are late."""
    is_long: bool = False
    """Whether it takes long, and can be split by devices."""

    @property
    def is_of_exporters(self) -> bool:
        """Whether exporters can answer it, which know only the present."""
        return self.form in (queries.value, queries.series)

    def seconds(
        self, cost: float, load: float, *, has_hosts: bool = True, is_late: bool = False
    ) -> float:
        """Return the seconds until it is repeated, infinity for never.

        It costs the server `cost` seconds; all queries but main take the share `load` of the time.
        `is_late` says that some hosts are late, so that their ages may change at any time.
        """
        if self.name == "main":
            return min(_MAX_MAIN_SECONDS, max(self.period, cost / _MAIN_SHARE))
        period = self.period
        is_brief = self.is_brief or (is_late and self.is_brief_late)
        if period < inf and (is_brief or not has_hosts):
            period = min(period, max(INTERVAL_SECONDS, cost / _BRIEF_SHARE))
        return period * min(_MAX_STRETCH, max(1.0, load / _SHARE))

    def expressions(self, picture: Picture) -> list[str]:
        """Return it in PromQL, in parts if it is long; empty if there is nothing to query."""
        terms = list(self.terms(picture))
        is_split = self.is_long and picture.inventory.size > MAX_AT_ONCE
        parts = zip(*(term.parts() for term in terms), strict=True) if is_split else [terms]
        return list(filter(None, (promql(part, self.form) for part in parts)))


def _all(terms: Callable[[Catalog], Iterable[Metric]]) -> Callable[[Picture], Iterable[Metric]]:
    return lambda picture: terms(picture.inventory.catalog)


def _period(field: str) -> float:
    return _PERIODS.get(field, 120.0)


def _field(name: str) -> Query:
    return Query(
        name,
        _period(name),
        _all(Catalog.total if name == MEMORY_TOTAL else lambda catalog: catalog.field(name)),
        lambda picture, rows, at: picture.take_field(name, rows, at),
        is_brief=name in _SEEN_FIRST,
        is_long=name == MEMORY_TOTAL,
    )


def _since(
    name: str,
    seconds: float,
    step: str = "",
    terms: Callable[[Picture], Iterable[Metric]] | None = None,
    after: str = "",
) -> Query:
    """Return the query for devices that have been idle, or held, for a span."""
    is_idle = name == "idle"
    take = Picture.take_idle if is_idle else Picture.take_held
    span = f"{seconds / 60:.0f}m"
    return Query(
        f"{name} {span}",
        inf,
        terms or _resting(Catalog.main if is_idle else Catalog.held),
        lambda picture, rows, at: take(picture, rows, at - seconds),
        queries.lasting(span, step),
        # By then, renamed hosts are known.
        after or ("past" if step else "main"),
        is_long=True,
    )


def _resting(terms: Callable[[Catalog], Iterable[Metric]]) -> Callable[[Picture], Iterable[Metric]]:
    """Return terms for hosts with GPUs that are idle: others have not rested."""

    def asked(picture: Picture) -> Iterable[Metric]:
        catalog, names = picture.inventory.catalog, names_by_label(picture.resting())
        some = terms(catalog)
        if sum(len(name) for each in names.values() for name in each) > _MAX_NAMED:
            if picture.inventory.size <= MAX_AT_ONCE:
                return some
        else:
            some = catalog.of_hosts(some, names)
        # A condition about all devices is not repeated for each part of them.
        return (term._replace(condition="") for term in some)

    return asked


def _learn(picture: Picture, rows: list[Row], _at: float) -> None:
    picture.inventory.learn(rows)


def _remember(take: Callable[[Memory, list[Row], float], None]) -> _Take:
    return lambda picture, rows, at: take(picture.memory, rows, at)


def _of_devices(
    picture: Picture, terms: Callable[[Catalog], Iterable[Metric]], devices: list[KnownDevice]
) -> Iterable[Metric]:
    catalog = picture.inventory.catalog
    return catalog.of_hosts(terms(catalog), *named(devices))


def _gone(seconds: float) -> Iterator[Query]:
    """Yield the queries for devices that are gone, one after the other; the last is "past"."""
    forms, before = queries.gone(seconds), "main"
    for number, form in enumerate(forms, 1):
        name = "past" if number == len(forms) else f"past {number}"
        take = _remember(Memory.take_gone)
        yield Query(name, inf, _all(Catalog.past), take, form, before, is_long=True)
        before = name


def _lost(picture: Picture) -> Iterable[Metric]:
    # The newest first: earlier glances saw others too.
    for glance, devices in sorted(picture.memory.lost().items()):
        for term in _of_devices(picture, lambda catalog: catalog.earlier().main(), devices):
            yield term._replace(bound=str(glance))


def _rested(picture: Picture) -> Iterable[Metric]:
    return outside(picture.inventory.catalog, RESTING, picture.memory.rested())


def _given(picture: Picture) -> Iterable[Metric]:
    devices = picture.given()
    return picture.inventory.catalog.given(*named(devices)) if devices else ()


def _held_before(picture: Picture) -> Iterable[Metric]:
    inventory = picture.inventory
    old = (each for host in inventory.hosts.values() for each in host.before)
    for term in inventory.catalog.of_hosts(inventory.catalog.held(), names_by_label(old)):
        # Nothing has the old name at present, so the condition would never hold.
        yield term._replace(condition="")


def _frozen(picture: Picture) -> Iterable[Metric]:
    catalog = picture.inventory.catalog
    terms = [*catalog.field(POWER), *catalog.main()]
    return catalog.of_hosts(terms, picture.memory.names_of_frozen())


def _shrinks(term: Metric) -> str:
    """Query exporters whose number of series keeps changing within a day, and how often.

    There are fewer while GPUs or hosts are lost: that many changes mean three losses.
    """
    return f"changes({term.selector}[1d]) >= {2 * FLAPPING - 1}"


def _losses(term: Metric) -> str:
    """Query how often in a day each device came back to a host that still had others.

    Also query, with a mark, how often each exporter stopped answering for more than two minutes, as
    a scrape or two may fail; 0 for never. An absence of a device for less than a minute may be
    missed.
    """
    if not term.by:
        last, *others = (
            f"{term.selector}{each} == 1" for each in (" offset 3m", " offset 2m", " offset 1m", "")
        )
        went = f"count_over_time(({' unless '.join((last, *others))})[1d:1m])"
        return f'label_replace({went} or 0 * {term.selector}, "{HOST_MARK}", "1", "", "")'
    before = f"{term.selector} offset 1m"
    back = f"{term.past_value} unless on ({term.by}) {before} and on ({term.host_by}) {before}"
    return f"count_over_time(({back})[1d:1m])"


def _codes(term: Metric) -> str:
    """Query which XID errors each device had in a day."""
    had = f'count_values by ({term.past_by}) ("{XID_LABEL}", {term.selector} > 0)'
    return f"max_over_time(({had})[1d:1m])"


def _last_xids(catalog: Catalog) -> Iterable[Metric]:
    return catalog.field(XIDS)


def _xids(picture: Picture) -> Iterable[Metric]:
    return picture.inventory.catalog.xids(picture.memory.look_back_seconds)


def _unsteady(
    terms: Callable[[Catalog], Iterable[Metric]],
) -> Callable[[Picture], Iterable[Metric]]:
    def asked(picture: Picture) -> Iterable[Metric]:
        catalog = picture.inventory.catalog
        return catalog.of_hosts(terms(catalog), names_by_label(picture.memory.unsteady()))

    return asked


def _lost_often(picture: Picture) -> Iterable[Metric]:
    """Yield the devices of hosts that may have lost some more than once, and their exporters."""
    inventory, hosts = picture.inventory, {*picture.memory.unsteady()}
    catalog = inventory.catalog
    yield from catalog.of_hosts(catalog.main(), names_by_label(hosts))
    for term in catalog.exporters() if hosts else ():
        own = queries.matcher("instance", inventory.instances_of(hosts))
        yield term._replace(matcher=f"{term.matcher}, {own}")


def _undated_xids(picture: Picture) -> Iterable[Metric]:
    for code, devices in picture.memory.undated().items():
        for term in _of_devices(picture, _last_xids, devices):
            yield term._replace(bound=str(code))


def _take_main(picture: Picture, rows: list[Row], at: float) -> None:
    picture.take_main(rows, at, is_partial=False)


def _targets(picture: Picture) -> Iterable[Metric]:
    return picture.inventory.catalog.targets(picture.silent_instances())


def _take_targets(picture: Picture, rows: list[Row], _at: float) -> None:
    failing = ((row.labels, None) for row in rows if not row.number)
    picture.take_targets(failing, (row.labels for row in rows if row.number))


def _dates(picture: Picture) -> Iterable[Metric]:
    return picture.memory.dates.terms()


def _take_dates(picture: Picture, rows: list[Row], at: float) -> None:
    picture.memory.dates.take(rows, at)


def questions(look_back_seconds: float = DAY_SECONDS) -> tuple[Query, ...]:
    """Return all queries in the order in which they are first made: what is seen first is first.

    `look_back_seconds` is how long vanished devices are reported missing.
    """
    seen, unlike = queries.last_seen(look_back_seconds), queries.last_unlike(look_back_seconds)
    used = queries.last_outside(look_back_seconds, is_coarse=True)
    change = queries.last_change(look_back_seconds)
    others = (n for n in sorted(FIELDS, key=_period) if n not in (UTILIZATION, *_SEEN_FIRST))
    identity, main = _all(Catalog.identity), _all(Catalog.main)
    shrinking = _all(lambda catalog: catalog.exporters("scrape_samples_scraped"))
    losses, past_xids = _remember(Memory.take_losses), _remember(Memory.take_past_xids)
    return (
        Query("names", 600, after="", is_core=True),
        Query(
            "identity", 120, identity, _learn, queries.series, "names", is_core=True, is_brief=True
        ),
        Query("main", INTERVAL_SECONDS, main, _take_main, after="identity", is_core=True),
        *map(_field, _SEEN_FIRST),
        *_gone(look_back_seconds),
        Query("down", 30, _targets, _take_targets, queries.series, "past"),
        Query("xids", 60, _xids, _remember(Memory.take_xids), after="past"),
        Query("lost", 60, _lost, _remember(Memory.take_last_seen), seen, "past"),
        Query("shrinks", inf, shrinking, _remember(Memory.take_shrinks), _shrinks, "xids"),
        Query("losses", 300, _lost_often, losses, _losses, "shrinks"),
        Query("past xids", 300, _unsteady(_last_xids), past_xids, _codes, "xids"),
        Query("undated xids", 60, _undated_xids, _remember(Memory.take_xid_times), unlike, "xids"),
        _since("idle", 300),
        _since("held", 300),
        Query("intervals", 120, _all(Catalog.exporters), Picture.take_scrapes, queries.scrapes),
        Query("ages", 60, main, Picture.take_ages, queries.ages, "intervals", is_brief_late=True),
        *map(_field, others),
        Query("worn", 600, _all(Catalog.worn), Picture.take_worn),
        Query("users", 60, _all(Catalog.users), Picture.take_users),
        Query("frozen", inf, _all(lambda c: c.field(POWER)), Picture.take_frozen, queries.frozen),
        Query("changes", 60, _frozen, _remember(Memory.take_changes), change, "frozen"),
        _since("idle", LONG_SECONDS, "5m"),
        _since("held", LONG_SECONDS, "5m"),
        _since("held before", LONG_SECONDS, "5m", _held_before, after="held 60m"),
        Query("last used", 60, _rested, _remember(Memory.take_last_used), used, "held before 60m"),
        Query("last given", 60, _given, _remember(Memory.take_given), used, "idle 60m"),
        Query(DATES, inf, _dates, _take_dates, queries.last_outside(look_back_seconds)),
    )
