from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.simulated.signals import Rhythm, Signal

PULSED = Rhythm(level=60, swing=10, period=31, pulse=-40, every=200, lasting=15)
instants = st.floats(0, 4e9)
seeds = st.integers(0, 2**32)


def mean_of_steps(signal: Signal, start: float, end: float, steps: int) -> float:
    width = (end - start) / steps
    return sum(signal.value(start + width * (step + 0.5)) for step in range(steps)) / steps


@given(instants, seeds)
def test_value_stays_between_lowest_and_highest(now, seed):
    assert PULSED.lowest <= Signal(PULSED, seed).value(now) <= PULSED.highest


@given(st.floats(0, 1e6), seeds)
def test_integral_is_the_area_under_the_value(start, seed):
    signal = Signal(PULSED, seed)
    area = mean_of_steps(signal, start, start + 400, 8000) * 400
    assert signal.integral(start, start + 400) == pytest.approx(area, rel=0.002)


def test_two_seeds_are_out_of_step():
    one, other = Signal(PULSED, 1), Signal(PULSED, 2)
    assert [one.value(t) for t in range(20)] != [other.value(t) for t in range(20)]
