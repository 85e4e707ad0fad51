"""Which metrics and labels a server has, as terms to query it with.

The same terms, without PromQL, are read from exporters directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from gpudash.analysis.activity import IDLE_PERCENT, NOTABLE_BYTES
from gpudash.fleet.lasting import Bound
from gpudash.fleet.prometheus.dialects import (
    CLUSTER_LABELS,
    DATED_XIDS,
    ENGINE,
    IDENTITY,
    INSTANCE_LABEL,
    MEMORY,
    MEMORY_REST,
    MEMORY_TOTAL,
    PERSON_LABELS,
    POWER,
    TEMPERATURE,
    USERS,
    UTILIZATION,
    WORN,
    XID_LABEL,
    XIDS,
    Dialect,
    LabelChoice,
    Series,
    dialects,
    known_series,
)
from gpudash.fleet.prometheus.queries import (
    FOUND_LABEL,
    Metric,
    any_of,
    matcher,
    max_by,
)

_INSTANCES = f'{INSTANCE_LABEL}!=""'
_INDEX_LABELS = {each.device_label for each in dialects() if each.index_label is None}
_NO_CHOICE = LabelChoice((), None, None)

Names = dict[tuple[str, str | None], list[str]]
"""Names of hosts, by the label that names them and their cluster."""


class Catalog(NamedTuple):
    """The known metrics that exist on a server, and their labels."""

    names: frozenset[str]
    choices: Mapping[str, LabelChoice] = {}
    """By dialect, for those that have series."""
    jobs: frozenset[str] = frozenset()
    """All values of the label `job` of the exporters."""
    recorded: Mapping[str, str] = {}
    """The server's name of a metric that its recording rules have renamed."""

    @property
    def selector(self) -> str:
        """The selector of all known metrics."""
        return "{" + matcher("__name__", map(self.name_of, known_series())) + "}"

    def name_of(self, metric: str) -> str:
        """Return the server's name for a metric of an exporter."""
        return self.recorded.get(metric, metric)

    def identity(self) -> Iterator[Metric]:
        """Yield one series of each device, with all of its labels."""
        for dialect in dialects():
            if main := self._main(dialect):
                shown = self._shown(dialect) or self._terms(dialect, ENGINE)
                rest = (_beside(term, main) for term in shown if term not in main)
                yield from (*main, *rest, *self._terms(dialect, IDENTITY))

    def earlier(self) -> Catalog:
        """Return the catalog with the names that other exporter versions use for its metrics."""
        known = known_series()
        there = {(known[name][0].name, known[name][1].field) for name in self.names}
        names = (name for name, (its, each) in known.items() if (its.name, each.field) in there)
        return self._replace(names=frozenset(names))

    def past(self) -> Iterator[Metric]:
        """Yield the main metrics of the dialects present, with the labels that identify devices."""
        earlier = self.earlier()
        for dialect in self._chosen():
            choice = self.choices[dialect.name]
            more = (dialect.uuid_label, dialect.model_label, dialect.index_label, choice.group)
            labels = (*filter(None, more), *PERSON_LABELS, "GPU_I_PROFILE", "instance")
            bare = earlier._bare(dialect) if choice.has_bare else ()
            for term in (*earlier._main(dialect), *bare, *earlier._terms(dialect, IDENTITY)):
                known = dict.fromkeys((*term.by.split(", "), *labels))
                yield term._replace(identified_by=", ".join(known))

    def main(self, *, of_past: bool = False) -> Iterator[Metric]:
        """Yield the utilization of each device, or whatever shows that it exists."""
        for dialect in self._chosen():
            has_instances = of_past or self.choices[dialect.name].has_instances
            # If nothing matches it, the term would cost as much as half of the rest.
            for term in self._main(dialect):
                if has_instances or term.matcher != _INSTANCES:
                    yield term
            if self.choices[dialect.name].has_bare:
                yield from self._bare(dialect)

    def field(self, field: str) -> Iterator[Metric]:
        """Yield one field of each device."""
        for dialect in self._chosen():
            yield from self._terms(dialect, field)

    def total(self) -> Iterator[Metric]:
        """Yield the total memory of each device, which DCGM up to 4.8 reports in three parts."""
        yield from self.field(MEMORY_TOTAL)
        for dialect in self._chosen():
            for used in self._present(dialect, MEMORY):
                rest = [
                    each
                    for field in MEMORY_REST
                    for each in self._present(dialect, field)
                    if each.factor == used.factor
                ]
                if any(each.field == MEMORY_REST[0] for each in rest):
                    yield self._term(dialect, used, *rest)

    def held(self) -> Iterator[Metric]:
        """Yield the memory of devices that are not computing."""
        for dialect in self._chosen():
            idle = any_of(f"{term.past_value} {term.bound}" for term in self._computing(dialect))
            for term in self._holding(dialect) if idle else ():
                yield term._replace(condition=f" and ({idle})")

    def outside(
        self,
        bounds: Iterable[Bound],
        hosts: Names,
        gpus: Collection[int],
        mark: str,
        *,
        is_percent: bool,
    ) -> Iterator[Metric]:
        """Yield terms that show when a value of a few devices was outside its bounds, with a mark.

        `is_percent` says whether their ratios are percentages.
        """
        known = self.earlier()
        for dialect in self._chosen():
            ends, there = list[str](), list[str]()
            for bound in bounds:
                is_use = bound.field == UTILIZATION
                terms = known._computing(dialect) if is_use else known._terms(dialect, bound.field)
                for term in self.of_hosts(terms, hosts, gpus):
                    factor = 1.0 if term.is_ratio and is_percent else term.factor
                    there.append(term.past_value)
                    if bound.least > -inf:
                        # Negative values are invalid.
                        ends.append(f"({term.past_value} >= 0) < {bound.least / factor:g}")
                    if bound.below < inf:
                        ends.append(f"{term.past_value} >= {bound.below / factor:g}")
            if ends:
                condition, bound_ = (
                    f'label_replace({any_of(texts)}, "{FOUND_LABEL}", "{mark}", "", "")'
                    for texts in (ends, there)
                )
                yield Metric((), condition=condition, bound=bound_)

    def given(self, hosts: Names, gpus: Collection[int]) -> Iterator[Metric]:
        """Yield terms that show whether a few devices compute, and who they are allocated to."""
        for dialect in self._chosen():
            for term in self.of_hosts(self._computing(dialect), hosts, gpus):
                used = f"{term.past_value} {term.bound.replace('<', '>=')}"
                people = dict.fromkeys((*term.past_by.split(", "), *PERSON_LABELS))
                there = max_by(", ".join(people), term.selector)
                yield term._replace(condition=used, bound=there)

    def uses(self) -> Iterator[tuple[Dialect, list[Metric], list[Metric]]]:
        """Yield for each dialect the terms that show whether a device computes, and is held."""
        for dialect in self._chosen():
            bare = self._bare(dialect) if self.choices[dialect.name].has_bare else ()
            yield dialect, [*self._main(dialect), *bare], self._holding(dialect)

    def xids(self, seconds: float) -> Iterator[Metric]:
        """Yield nonzero last XID errors, and the times of errors within a span."""
        for term in self.field(XIDS):
            yield term._replace(condition=" != 0")
        for term in self.field(DATED_XIDS):
            yield term._replace(
                by=f"{term.by}, {XID_LABEL}", condition=f" > time() - {seconds:.0f}"
            )

    def worn(self) -> Iterator[Metric]:
        """Yield a value for each device that needs to be replaced."""
        for term in self.field(WORN):
            yield term._replace(condition=" > 0")

    def users(self) -> Iterator[Metric]:
        """Yield the users whose processes run on each device."""
        for dialect in self._chosen():
            for term in self._terms(dialect, USERS):
                yield term._replace(by=f"{term.by}, {dialect.user_label}")

    def targets(self, instances: Collection[str]) -> Iterator[Metric]:
        """Yield exporters that cannot be scraped, and those of these instances that can."""
        for term in self.exporters():
            yield term._replace(condition=" == 0")
            if instances:
                own = f"{term.matcher}, {matcher('instance', instances)}"
                yield term._replace(matcher=own, condition=" == 1")

    def exporters(self, name: str = "up") -> Iterator[Metric]:
        """Yield the server's own record of whether each exporter can be scraped."""
        if self.jobs:
            yield Metric((name,), matcher=matcher("job", sorted(self.jobs)))

    @staticmethod
    def of_hosts(
        terms: Iterable[Metric], hosts: Names, gpus: Collection[int] = ()
    ) -> Iterator[Metric]:
        """Yield terms limited to these hosts, one for each label that names some of them.

        Where GPUs have an index label, they are limited to these indices too, if any are given.
        """
        for term in terms:
            labels = term.by.split(", ")
            by_index = sorted(_INDEX_LABELS.intersection(labels)) if gpus else []
            for (label, cluster), names in hosts.items():
                if label not in labels:
                    continue
                matchers = [*filter(None, [term.matcher]), matcher(label, names)]
                own = next((each for each in CLUSTER_LABELS if each in labels), None)
                if cluster and own:
                    matchers.append(matcher(own, [cluster]))
                matchers += [matcher(each, map(str, sorted(gpus))) for each in by_index]
                yield term._replace(matcher=", ".join(matchers))

    def chart(
        self, field: str, hosts: Names, *, by_device: bool, percent: Names, is_single: bool
    ) -> str | None:
        """Query a field of each device or the average of each host; of all hosts if none are given.

        `percent` are hosts whose ratios are percentages; `is_single` means one series per device.
        """
        texts, plain = list[str](), list[str]()
        fields = (field, ENGINE) if field == UTILIZATION else (field,)
        for dialect in self._chosen():
            for each in (each for name in fields for each in self._terms(dialect, name)):
                terms = [(each.factor, self.of_hosts([each], hosts) if hosts else [each])]
                if each.is_ratio:
                    # First, since the other terms match these hosts too.
                    terms.insert(0, (1.0, self.of_hosts([each], percent)))
                for factor, term in ((factor, term) for factor, some in terms for term in some):
                    times = "" if factor == 1 else f" * {factor:.17g}"
                    is_mean = hosts and not by_device
                    by = term.past_by if by_device else term.by
                    text = max_by(by, term.selector) + times
                    texts.append(f"avg by ({term.host_by}) ({text})" if is_mean else text)
                    plain.append(term.selector + times)
        texts = plain if is_single and not hosts and len(plain) == 1 else texts
        return any_of(texts) if hosts or not texts else f"avg({any_of(texts)})"

    def _chosen(self) -> Iterator[Dialect]:
        return (dialect for dialect in dialects() if dialect.name in self.choices)

    def _main(self, dialect: Dialect) -> list[Metric]:
        """Return what shows that each device exists: its utilization, else anything that it has."""
        return self._computing(dialect) or self._shown(dialect)

    def _computing(self, dialect: Dialect) -> list[Metric]:
        """Return the utilization, with its bound for a device that does not compute."""
        used, engine = (
            [term._replace(bound=_idle_bound(term)) for term in self._terms(dialect, field)]
            for field in (UTILIZATION, ENGINE)
        )
        if used:
            return used + [term._replace(matcher=_INSTANCES) for term in engine]
        return engine

    def _holding(self, dialect: Dialect) -> list[Metric]:
        """Return the memory in use, with its bound for a device that is held."""
        return [
            term._replace(bound=f">= {NOTABLE_BYTES / term.factor:g}")
            for term in self._terms(dialect, MEMORY)
        ]

    def _bare(self, dialect: Dialect) -> Iterator[Metric]:
        """Yield terms for devices without the metrics that most devices have."""
        used, engine = self._terms(dialect, UTILIZATION), self._terms(dialect, ENGINE)
        for term in engine if used else ():
            yield _beside(term, used, on=f"on ({term.by}) ")._replace(bound=_idle_bound(term))
        for term in self._shown(dialect) if used or engine else ():
            yield _beside(term, [*used, *engine], on=f"on ({term.by}) ")

    def _shown(self, dialect: Dialect) -> list[Metric]:
        """Return what shows that each device exists."""
        terms = (self._terms(dialect, field) for field in (MEMORY, TEMPERATURE, POWER))
        return next(filter(None, terms), [])

    def _terms(self, dialect: Dialect, field: str) -> list[Metric]:
        return [self._term(dialect, each) for each in self._present(dialect, field)]

    def _present(self, dialect: Dialect, field: str) -> list[Series]:
        return [each for each in dialect.of(field) if each.name in self.names]

    def _term(self, dialect: Dialect, *series: Series) -> Metric:
        choice = self.choices.get(dialect.name, _NO_CHOICE)
        host_by = ", ".join(filter(None, (*choice.hosts, choice.cluster)))
        names = tuple(self.name_of(each.name) for each in series)
        labels = (host_by, dialect.device_label, INSTANCE_LABEL)
        known = (host_by, dialect.device_label, dialect.index_label, dialect.uuid_label)
        past = dict.fromkeys((*filter(None, known), INSTANCE_LABEL))
        term = Metric(names, ", ".join(labels), ", ".join(past), host_by)
        return term._replace(factor=series[0].factor, is_ratio=series[0].is_ratio)


def _beside(term: Metric, others: Sequence[Metric], on: str = "") -> Metric:
    """Return a term for devices that the others do not show, matched by the labels `on`."""
    condition = "".join(f" unless {on}{each.selector}" for each in others)
    return term._replace(condition=condition, without=tuple(others))


def _idle_bound(term: Metric) -> str:
    return f"< {IDLE_PERCENT / term.factor:g}"
