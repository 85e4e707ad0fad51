"""The two axes of a chart: which values and instants are named, and how."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, log
from typing import NamedTuple

from gpudash.model.units import Unit, short, span

_BYTES = frozenset({Unit.BYTE, Unit.BYTE_PER_SECOND})
_DECIMAL_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_NEAR = 0.6
"""How much of a step the top must be above the last round value to be named as well."""
_FINER = 4
"""Steps, of those between two named values, to which the ends of a tight scale are rounded."""
_TIME_STEPS = (1, 5, 10, 15, 30, 60, 120, 300, 600)
_TIME_CELLS, _MINUTE = 10, 60


class Scale(NamedTuple):
    """The values from bottom to top, some of them named."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Return how high a value stands, 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def scaled(low: float, high: float, unit: Unit, count: int) -> Scale:
    """Return a scale from `low` to exactly `high` with about `count` round values named."""
    if not high > low:
        high = low + 1
    step = _step((high - low) / max(1, count), unit)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    values = [number * step for number in range(first, last + 1)]
    if not values or high - values[-1] > _NEAR * step:
        values.append(high)
    return Scale(low, high, tuple((value, short(value, unit)) for value in values))


def tight(values: Iterable[float], unit: Unit, count: int) -> Scale:
    """Return the scale between round values that holds all `values` and wastes little."""
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    margin = (high - low) / 20 or abs(high) / 20 or 1.0
    step = _step((high - low + 2 * margin) / (_FINER * max(1, count)), unit)
    bottom = floor((low - margin) / step) * step
    return scaled(
        max(0.0, bottom) if low >= 0 else bottom, ceil((high + margin) / step) * step, unit, count
    )


def instants(seconds: float, cells: int, now: str) -> list[tuple[float, str]]:
    """Return the instants named below a chart as (share of its width, text), the last is `now`."""
    room = max(1, cells // _TIME_CELLS)
    least = _MINUTE if seconds > 2 * _MINUTE else 1
    steps = (step for step in _TIME_STEPS if step >= least and seconds / step <= room)
    step = next(steps, seconds)
    count = int(seconds / step + 1e-9)
    named = [
        (1 - number * step / seconds, f"-{span(number * step)}") for number in range(1, count + 1)
    ]
    return [*reversed(named), (1.0, now)]


def _step(least: float, unit: Unit) -> float:
    """Return the next round step: 1, 2, 2.5 or 5 of a power of ten, powers of two for bytes."""
    if least <= 0:
        return 1.0
    if unit in _BYTES:
        return max(1.0, 2.0 ** ceil(log(least, 2) - 1e-9))
    power = 10.0 ** floor(log(least, 10))
    return next(step * power for step in _DECIMAL_STEPS if step * power >= least * (1 - 1e-9))
