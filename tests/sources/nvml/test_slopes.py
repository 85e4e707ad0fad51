from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpudash.sources.nvml.answers import FieldAnswer
from gpudash.sources.nvml.slopes import Slopes

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
    slopes = Slopes()
    told = [slopes.per_second("any", reading) for reading in readings]
    assert all(slope is None or slope >= 0 for slope in told)
    assert not told or told[0] is None


def test_each_counter_has_its_own_past() -> None:
    slopes = Slopes()
    slopes.per_second("one", FieldAnswer(10, 0))
    assert slopes.per_second("other", FieldAnswer(50, 1_000_000)) is None
    assert slopes.per_second("one", FieldAnswer(30, 2_000_000)) == 10


def test_a_gap_starts_anew() -> None:
    slopes = Slopes()
    slopes.per_second("one", FieldAnswer(10, 0))
    assert slopes.per_second("one", None) is None
    assert slopes.per_second("one", FieldAnswer(30, 2_000_000)) is None
