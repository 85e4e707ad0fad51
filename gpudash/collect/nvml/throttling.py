"""For what share of the time each reason held the clocks, from counters of nanoseconds.

The mask of event reasons says what holds them at one instant; a cap that comes and goes between
two ticks shows only here.
"""

from __future__ import annotations

from gpudash.collect.nvml.answers import FieldAnswers, Scoped
from gpudash.collect.nvml.paces import STEADY_SECONDS, Pace
from gpudash.collect.nvml.slopes import Slopes

REASONS = {
    74: "throttled_sw_power_cap_percent",
    75: "throttled_thermal_percent",
    76: "throttled_sync_boost_percent",
    77: "throttled_board_limit_percent",
    269: "throttled_sw_thermal_percent",
    270: "throttled_hw_thermal_percent",
    271: "throttled_hw_power_brake_percent",
}
"""NVML_FI_DEV_PERF_POLICY_* and NVML_FI_DEV_CLOCKS_EVENT_REASON_*, and the fields they fill."""

_NANOSECONDS_PER_PERCENT = 1e7
_MOST_PERCENT = 150.0
"""A counter is renewed in steps, so that a share may exceed 100 a little; further is garbage."""


class Throttling:
    """The counters of one GPU, each asked until the driver refuses it."""

    def __init__(self) -> None:
        self._pace = Pace(STEADY_SECONDS)
        self._left = dict(REASONS)
        self._slopes = Slopes()
        self._asked: list[Scoped] = []

    def wanted(self, now: float) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        self._asked = [(number, 0) for number in self._left] if self._pace.is_due(now) else []
        return self._asked

    def facts(self, answers: FieldAnswers, now: float) -> dict[str, float | None]:
        """Return the shares of the last interval in percent, nothing while they were not due."""
        facts: dict[str, float | None] = {}
        for scope in self._asked:
            slope = self._slopes.per_second(scope, answers.values.get(scope), now)
            facts[REASONS[scope[0]]] = _percent(slope)
            if scope in answers.refused:
                del self._left[scope[0]]
        return facts


def _percent(nanoseconds_per_second: float | None) -> float | None:
    if nanoseconds_per_second is None:
        return None
    share = nanoseconds_per_second / _NANOSECONDS_PER_PERCENT
    return min(100.0, round(share, 1)) if share <= _MOST_PERCENT else None
