from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.simulated.signals import Rhythm, Signal

DIPPING = Rhythm(60, 10, dip=40)


@given(st.floats(0, 4e9), st.integers(0, 2**32))
def test_value_stays_within_swing_and_dip(now, phase):
    assert 60 - 10 - 40 <= Signal(DIPPING, phase).value(now) <= 60 + 10


@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_total_is_the_sum_of_the_seconds(start, phase):
    signal = Signal(DIPPING, phase)
    values = [signal.value(second) for second in range(start, start + 400)]
    assert signal.total(start, start + 400) == pytest.approx(sum(values))
    assert signal.total(start, start + 0.25) == pytest.approx(values[0] / 4, rel=1e-3)


def test_two_phases_are_out_of_step():
    one, other = Signal(DIPPING, 1), Signal(DIPPING, 2)
    assert [one.value(t) for t in range(20)] != [other.value(t) for t in range(20)]
