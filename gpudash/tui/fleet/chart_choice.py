"""What can be charted of the GPUs of a host: which metric, over which time."""

from __future__ import annotations

from typing import NamedTuple

METRICS = (
    "gpu_utilization_percent",
    "memory_used_bytes",
    "power_usage_mw",
    "temperature_celsius",
)
"""What is charted, in the order in which a key goes through it."""
SPANS = (3600.0, 86400.0, 7 * 86400.0)
"""How far a chart may reach back."""


class ChartChoice(NamedTuple):
    """What the chart of a host's GPUs shows."""

    metric: str = METRICS[0]
    span_seconds: float = SPANS[0]

    def next_metric(self, step: int) -> ChartChoice:
        """Return the same of a neighbouring metric."""
        index = METRICS.index(self.metric) + step
        return self._replace(metric=METRICS[index % len(METRICS)])

    def zoomed(self, step: int) -> ChartChoice:
        """Return the same over a longer or shorter time."""
        index = max(0, min(SPANS.index(self.span_seconds) + step, len(SPANS) - 1))
        return self._replace(span_seconds=SPANS[index])
