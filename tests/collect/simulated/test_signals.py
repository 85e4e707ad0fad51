import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.simulated.signals import Course, Rhythm

DIPPING = Rhythm(60, 10, dip=40)


def seconds(signal: Course, start: int, count: int) -> list[float]:
    return [signal.total(second, second + 1) for second in range(start, start + count)]


@given(st.integers(0, 10**9), st.integers(0, 2**32))
def test_load_stays_within_swing_and_dip(start, phase):
    loads = seconds(Course(DIPPING, phase), start, 300)
    assert 60 - 10 - 40 <= min(loads) < max(loads) <= 60 + 10


@given(st.integers(0, 10**6), st.integers(0, 2**32))
def test_total_is_the_sum_of_its_parts(start, phase):
    signal = Course(DIPPING, phase)
    parts = seconds(signal, start, 400)
    assert signal.total(start, start + 400) == pytest.approx(sum(parts))
    assert signal.total(start, start + 0.25) == pytest.approx(parts[0] / 4, rel=1e-3)


def test_two_phases_are_out_of_step():
    assert seconds(Course(DIPPING, 1), 0, 20) != seconds(Course(DIPPING, 2), 0, 20)
