"""The queries for a server: metrics as terms, and terms as PromQL."""

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
"""Instants of a look back at all devices, as parts of its span, and their number at a few devices.

Of a day: a quarter of an hour, 1, 3, 9 and 23.5 hours ago, and every minute. The first is for new
hosts, the last for a past of just that span.
"""
FIRST_LABEL = "first"
FOUND_LABEL = "found"
"""The label that says which finding a series is about."""
HOST_MARK = "host_went"
"""The label of how often a host went away, rather than one of its devices."""
_MAX_EXACT_SECONDS = 86400
"""Longest span in which to query the exact time of a sample, rather than that of a step."""
_PARTS = (*(f'=~".*{digit}"' for digit in range(8)), '!~".*[0-7]"')
"""Splits devices into parts by the end of their index or UUID."""
_SEEN_SECONDS = 300
"""How long a series is visible after its last sample."""


class Metric(NamedTuple):
    """One metric of an exporter, with a value for each device."""

    names: tuple[str, ...]
    """The value is the sum of these metrics."""
    by: str = ""
    """Labels that distinguish devices."""
    past_by: str = ""
    """Labels that distinguish devices over time, as an index may pass to another device."""
    host_by: str = ""
    """Labels that distinguish their hosts."""
    matcher: str = ""
    """Selects the series that count: those of MIG instances, for example."""
    identified_by: str = ""
    """Labels that identify a device, including those that distinguish it."""
    condition: str = ""
    """Selects the values that count."""
    without: tuple[Metric, ...] = ()
    """Terms whose devices are left out, as the condition says."""
    bound: str = ""
    """What holds of a value while the device idles, or is held; empty if it does not show that."""
    factor: float = 1.0
    """Multiplies its value to give the field's."""
    is_ratio: bool = False
    """Whether some hosts report a percentage under this name."""

    @property
    def selector(self) -> str:
        """All of its series."""
        return self.series_of(self.names[0])

    @property
    def past_value(self) -> str:
        """One value of each device, over time."""
        return max_by(self.past_by, self.selector)

    def series_of(self, name: str) -> str:
        """Return the selector of these series under one of its names."""
        return name + (f"{{{self.matcher}}}" if self.matcher else "")

    def parts(self) -> list[Metric]:
        """Return the term in parts, each with different devices."""
        device = self.by.split(", ")[-2]
        known = [self.matcher] if self.matcher else []
        return [self._replace(matcher=", ".join([*known, device + each])) for each in _PARTS]


Form = Callable[[Metric], str]
"""Returns a term in PromQL, empty for nothing to query."""


def series(term: Metric) -> str:
    """Query series with all of their labels."""
    return term.selector + term.condition


def value(term: Metric) -> str:
    """Query one value per device: time slicing and several jobs give it several series."""
    if len(term.names) == 1:
        return max_by(f"__name__, {term.by}", term.selector + term.condition)
    sums = (max_by(term.by, term.series_of(name)) for name in term.names)
    return f"({' + '.join(sums)}) * {term.factor:.17g}"


def lasting(span: str, step: str = "") -> Form:
    """Query devices whose bound has held for a span such as `5m`, sampled at steps."""

    def form(term: Metric) -> str:
        if not term.bound:
            return ""
        function = "max" if term.bound.startswith("<") else "min"
        over = _over(function, term.past_by, term.selector, span, step)
        # A series younger than the span proves nothing about all of it.
        past = max_by(term.past_by, f"{term.selector} offset {span}")
        return f"({over} {term.bound}{term.condition} and {past} {term.bound})"

    return form


def gone(seconds: float) -> tuple[Form, ...]:
    """Query devices that are gone, with about when they were last there.

    A few instants are checked, as the server would read all samples of a span. Each is a separate
    query, the newest first: together they would take longer than servers allow.
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
    """Query the time of the newest sample of a few devices, after the glance that last saw them.

    In a long span, query the last step with a sample: a `timestamp` at each step makes some
    servers read all samples up to it.
    """
    glances, (_, step) = (0.0, *_glances(seconds)), _span(seconds, _STEPS)

    def form(term: Metric) -> str:
        newer, older = glances[int(term.bound) : int(term.bound) + 2]
        end = max(0.0, newer - _SEEN_SECONDS)
        window = older - end + _SEEN_SECONDS
        is_long = window > _MAX_EXACT_SECONDS
        moment = f"time() + 0 * {term.selector}" if is_long else f"timestamp({term.selector})"
        # Not every server accepts an offset of 0.
        offset = f" offset {end:.0f}s" if end else ""
        return f"max_over_time(({max_by(term.past_by, moment)})[{window:.0f}s:{step}]{offset})"

    return form


def glance_of(age: float, seconds: float) -> int:
    """Return the number of the glance that last saw a device, by its age; the newest is 0."""
    return max(0, sum(ago <= age for ago in _glances(seconds)) - 1)


def _glances(seconds: float) -> tuple[float, ...]:
    return tuple(part * seconds for part in _GLANCES)


def last_unlike(seconds: float) -> Form:
    """Query the last time in a span at which each device had another value than now.

    If there was none, query the time of its first sample, marked by `FIRST_LABEL`.
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
    """Query the last time in a span at which a value was outside its bounds.

    Also query that of its first sample, marked by `FIRST_LABEL`: nothing is known before it.
    For many devices at once, only a fifth of the steps is read.
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
    """Query the time of the newest sample of each host."""
    return max_by(term.host_by, f"timestamp({term.selector})")


def scrapes(term: Metric) -> str:
    """Query how often the targets of each job were scraped in `SCRAPED_SECONDS`.

    If only the last minutes have samples, as of a server that has just started, extrapolate from
    these; if the last quarter has less than its share, from that.
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
    """Query hosts with a value that has not changed at all in ten minutes."""
    past = max_by(term.host_by, f"{term.selector} offset {_STILL_SECONDS}s")
    return f"({_changes(term)} == 0 and {past} > 0)"


def last_change(seconds: float) -> Form:
    """Query the last time in a span at which a value of each host changed."""
    span, step = _span(seconds, _STEPS)

    def form(term: Metric) -> str:
        moving = f"time() - {_STILL_SECONDS} + 0 * ({_changes(term)} > 0)"
        over = f"max_over_time(({moving})[{span}:{step}])"
        # With `or` alone, the power would hide the utilization of the same host.
        return f'label_replace({over}, "metric", "{term.names[0]}", "", "")'

    return form


def is_change_of_now(changed_at: float, now: float, seconds: float) -> bool:
    """Whether the last change in a span is as recent as `last_change` can return."""
    return now - changed_at <= _STILL_SECONDS + seconds / _STEPS


def _changes(term: Metric) -> str:
    return max_by(term.host_by, f"changes({term.selector}[{_STILL_SECONDS}s])")


def promql(terms: Iterable[Metric], form: Form) -> str | None:
    """Return terms as one query, None if there is nothing to query."""
    return any_of(map(form, terms))


def matcher(label: str, values: Iterable[str]) -> str:
    """Return `label=~"a|b"` for exactly these values, whatever characters they contain."""
    texts = [_quoted(_literal(value)) for value in values]
    return f'{label}=~"{"|".join(texts)}"'


def _literal(text: str) -> str:
    """Return an RE2 regular expression that matches exactly this text."""
    return "".join(f"\\{char}" if char in "\\.+*?()|[]{}^$" else char for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def max_by(by: str, selector: str) -> str:
    """Return PromQL for one value for all series that share these labels."""
    return f"max by ({by}) ({selector})"


def _over(function: str, by: str, selector: str, span: str, step: str) -> str:
    """Return a function over the time of a series; with a step, by a cheaper subquery."""
    if step:
        return f"{function}_over_time(({max_by(by, selector)})[{span}:{step}])"
    return f"{function} by ({by}) ({function}_over_time({selector}[{span}]))"


def any_of(texts: Iterable[str]) -> str | None:
    """Return PromQL for the union of several expressions, None for none."""
    return " or ".join(filter(None, texts)) or None
