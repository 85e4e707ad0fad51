from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.nvml.library import FieldAnswer
from gpudash.collect.nvml.rates import RateTracker

READINGS = st.lists(
    st.none()
    | st.builds(
        FieldAnswer,
        st.integers(0, 2**64 - 1) | st.sampled_from([0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF]),
        st.integers(0, 2**53),
    ),
    max_size=12,
)


@given(READINGS)
def test_no_reading_makes_a_negative_slope(readings: list[FieldAnswer | None]) -> None:
    slopes = RateTracker()
    told = [slopes.per_second("any", reading, now) for now, reading in enumerate(readings)]
    assert all(slope is None or slope >= 0 for slope in told)
    assert not told or told[0] is None


def test_each_counter_has_its_own_past() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    assert slopes.per_second("other", FieldAnswer(50, 1_000_000), 0.0) is None
    assert slopes.per_second("one", FieldAnswer(30, 2_000_000), 0.0) == 10


def test_a_gap_starts_anew() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    assert slopes.per_second("one", None, 0.0) is None
    assert slopes.per_second("one", FieldAnswer(30, 2_000_000), 0.0) is None


def test_a_counter_that_is_renewed_seldom_keeps_its_slope_for_a_moment() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    renewed = FieldAnswer(30, 1_000_000)
    assert [slopes.per_second("one", renewed, now) for now in (1.0, 2.0, 3.5)] == [20, 20, 20]


def test_a_counter_whose_time_stands_still_tells_nothing_of_now() -> None:
    slopes = RateTracker()
    slopes.per_second("one", FieldAnswer(10, 0), 0.0)
    standing = FieldAnswer(30, 1_000_000)
    slopes.per_second("one", standing, 1.0)
    assert [slopes.per_second("one", standing, now) for now in (4.5, 10.0, 3600.0)] == [None] * 3
    assert slopes.per_second("one", FieldAnswer(50, 11_000_000), 3601.0) == 2
