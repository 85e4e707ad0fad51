"""How busy a made-up program is over time: two sine waves and a pulse train.

Their integral has a closed form, so that counters and temperatures need no memory of the past and
every instant can be computed on its own.
"""

from __future__ import annotations

from math import cos, floor, pi, tau

from msgspec import Struct

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
    """Return a number from 0 up to, but without, 1."""
    return (mix(*keys) >> 11) / (1 << 53)


def wobble(*keys: int) -> float:
    """Return a number from -1 up to, but without, 1, zero on average."""
    return 2 * unit(*keys) - 1


def key(text: str) -> int:
    """Return a text as a key for the other functions."""
    return int.from_bytes(text.encode(), "little")


def digits(length: int, *keys: int) -> str:
    """Return that many hexadecimal digits."""
    words = (f"{mix(*keys, part):016x}" for part in range(-(-length // 16)))
    return "".join(words)[:length]


def uuid(*keys: int) -> str:
    """Return something in the form of a UUID, without NVML's `GPU-` in front."""
    raw = digits(32, *keys)
    return "-".join((raw[:8], raw[8:12], raw[12:16], raw[16:20], raw[20:]))


_SLOW, _FAST, _RATIO = 0.65, 0.35, 0.377


class Rhythm(Struct, frozen=True, kw_only=True):
    """Utilization in percent: `level` ± `swing`, changed by `pulse` for a while in every cycle.

    `level - swing + pulse` and `level + swing + pulse` must stay within 0 and 100.
    """

    level: float = 0.0
    swing: float = 0.0
    period: float = 47.0
    pulse: float = 0.0
    every: float = 300.0
    lasting: float = 12.0

    @property
    def lowest(self) -> float:
        """The least it can be."""
        return self.level - self.swing + min(0.0, self.pulse)

    @property
    def highest(self) -> float:
        """The most it can be."""
        return self.level + self.swing + max(0.0, self.pulse)


IDLE = Rhythm()
"""Never busy."""


class Signal:
    """A rhythm with its phases fixed by a seed, so that two programs do not move in step."""

    __slots__ = ("_offset", "_rhythm", "_waves")

    def __init__(self, rhythm: Rhythm, seed: int) -> None:
        self._rhythm = rhythm
        self._waves = tuple(
            (rhythm.swing * share, tau / (rhythm.period * stretch), tau * unit(seed, number))
            for number, (share, stretch) in enumerate(((_SLOW, 1.0), (_FAST, _RATIO)))
            if rhythm.swing
        )
        self._offset = rhythm.every * unit(seed, 2)

    def value(self, now: float) -> float:
        """Return the utilization in percent at an instant."""
        total = self._rhythm.level
        for amplitude, speed, phase in self._waves:
            total += amplitude * cos(speed * now + phase)
        if self._rhythm.pulse and self._position(now)[1] < self._rhythm.lasting:
            total += self._rhythm.pulse
        return total

    def integral(self, start: float, end: float) -> float:
        """Return percent times seconds between two instants."""
        return self._antiderivative(end) - self._antiderivative(start)

    def _position(self, now: float) -> tuple[int, float]:
        """Return (cycles done, seconds into this one) of the pulse train."""
        cycles = floor((now + self._offset) / self._rhythm.every)
        return cycles, now + self._offset - cycles * self._rhythm.every

    def _antiderivative(self, now: float) -> float:
        total = self._rhythm.level * now
        for amplitude, speed, phase in self._waves:
            total += amplitude / speed * cos(speed * now + phase - pi / 2)
        if self._rhythm.pulse:
            cycles, seconds = self._position(now)
            lasting = self._rhythm.lasting
            total += self._rhythm.pulse * (cycles * lasting + min(seconds, lasting))
        return total
