"""The load of simulated programs over time, and identities of simulated things.

A load changes every second and repeats after some minutes, so that every instant can be computed on
its own, and counters from the sums of its seconds.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from math import sin, tau
from typing import NamedTuple

from gpudash.model.text import dashed

_MASK = (1 << 64) - 1


def mix(*keys: int) -> int:
    """Return 64 well-mixed bits of the keys (splitmix64's finalizer, chained)."""
    state = 0x9E3779B97F4A7C15
    for key in keys:
        state = ((state ^ key) + 0x9E3779B97F4A7C15) & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def unit(*keys: int) -> float:
    """Return a number from 0 to 1, excluding 1."""
    return (mix(*keys) >> 11) / (1 << 53)


def key(text: str) -> int:
    """Return a text as a key for the other functions."""
    return int.from_bytes(text.encode(), "little")


def digits(length: int, *keys: int) -> str:
    """Return this many hexadecimal digits."""
    words = (f"{mix(*keys, part):016x}" for part in range(-(-length // 16)))
    return "".join(words)[:length]


def uuid(*keys: int) -> str:
    """Return an identifier in the form of a UUID, without NVML's `GPU-` prefix."""
    return dashed(digits(32, *keys))


PERIOD = 300
"""Seconds after which every load repeats."""
_DIP_SECONDS = 14
_WAVE = [
    0.65 * sin(5 * tau * second / PERIOD) + 0.35 * sin(13 * tau * second / PERIOD)
    for second in range(PERIOD)
]


def wave(now: float) -> float:
    """Return a number from -1 to 1 that changes every second."""
    return _WAVE[int(now) % PERIOD]


class Rhythm(NamedTuple):
    """Utilization in percent: `level` ± `swing`, less `dip` for a while every five minutes."""

    level: int = 0
    swing: int = 0
    dip: int = 0


IDLE = Rhythm()
"""Never busy."""


@cache
def _seconds(rhythm: Rhythm) -> tuple[list[float], list[float]]:
    """Return the utilization in each second of a period, and the sums up to each."""
    level, swing, dip = rhythm
    values = [level + swing * each for each in _WAVE]
    values[:_DIP_SECONDS] = [value - dip for value in values[:_DIP_SECONDS]]
    return values, list(accumulate(values, initial=0.0))


class Course:
    """A rhythm with a phase, so that two programs do not move in step."""

    __slots__ = ("_phase", "_sums", "_values")

    def __init__(self, rhythm: Rhythm, phase: int) -> None:
        self._values, self._sums = _seconds(rhythm)
        self._phase = phase % PERIOD

    def total(self, start: float, end: float) -> float:
        """Return percent times seconds between two instants."""
        return self._until(end) - self._until(start)

    def _until(self, now: float) -> float:
        periods, rest = divmod(now + self._phase, PERIOD)
        second = int(rest)
        part = self._values[second] * (rest - second)
        return periods * self._sums[-1] + self._sums[second] + part
