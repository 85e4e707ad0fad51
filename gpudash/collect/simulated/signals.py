"""How busy a made-up program is over time: two sine waves and a pulse train.

Their integral and their answer through a thermal lag have closed forms, so that counters and
temperatures need no memory of the past and every instant can be computed on its own.
"""

from __future__ import annotations

from math import cos, exp, floor, pi, tau

from msgspec import Struct

from gpudash.collect.simulated.noise import unit

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

    def lagged(self, now: float, lag: float) -> float:
        """Return the utilization as a body sees it that follows with a lag of so many seconds."""
        total = self._rhythm.level
        for amplitude, speed, phase in self._waves:
            inertia = speed * lag
            total += (
                amplitude
                * (cos(speed * now + phase) + inertia * cos(speed * now + phase - pi / 2))
                / (1 + inertia * inertia)
            )
        return total + (self._lagged_pulse(now, lag) if self._rhythm.pulse else 0.0)

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

    def _lagged_pulse(self, now: float, lag: float) -> float:
        """Return the periodic answer of a first-order lag to the pulse train."""
        rhythm = self._rhythm
        _, seconds = self._position(now)
        peak = (1 - exp(-rhythm.lasting / lag)) / (1 - exp(-rhythm.every / lag))
        if seconds >= rhythm.lasting:
            return rhythm.pulse * peak * exp((rhythm.lasting - seconds) / lag)
        start = peak * exp((rhythm.lasting - rhythm.every) / lag)
        return rhythm.pulse * (1 - (1 - start) * exp(-seconds / lag))
