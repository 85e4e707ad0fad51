"""The table of what is asked for, when, and what becomes of the answer.

A Prometheus is asked all of it; of what exporters themselves have, see `is_of_exporters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from gpudash.fleet.prometheus import queries
from gpudash.fleet.prometheus.dialects import (
    FIELDS,
    MEMORY,
    MEMORY_TOTAL,
    POWER,
    POWER_LIMIT,
    TEMPERATURE,
    UTILIZATION,
)
from gpudash.fleet.prometheus.inventory import Row
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.queries import Catalog, Form, Metric, promql

INTERVAL_SECONDS = 10.0
"""Between two main queries: exporters are scraped every 15 seconds or more."""
_HOUR = 3600.0

_PERIODS = {MEMORY: 60.0, TEMPERATURE: 60.0, POWER: 60.0, MEMORY_TOTAL: 600.0, POWER_LIMIT: 600.0}


class Query(NamedTuple):
    """Something to ask for again and again, and what becomes of the answer."""

    name: str
    period: float
    """Seconds, infinity for once."""
    terms: Callable[[Catalog], Iterable[Metric]] = lambda _: ()
    """What is asked for; none where that is no series, as of the names of metrics."""
    take: Callable[[Picture, list[Row], float], None] = lambda *_: None
    """Takes the series of an instant."""
    form: Form = queries.value
    after: str = "main"
    """What it builds on, which has to be answered before."""
    seconds_back: float = 0.0
    is_core: bool = False
    """Whether nothing is known of any host without it."""

    @property
    def is_of_exporters(self) -> bool:
        """Whether exporters have it, who know of nothing but now."""
        return self.form in (queries.value, queries.series) and not self.seconds_back

    def expression(self, catalog: Catalog) -> str | None:
        """Return it in PromQL, None if there is nothing to ask."""
        return promql(self.terms(catalog), self.form)


def _period(field: str) -> float:
    return _PERIODS.get(field, 120.0)


def _field(name: str) -> Query:
    return Query(
        name,
        _period(name),
        Catalog.total if name == MEMORY_TOTAL else lambda catalog: catalog.field(name),
        lambda picture, rows, at: picture.take_field(name, rows, at),
    )


def _since(name: str, seconds: float, step: str = "") -> Query:
    """Return what asks for devices that have been idle, or held, for a span."""
    is_idle = name == "idle"
    take = Picture.take_idle if is_idle else Picture.take_held
    span = f"{seconds / 60:.0f}m"
    return Query(
        f"{name} {span}",
        inf,
        Catalog.main if is_idle else Catalog.held,
        lambda picture, rows, at: take(picture, rows, at - seconds),
        queries.lasting(span, step),
    )


def _learn(picture: Picture, rows: list[Row], _at: float) -> None:
    picture.inventory.learn(rows)


def _learn_past(picture: Picture, rows: list[Row], at: float) -> None:
    picture.inventory.learn_past(rows, at)


def _take_main(picture: Picture, rows: list[Row], at: float) -> None:
    picture.take_main(rows, at, is_partial=False)


def _take_down(picture: Picture, rows: list[Row], _at: float) -> None:
    picture.take_down((row.labels, None) for row in rows)


def _power(catalog: Catalog) -> Iterable[Metric]:
    return catalog.field(POWER)


QUERIES: tuple[Query, ...] = (
    Query("names", 600, after="", is_core=True),
    Query("identity", 120, Catalog.identity, _learn, queries.series, "names", is_core=True),
    Query("main", INTERVAL_SECONDS, Catalog.main, _take_main, after="identity", is_core=True),
    Query("past", inf, Catalog.identity, _learn_past, queries.series, seconds_back=_HOUR),
    Query("old xids", inf, Catalog.last_xids, Picture.take_old_xids, queries.value, "past", _HOUR),
    Query("down", 30, Catalog.down, _take_down, queries.series, "past"),
    _field(MEMORY),
    Query("xids", 60, Catalog.xids, Picture.take_xids, after="old xids"),
    _since("idle", 300),
    _since("held", 300),
    Query("ages", 60, Catalog.main, Picture.take_ages, queries.ages),
    *(_field(name) for name in sorted(FIELDS, key=_period) if name not in (UTILIZATION, MEMORY)),
    Query("users", 60, Catalog.users, Picture.take_users),
    Query("last seen", inf, Catalog.main, Picture.take_last_seen, queries.last_seen, "past"),
    Query("frozen", inf, _power, Picture.take_frozen, queries.frozen),
    _since("idle", _HOUR, "5m"),
    _since("held", _HOUR, "5m"),
)
"""In the order in which they are asked for at the start: what is seen first comes first."""
