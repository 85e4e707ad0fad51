"""Counters that only rise, told as how fast they rise between two readings of each."""

from __future__ import annotations

from collections.abc import Hashable

from gpudash.sources.nvml.answers import FieldAnswer

_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


class Slopes:
    """Counters by any key, from reading to reading; none of them ever falls.

    The time is each counter's own. One that fell back was started anew: its interval is dropped.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, FieldAnswer] = {}
        self._slopes: dict[Hashable, float | None] = {}

    def per_second(self, key: Hashable, answer: FieldAnswer | None) -> float | None:
        """Return counts per second since the reading before; None in a first one or for nothing.

        A driver that has not counted anew, which its time tells, has the slope of before.
        """
        if answer is None or answer.value in _UNKNOWN:
            self._before.pop(key, None)
            return None
        before = self._before.get(key)
        if before is not None and before.timestamp_us == answer.timestamp_us:
            return self._slopes.get(key)
        self._before[key] = answer
        self._slopes[key] = None if before is None else _slope(before, answer)
        return self._slopes[key]


def _slope(before: FieldAnswer, after: FieldAnswer) -> float | None:
    counts, microseconds = after.value - before.value, after.timestamp_us - before.timestamp_us
    return None if counts < 0 or microseconds < 0 else counts * 1e6 / microseconds
