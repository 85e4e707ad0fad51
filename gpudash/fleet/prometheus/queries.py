"""What is asked of a server: metrics and labels that it has as terms, and terms as PromQL.

What an exporter is asked for itself is the same terms, without PromQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpudash.analysis.activity import IDLE_PERCENT, NOTABLE_BYTES
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

_INSTANCES = f'{INSTANCE_LABEL}!=""'
_INDEX_LABELS = {each.device_label for each in dialects() if each.index_label is None}
_NO_CHOICE = LabelChoice((), None, None)
SCRAPED_SECONDS = 1200.0
_STILL_SECONDS = 600
_GLANCES, _STEPS = (1 / 24, 1 / 8, 3 / 8, 0.98), 1440
"""Instants of a look back at all devices, as parts of its span, and how many at few of them.

Of a day 1, 3, 9 and 23.5 hours ago, and minutes. The last is within a past of just that span.
"""
FIRST_LABEL = "first"
_MAX_EXACT_SECONDS = 86400
"""Of a span of which the time of a sample is asked for, not that of a step."""
_PARTS = (*(f'=~".*{digit}"' for digit in range(8)), '!~".*[0-7]"')
"""What distinguishes some devices from the others: how their index, or UUID, ends."""
_SEEN_SECONDS = 300
"""How long a series is seen after its last sample."""

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
    identified_by: str = ""
    """Labels that say what a device is, those that distinguish it among them."""
    condition: str = ""
    """Which of its values count."""
    bound: str = ""
    """What holds of a value while the device idles, or is held; empty where none says so."""
    factor: float = 1.0
    """Of a sum: from its value to the field's."""

    @property
    def selector(self) -> str:
        """All of its series."""
        return self.series_of(self.names[0])

    def series_of(self, name: str) -> str:
        """Return the same series under one of its names."""
        return name + (f"{{{self.matcher}}}" if self.matcher else "")

    def parts(self) -> list[Metric]:
        """Return it in parts, each of which has other devices."""
        device = self.by.split(", ")[-2]
        known = [self.matcher] if self.matcher else []
        return [self._replace(matcher=", ".join([*known, device + each])) for each in _PARTS]


Form = Callable[[Metric], str]
"""Returns a term in PromQL, empty for none."""


def series(term: Metric) -> str:
    """Ask for series with all of their labels."""
    return term.selector + term.condition


def value(term: Metric) -> str:
    """Ask for one value a device: time slicing and several jobs give it more than one series."""
    if len(term.names) == 1:
        return _max(f"__name__, {term.by}", term.selector + term.condition)
    sums = (_max(term.by, term.series_of(name)) for name in term.names)
    return f"({' + '.join(sums)}) * {term.factor:.17g}"


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


def gone(seconds: float) -> tuple[Form, ...]:
    """Ask for devices that there were and are not now, with about when they were last.

    A few instants are looked at: a span would have the server read all of its samples. Each is
    a query of its own, the newest first: together they take longer than servers allow.
    """

    def glance(ago: float) -> Form:
        def form(term: Metric) -> str:
            seen = (
                f"max by ({term.identified_by}) (timestamp({term.selector} offset {ago:.0f}s) "
                f"unless on ({term.by}) {term.selector})"
            )
            return f'label_replace({seen}, "__name__", "{term.names[0]}", "", "")'

        return form

    return tuple(map(glance, _glances(seconds)))


def last_seen(seconds: float) -> Form:
    """Ask for the time of the newest sample of few devices, after the glance that saw them last.

    Of a long span, for the last step at which there was one: for each step a `timestamp` has some
    servers read all samples up to it.
    """
    glances, (_, step) = (0.0, *_glances(seconds)), _span(seconds, _STEPS)

    def form(term: Metric) -> str:
        newer, older = glances[int(term.bound) : int(term.bound) + 2]
        end = max(0.0, newer - _SEEN_SECONDS)
        window = older - end + _SEEN_SECONDS
        is_long = window > _MAX_EXACT_SECONDS
        moment = f"time() + 0 * {term.selector}" if is_long else f"timestamp({term.selector})"
        # Not every server takes an offset of 0.
        offset = f" offset {end:.0f}s" if end else ""
        return f"max_over_time(({_max(term.by, moment)})[{window:.0f}s:{step}]{offset})"

    return form


def glance_of(age: float, seconds: float) -> int:
    """Return the number of the glance that saw a device last, by its age; the newest is 0."""
    return max(0, sum(ago <= age for ago in _glances(seconds)) - 1)


def _glances(seconds: float) -> tuple[float, ...]:
    return tuple(part * seconds for part in _GLANCES)


def last_unlike(seconds: float) -> Form:
    """Ask for the last time in a span at which each device had another value than it has now.

    Of one without such a time, ask for that of its first sample, marked by `FIRST_LABEL`.
    """
    span, step = _span(seconds, _STEPS)

    def form(term: Metric) -> str:
        there = _max(term.by, term.selector)
        other = f"max_over_time((time() + 0 * ({there} != {term.bound}))[{span}:{step}])"
        first = f"min_over_time((time() + 0 * {there})[{span}:{step}])"
        marked = f'label_replace({first}, "{FIRST_LABEL}", "1", "", "")'
        both = f"{other} or on ({term.by}) {marked}"
        return f'label_replace({both}, "{XID_LABEL}", "{term.bound}", "", "")'

    return form


def _span(seconds: float, steps: int) -> tuple[str, str]:
    return f"{seconds:.0f}s", f"{seconds / steps:.0f}s"


def last_used(seconds: float) -> Form:
    """Ask for the last time in a span at which a device computed or was not held, else the first.

    The first is that of its samples: what was before them is not known.
    """
    span, step = _span(seconds, _STEPS // 5)

    def form(term: Metric) -> str:
        used, there = (
            f"{function}_over_time((time() + 0 * ({text}))[{span}:{step}])"
            for function, text in (("max", term.condition), ("min", term.bound))
        )
        return f"({used} or {there})"

    return form


def ages(term: Metric) -> str:
    """Ask for the time of the newest sample of each host."""
    return _max(term.host_by, f"timestamp({term.selector})")


def scrapes(term: Metric) -> str:
    """Ask how often the targets of each job were scraped in `SCRAPED_SECONDS`."""
    by = ", ".join(("job", *CLUSTER_LABELS))
    return _max(by, f"count_over_time({term.selector}[{SCRAPED_SECONDS:.0f}s])")


def frozen(term: Metric) -> str:
    """Ask for hosts of which a value has not changed at all in ten minutes."""
    past = _max(term.host_by, f"{term.selector} offset {_STILL_SECONDS}s")
    return f"({_changes(term)} == 0 and {past} > 0)"


def last_change(seconds: float) -> Form:
    """Ask for the last time in a span at which a value of each host changed."""
    span, step = _span(seconds, _STEPS)

    def form(term: Metric) -> str:
        moving = f"time() - {_STILL_SECONDS} + 0 * ({_changes(term)} > 0)"
        over = f"max_over_time(({moving})[{span}:{step}])"
        # By `or` the power would hide the utilization of the same host.
        return f'label_replace({over}, "metric", "{term.names[0]}", "", "")'

    return form


def is_change_of_now(changed_at: float, now: float, seconds: float) -> bool:
    """Whether the last change in a span is as new as `last_change` can have it."""
    return now - changed_at <= _STILL_SECONDS + seconds / _STEPS


def _changes(term: Metric) -> str:
    return _max(term.host_by, f"changes({term.selector}[{_STILL_SECONDS}s])")


class Catalog(NamedTuple):
    """Which of the known metrics there are, and which labels they have."""

    names: frozenset[str]
    choices: Mapping[str, LabelChoice] = {}
    """By dialect, of those of which there are series."""
    jobs: frozenset[str] = frozenset()
    """The values of the label `job` of all exporters."""
    recorded: Mapping[str, str] = {}
    """What metrics are called by recording rules of the server, where they have another name."""

    @property
    def selector(self) -> str:
        """Everything that is understood."""
        return "{" + matcher("__name__", map(self.name_of, known_series())) + "}"

    def name_of(self, metric: str) -> str:
        """Return what the server calls a metric of an exporter."""
        return self.recorded.get(metric, metric)

    def identity(self) -> Iterator[Metric]:
        """Yield a series a device that has all of its labels."""
        for dialect in dialects():
            if main := self._main(dialect):
                yield from (*main, *self._terms(dialect, IDENTITY))

    def past(self) -> Iterator[Metric]:
        """Yield the same of dialects that there are, with the labels that say what a device is."""
        for dialect in self._chosen():
            choice = self.choices[dialect.name]
            more = (dialect.uuid_label, dialect.model_label, dialect.index_label, choice.group)
            labels = (*filter(None, more), *PERSON_LABELS, "GPU_I_PROFILE", "instance")
            for term in (*self._main(dialect), *self._terms(dialect, IDENTITY)):
                known = dict.fromkeys((*term.by.split(", "), *labels))
                yield term._replace(identified_by=", ".join(known))

    def main(self) -> Iterator[Metric]:
        """Yield the utilization of each device; where there is none, what shows that it exists."""
        for dialect in self._chosen():
            has_instances = self.choices[dialect.name].has_instances
            # Where none matches it, the term would cost as much as half of the rest.
            for term in self._main(dialect):
                if has_instances or term.matcher != _INSTANCES:
                    yield term

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
                term = self._term(dialect, each.name)
                yield term._replace(bound=bound, condition=f" and ({idle})")

    def used(self, hosts: Names, gpus: Collection[int]) -> Iterator[Metric]:
        """Yield what shows of few devices that they compute or are not held."""
        for dialect in self._chosen():
            memory = [
                self._term(dialect, each.name)._replace(bound=f">= {NOTABLE_BYTES / each.factor:g}")
                for each in self._present(dialect, MEMORY)
            ]
            bounded = [term for term in (*self._main(dialect), *memory) if term.bound]
            some = list(self.of_hosts(bounded, hosts, gpus))
            there = [_max(term.by, term.selector) for term in some]
            pairs = zip(there, some, strict=True)
            used = (f"{text} {_opposite(term.bound)}" for text, term in pairs)
            if there:
                yield Metric((), condition=" or ".join(used), bound=" or ".join(there))

    def uses(self) -> Iterator[tuple[Dialect, list[Metric], list[Metric]]]:
        """Yield what shows of devices that they compute, and with its factor that they are held."""
        for dialect in self._chosen():
            memory = self._present(dialect, MEMORY)
            terms = [self._term(dialect, each.name)._replace(factor=each.factor) for each in memory]
            yield dialect, self._main(dialect), terms

    def xids(self, seconds: float) -> Iterator[Metric]:
        """Yield last XID errors that are not 0, and the times of those of a span."""
        for term in self.field(XIDS):
            yield term._replace(condition=" != 0")
        for term in self.field(DATED_XIDS):
            yield term._replace(
                by=f"{term.by}, {XID_LABEL}", condition=f" > time() - {seconds:.0f}"
            )

    def worn(self) -> Iterator[Metric]:
        """Yield whether devices have to be replaced, of those alone that have."""
        for term in self.field(WORN):
            yield term._replace(condition=" > 0")

    def users(self) -> Iterator[Metric]:
        """Yield whose processes are on which device."""
        for dialect in self._chosen():
            for term in self._terms(dialect, USERS):
                yield term._replace(by=f"{term.by}, {dialect.user_label}")

    def targets(self, instances: Collection[str]) -> Iterator[Metric]:
        """Yield exporters that cannot be scraped, and of these instances those that can."""
        for term in self.exporters():
            yield term._replace(condition=" == 0")
            if instances:
                own = f"{term.matcher}, {matcher('instance', instances)}"
                yield term._replace(matcher=own, condition=" == 1")

    def exporters(self) -> Iterator[Metric]:
        """Yield all exporters."""
        if self.jobs:
            yield Metric(("up",), matcher=matcher("job", sorted(self.jobs)))

    @staticmethod
    def of_hosts(
        terms: Iterable[Metric], hosts: Names, gpus: Collection[int] = ()
    ) -> Iterator[Metric]:
        """Yield terms that ask for these hosts only, one for each label that names some.

        Where GPUs have a label with their index, for those with these, if there are some.
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
        """Ask for a field of each device, or of each host on average; without hosts, of all.

        `percent` are hosts whose ratios are percentages, `is_single` that no device has two series.
        """
        texts, plain = list[str](), list[str]()
        fields = (field, ENGINE) if field == UTILIZATION else (field,)
        for dialect in self._chosen():
            for each in (each for name in fields for each in self._present(dialect, name)):
                whole = [self._term(dialect, each.name)]
                terms = [(each.factor, self.of_hosts(whole, hosts) if hosts else whole)]
                if each.is_ratio:
                    # Before the others, which have these hosts too.
                    terms.insert(0, (1.0, self.of_hosts(whole, percent)))
                for factor, term in ((factor, term) for factor, some in terms for term in some):
                    times = "" if factor == 1 else f" * {factor:.17g}"
                    text = _max(term.by, term.selector) + times
                    is_mean = hosts and not by_device
                    texts.append(f"avg by ({term.host_by}) ({text})" if is_mean else text)
                    plain.append(term.selector + times)
        texts = plain if is_single and not hosts and len(plain) == 1 else texts
        return _or(texts) if hosts or not texts else f"avg({_or(texts)})"

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
        names = tuple(map(self.name_of, names))
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


def _opposite(bound: str) -> str:
    return bound.replace("<", ">=") if bound.startswith("<") else bound.replace(">=", "<")


def _max(by: str, selector: str) -> str:
    return f"max by ({by}) ({selector})"


def _over(function: str, by: str, selector: str, span: str, step: str) -> str:
    """Return a function over the time of a series; with a step by a cheaper subquery."""
    if step:
        return f"{function}_over_time(({_max(by, selector)})[{span}:{step}])"
    return f"{function} by ({by}) ({function}_over_time({selector}[{span}]))"


def _or(texts: Iterable[str]) -> str | None:
    return " or ".join(filter(None, texts)) or None
