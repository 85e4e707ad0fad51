"""What is asked of a server: metrics and labels that it has as terms, and terms as PromQL.

What an exporter is asked for itself is the same terms, without PromQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpudash.analysis.activity import IDLE_PERCENT, NOTABLE_BYTES
from gpudash.fleet.prometheus.dialects import (
    DATED_XIDS,
    ENGINE,
    IDENTITY,
    INSTANCE_LABEL,
    MEMORY,
    MEMORY_REST,
    MEMORY_TOTAL,
    POWER,
    TEMPERATURE,
    USERS,
    UTILIZATION,
    XID_LABEL,
    XIDS,
    Dialect,
    LabelChoice,
    Series,
    dialects,
    known_series,
)

NAMES_SELECTOR = f'{{__name__=~"{"|".join(known_series())}"}}'
"""Selects everything that is understood."""

_INSTANCES = f'{{{INSTANCE_LABEL}!=""}}'
_NO_CHOICE = LabelChoice((), None, None, ("", ""))


Names = dict[tuple[str, str | None], list[str]]
"""Hosts by the label that names them and their cluster."""


class Metric(NamedTuple):
    """One metric of an exporter, of which each device has a value."""

    names: tuple[str, ...]
    """More than one stand for their sum."""
    by: str = ""
    """Labels that distinguish devices."""
    host_by: str = ""
    """Labels that distinguish their hosts."""
    matcher: str = ""
    """Which of its series count: of an exporter itself, those of MIG instances."""
    condition: str = ""
    """Which of its values count."""
    bound: str = ""
    """What holds of a value while the device idles, or is held; empty where none says so."""
    factor: float = 1.0
    """Of a sum: from its value to the field's."""

    @property
    def selector(self) -> str:
        """All of its series."""
        return self.names[0] + self.matcher


Form = Callable[[Metric], str]
"""Returns a term in PromQL, empty for none."""


def series(term: Metric) -> str:
    """Ask for series with all of their labels."""
    return term.selector + term.condition


def value(term: Metric) -> str:
    """Ask for one value a device: time slicing and several jobs give it more than one series."""
    if len(term.names) == 1:
        return _max(f"__name__, {term.by}", term.selector) + term.condition
    return f"({' + '.join(_max(term.by, name) for name in term.names)}) * {term.factor:.17g}"


def lasting(span: str, step: str = "") -> Form:
    """Ask for devices whose bound has held for a span such as `5m`, looked at in steps."""

    def form(term: Metric) -> str:
        if not term.bound:
            return ""
        function = "max" if term.bound.startswith("<") else "min"
        over = _over(function, term.by, term.selector, span, step)
        # A span that is shorter proves nothing about all of it.
        past = _max(term.by, f"{term.selector} offset {span}")
        return f"({over} {term.bound}{term.condition} and {past} {term.bound})"

    return form


def last_seen(term: Metric) -> str:
    """Ask for the time of the newest sample of each device in the last hour."""
    return _over("max", term.by, f"timestamp({term.selector})", "1h", "5m")


def ages(term: Metric) -> str:
    """Ask for the time of the newest sample of each host."""
    return _max(term.host_by, f"timestamp({term.selector})")


def frozen(term: Metric) -> str:
    """Ask for hosts of which a value has not changed at all in ten minutes."""
    changes = _max(term.host_by, f"changes({term.selector}[10m])")
    return f"({changes} == 0 and {_max(term.host_by, f'{term.selector} offset 10m')} > 0)"


class Catalog(NamedTuple):
    """Which of the known metrics there are, and which labels they have."""

    names: frozenset[str]
    choices: Mapping[str, LabelChoice] = {}
    """By dialect, of those of which there are series."""
    jobs: frozenset[str] = frozenset()
    """The values of the label `job` of all exporters."""

    def identity(self) -> Iterator[Metric]:
        """Yield a series a device that has all of its labels."""
        for dialect in dialects():
            if main := self._main(dialect):
                yield from main
                yield from self._terms(dialect, IDENTITY)

    def main(self) -> Iterator[Metric]:
        """Yield the utilization of each device; where there is none, what shows that it exists."""
        for dialect in self._chosen():
            yield from self._main(dialect)

    def field(self, field: str) -> Iterator[Metric]:
        """Yield one field of each device."""
        for dialect in self._chosen():
            yield from self._terms(dialect, field)

    def total(self) -> Iterator[Metric]:
        """Yield the memory of each device: DCGM up to 4.8 has it in three parts by default."""
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
                    names = (each.name for each in (used, *rest))
                    yield self._term(dialect, *names)._replace(factor=used.factor)

    def held(self) -> Iterator[Metric]:
        """Yield the memory of devices that do not compute."""
        for dialect in self._chosen():
            idle = _or(
                f"{_max(term.by, term.selector)} {term.bound}"
                for term in self._main(dialect)
                if term.bound
            )
            for each in self._present(dialect, MEMORY) if idle else ():
                bound = f">= {NOTABLE_BYTES / each.factor:g}"
                yield self._term(dialect, each.name)._replace(
                    bound=bound, condition=f" and ({idle})"
                )

    def last_xids(self) -> Iterator[Metric]:
        """Yield last XID errors that are not 0."""
        return (term._replace(condition=" != 0") for term in self.field(XIDS))

    def xids(self) -> Iterator[Metric]:
        """Yield last XID errors that are not 0, and the times of those of the last hour."""
        yield from self.last_xids()
        for term in self.field(DATED_XIDS):
            yield term._replace(by=f"{term.by}, {XID_LABEL}", condition=" > time() - 3600")

    def users(self) -> Iterator[Metric]:
        """Yield whose processes are on which device."""
        for dialect in self._chosen():
            for term in self._terms(dialect, USERS):
                yield term._replace(by=f"{term.by}, {dialect.user_label}")

    def down(self) -> Iterator[Metric]:
        """Yield exporters that cannot be scraped."""
        if self.jobs:
            jobs = f"{{{matcher('job', sorted(self.jobs))}}}"
            yield Metric(("up",), matcher=jobs, condition=" == 0")

    def chart(self, field: str, hosts: Names, *, by_device: bool, has_percent: bool) -> str | None:
        """Ask for a field of each device, or of each host on average; without hosts, of all.

        `has_percent` is for series of ratios that are none.
        """
        texts = []
        fields = (field, ENGINE) if field == UTILIZATION else (field,)
        for dialect in self._chosen():
            selections = self._selections(dialect, hosts) if hosts else [""]
            for each in (each for name in fields for each in self._present(dialect, name)):
                factor = 1 if has_percent and each.is_ratio else each.factor
                term = self._term(dialect, each.name)
                for selection in selections:
                    text = f"{_max(term.by, each.name + selection)} * {factor:.17g}"
                    is_mean = hosts and not by_device
                    texts.append(f"avg by ({term.host_by}) ({text})" if is_mean else text)
        whole = _or(texts)
        return whole if hosts or whole is None else f"avg({whole})"

    def _selections(self, dialect: Dialect, hosts: Names) -> list[str]:
        choice = self.choices[dialect.name]
        found = []
        for (label, cluster), names in hosts.items():
            if label in choice.hosts:
                matchers = [matcher(label, names)]
                if cluster and choice.cluster:
                    matchers.append(matcher(choice.cluster, [cluster]))
                found.append(f"{{{', '.join(matchers)}}}")
        return found

    def _chosen(self) -> Iterator[Dialect]:
        return (dialect for dialect in dialects() if dialect.name in self.choices)

    def _main(self, dialect: Dialect) -> list[Metric]:
        """Return what exists of every device: its utilization, else whatever there is."""
        used, engine = (
            [
                self._term(dialect, each.name)._replace(bound=f"< {IDLE_PERCENT / each.factor:g}")
                for each in self._present(dialect, field)
            ]
            for field in (UTILIZATION, ENGINE)
        )
        if used:
            return used + [term._replace(matcher=_INSTANCES) for term in engine]
        for field in (MEMORY, TEMPERATURE, POWER):
            engine = engine or self._terms(dialect, field)
        return engine

    def _terms(self, dialect: Dialect, field: str) -> list[Metric]:
        return [self._term(dialect, each.name) for each in self._present(dialect, field)]

    def _present(self, dialect: Dialect, field: str) -> list[Series]:
        return [each for each in dialect.of(field) if each.name in self.names]

    def _term(self, dialect: Dialect, *names: str) -> Metric:
        choice = self.choices.get(dialect.name, _NO_CHOICE)
        host_by = ", ".join(filter(None, (*choice.hosts, choice.cluster)))
        return Metric(names, f"{host_by}, {dialect.device_label}, {INSTANCE_LABEL}", host_by)


def promql(terms: Iterable[Metric], form: Form) -> str | None:
    """Return terms as one query, None if there is nothing to ask."""
    return _or(map(form, terms))


def matcher(label: str, values: Iterable[str]) -> str:
    """Return `label=~"a|b"` for exactly these values, whatever characters they have."""
    texts = [_quoted(_literal(value)) for value in values]
    return f'{label}=~"{"|".join(texts)}"'


def _literal(text: str) -> str:
    """Return text as a regular expression of RE2 that matches nothing else."""
    return "".join(f"\\{char}" if char in "\\.+*?()|[]{}^$" else char for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _max(by: str, selector: str) -> str:
    return f"max by ({by}) ({selector})"


def _over(function: str, by: str, selector: str, span: str, step: str) -> str:
    """Return a function over the time of a series; with a step by a cheaper subquery."""
    if step:
        return f"{function}_over_time(({_max(by, selector)})[{span}:{step}])"
    return f"{function} by ({by}) ({function}_over_time({selector}[{span}]))"


def _or(texts: Iterable[str]) -> str | None:
    return " or ".join(filter(None, texts)) or None
