"""Counters that only rise, told as how fast they rise between two readings of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from gpudash.collect.nvml.answers import FieldAnswer

_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_HELD_SECONDS = 3.0
"""Drivers count anew twice a second or so: one that has not for longer tells nothing of now."""

Slope = Callable[[FieldAnswer, FieldAnswer], float | None]
"""Counts per second from one reading to another, None where they do not tell."""


def slope(before: FieldAnswer, after: FieldAnswer) -> float | None:
    """Return the slope of a counter that only rises."""
    counts, microseconds = after.value - before.value, after.timestamp_us - before.timestamp_us
    return None if counts < 0 or microseconds < 0 else counts * 1e6 / microseconds


class _Known(NamedTuple):
    """The last reading with a time of its own, its slope, and when it was first seen."""

    answer: FieldAnswer
    slope: float | None
    since: float


class Slopes:
    """Counters by any key, from reading to reading; none of them ever falls.

    The time is each counter's own. One that fell back was started anew: its interval is dropped.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}

    def per_second(
        self, key: Hashable, answer: FieldAnswer | None, now: float, between: Slope = slope
    ) -> float | None:
        """Return counts per second since the reading before; None in a first one or for nothing.

        A driver that has not counted anew, which its time tells, has the slope of before, but not
        for long: `now` is the time of whoever reads, in seconds.
        """
        if answer is None or answer.value in _UNKNOWN:
            self._known.pop(key, None)
            return None
        known = self._known.get(key)
        if known is not None and known.answer.timestamp_us == answer.timestamp_us:
            return known.slope if now - known.since <= _HELD_SECONDS else None
        rate = None if known is None else between(known.answer, answer)
        self._known[key] = _Known(answer, rate, now)
        return rate
