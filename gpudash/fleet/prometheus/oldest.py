"""How far the past of a Prometheus reaches."""

from __future__ import annotations

from math import inf

from gpudash.fleet.prometheus.dialects import ENGINE, MEMORY, UTILIZATION, dialects
from gpudash.fleet.prometheus.past import MIN_STEP, RANGE, Ask
from gpudash.fleet.prometheus.workers import MATRIX

_LOOKS = 60
"""How often a span is looked at for the first data in it."""


def oldest(ask: Ask, since: float, until: float) -> float:
    """Return from when on there are GPUs in a span, infinity for never; raises PrometheusError."""
    fields = (UTILIZATION, ENGINE, MEMORY)
    names = (each.name for dialect in dialects() for field in fields for each in dialect.of(field))
    expression = f'count({{__name__=~"{"|".join(names)}"}})'
    while True:
        step = max(15.0, (until - since) / _LOOKS)
        span = [("start", f"{since:.0f}"), ("end", f"{until:.0f}"), ("step", f"{step:.0f}")]
        rows = ask(RANGE, [("query", expression), *span], MATRIX).result
        found = (each.values[0][0] for each in rows if each.values)
        first = min((at for at in found if since - step <= at <= until + step), default=inf)
        if first == inf or step <= MIN_STEP:
            return float(first)
        since, until = max(since, first - step), first
