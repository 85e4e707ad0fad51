"""What is asked of a server: metrics as terms, and terms as PromQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpudash.fleet.prometheus.dialects import (
    CLUSTER_LABELS,
    XID_LABEL,
)

SCRAPED_SECONDS, _LAST_PART, _FIRST_PART = 1200.0, 4, 20
_STILL_SECONDS = 600
_GLANCES, _STEPS = (1 / 96, 1 / 24, 1 / 8, 3 / 8, 0.98), 1440
"""Instants of a look back at all devices, as parts of its span, and how many at few of them.

Of a day a quarter of an hour, 1, 3, 9 and 23.5 hours ago, and minutes. The first is for hosts that
are new, the last within a past of just that span.
"""
FIRST_LABEL = "first"
FOUND_LABEL = "found"
"""The label of which of the things that are found a series is about."""
HOST_MARK = "host_went"
"""The label of how often a host went away, and none of its devices."""
_MAX_EXACT_SECONDS = 86400
"""Of a span of which the time of a sample is asked for, not that of a step."""
_PARTS = (*(f'=~".*{digit}"' for digit in range(8)), '!~".*[0-7]"')
"""What distinguishes some devices from the others: how their index, or UUID, ends."""
_SEEN_SECONDS = 300
"""How long a series is seen after its last sample."""


class Metric(NamedTuple):
    """One metric of an exporter, of which each device has a value."""

    names: tuple[str, ...]
    """More than one stand for their sum."""
    by: str = ""
    """Labels that distinguish devices."""
    past_by: str = ""
    """Labels that distinguish them over time, in which an index may pass to another."""
    host_by: str = ""
    """Labels that distinguish their hosts."""
    matcher: str = ""
    """Which of its series count: of an exporter itself, those of MIG instances."""
    identified_by: str = ""
    """Labels that say what a device is, those that distinguish it among them."""
    condition: str = ""
    """Which of its values count."""
    without: tuple[Metric, ...] = ()
    """Terms whose devices do not count, as the condition says."""
    bound: str = ""
    """What holds of a value while the device idles, or is held; empty where none says so."""
    factor: float = 1.0
    """From its value to the field's."""
    is_ratio: bool = False
    """Whether some hosts have a percentage under this name."""

    @property
    def selector(self) -> str:
        """All of its series."""
        return self.series_of(self.names[0])

    @property
    def past_value(self) -> str:
        """One value of each device, over time."""
        return max_by(self.past_by, self.selector)

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
        return max_by(f"__name__, {term.by}", term.selector + term.condition)
    sums = (max_by(term.by, term.series_of(name)) for name in term.names)
    return f"({' + '.join(sums)}) * {term.factor:.17g}"


def lasting(span: str, step: str = "") -> Form:
    """Ask for devices whose bound has held for a span such as `5m`, looked at in steps."""

    def form(term: Metric) -> str:
        if not term.bound:
            return ""
        function = "max" if term.bound.startswith("<") else "min"
        over = _over(function, term.past_by, term.selector, span, step)
        # A span that is shorter proves nothing about all of it.
        past = max_by(term.past_by, f"{term.selector} offset {span}")
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
                f"unless on ({term.past_by}) {term.selector})"
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
        return f"max_over_time(({max_by(term.past_by, moment)})[{window:.0f}s:{step}]{offset})"

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
        other = f"max_over_time((time() + 0 * ({term.past_value} != {term.bound}))[{span}:{step}])"
        first = f"min_over_time((time() + 0 * {term.past_value})[{span}:{step}])"
        marked = f'label_replace({first}, "{FIRST_LABEL}", "1", "", "")'
        both = f"{other} or on ({term.past_by}) {marked}"
        return f'label_replace({both}, "{XID_LABEL}", "{term.bound}", "", "")'

    return form


def _span(seconds: float, steps: int) -> tuple[str, str]:
    return f"{seconds:.0f}s", f"{seconds / steps:.0f}s"


def last_outside(seconds: float, *, is_coarse: bool = False) -> Form:
    """Ask for the last time in a span at which a value was outside of its bounds.

    And for that of its first sample, marked by `FIRST_LABEL`: what was before is not known.
    Of more devices at once a fifth of the steps is looked at.
    """
    span, step = _span(seconds, _STEPS // 5 if is_coarse else _STEPS)

    def form(term: Metric) -> str:
        outside, there = (
            f"{function}_over_time((time() + 0 * ({text}))[{span}:{step}])"
            for function, text in (("max", term.condition), ("min", term.bound))
        )
        return f'({outside} or label_replace({there}, "{FIRST_LABEL}", "1", "", ""))'

    return form


def ages(term: Metric) -> str:
    """Ask for the time of the newest sample of each host."""
    return max_by(term.host_by, f"timestamp({term.selector})")


def scrapes(term: Metric) -> str:
    """Ask how often the targets of each job were scraped in `SCRAPED_SECONDS`.

    Or would have been, had they been as often as in the first part of it, of a server that has
    just started, or as rarely as in the last.
    """
    by = ", ".join(("job", *CLUSTER_LABELS))
    whole, last, first = (
        max_by(by, f"count_over_time({term.selector}[{SCRAPED_SECONDS / parts:.0f}s])")
        for parts in (1, _LAST_PART, _FIRST_PART)
    )
    young = (
        f"{parts} * (({part} == {whole}) >= 2)"
        for parts, part in ((_FIRST_PART, first), (_LAST_PART, last))
    )
    return f"({' or '.join(young)} or {_LAST_PART} * {last} < {whole} or {whole})"


def frozen(term: Metric) -> str:
    """Ask for hosts of which a value has not changed at all in ten minutes."""
    past = max_by(term.host_by, f"{term.selector} offset {_STILL_SECONDS}s")
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
    return max_by(term.host_by, f"changes({term.selector}[{_STILL_SECONDS}s])")


def promql(terms: Iterable[Metric], form: Form) -> str | None:
    """Return terms as one query, None if there is nothing to ask."""
    return any_of(map(form, terms))


def matcher(label: str, values: Iterable[str]) -> str:
    """Return `label=~"a|b"` for exactly these values, whatever characters they have."""
    texts = [_quoted(_literal(value)) for value in values]
    return f'{label}=~"{"|".join(texts)}"'


def _literal(text: str) -> str:
    """Return text as a regular expression of RE2 that matches nothing else."""
    return "".join(f"\\{char}" if char in "\\.+*?()|[]{}^$" else char for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def max_by(by: str, selector: str) -> str:
    """Return PromQL for one value of all series that have these labels in common."""
    return f"max by ({by}) ({selector})"


def _over(function: str, by: str, selector: str, span: str, step: str) -> str:
    """Return a function over the time of a series; with a step by a cheaper subquery."""
    if step:
        return f"{function}_over_time(({max_by(by, selector)})[{span}:{step}])"
    return f"{function} by ({by}) ({function}_over_time({selector}[{span}]))"


def any_of(texts: Iterable[str]) -> str | None:
    """Return PromQL for all series of several expressions, None for none."""
    return " or ".join(filter(None, texts)) or None
