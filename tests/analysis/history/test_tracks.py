import pytest

from gpudash.analysis.history import History
from tests.analysis.history.samples import GPU, pushed, snapshot
from tests.factories import make_device, received


def test_the_last_point_is_now_and_the_first_the_oldest() -> None:
    history = pushed(10, 20, 30, 40)
    assert history.series(GPU, "gpu_utilization_percent", 3, 3) == [20, 30, 40]
    assert history.series(GPU, "gpu_utilization_percent", 6, 6) == [None, None, 10, 20, 30, 40]


def test_a_point_over_several_samples_holds_their_mean() -> None:
    history = pushed(*range(20))
    assert history.series(GPU, "gpu_utilization_percent", 20, 4) == [2, 7, 12, 17]
    low, mean, high = history.extents(GPU, "gpu_utilization_percent", 20, 4)[1] or (0, 0, 0)
    assert (low, mean, high) == (5, 7, 9)


def test_points_that_are_past_stand_still() -> None:
    history = pushed(*range(50))
    before = history.series(GPU, "gpu_utilization_percent", 30, 10)
    history.push(*received(snapshot(50, 98)))
    shifted = history.series(GPU, "gpu_utilization_percent", 30, 10)
    assert shifted == [*before[1:], 98]
    history.push(*received(snapshot(51, 99)))
    assert history.series(GPU, "gpu_utilization_percent", 30, 10) == [*shifted[:-1], 98.5]


def test_samples_within_a_second_become_their_mean() -> None:
    history = pushed(*[0, 100] * 15, interval=0.1)
    points = history.series(GPU, "gpu_utilization_percent", 2, 2)
    assert points == pytest.approx([50] * 2, abs=12)


def test_a_value_that_is_absent_for_a_part_of_a_second_counts_not() -> None:
    history = pushed(None, 40, None, 20, interval=0.1)
    assert history.series(GPU, "gpu_utilization_percent", 1, 1) == [pytest.approx(30)]


def test_slow_samples_leave_no_gaps_between_them() -> None:
    history = pushed(10, 20, 30, 40, interval=5.0)
    points = history.series(GPU, "gpu_utilization_percent", 10, 10)
    assert points == [20] * 4 + [30] * 5 + [40]


def test_an_outage_is_a_gap() -> None:
    history = pushed(10, 20)
    history.push(*received(snapshot(30, 30)))
    points = history.series(GPU, "gpu_utilization_percent", 31, 31)
    assert points[:2] == [10, 20]
    assert points[5:30] == [None] * 25
    assert points[30] == 30


def test_a_value_that_is_absent_is_a_gap_and_no_zero() -> None:
    assert pushed(10, None, 0).series(GPU, "gpu_utilization_percent", 3, 3) == [10, None, 0]


def test_a_chart_can_end_in_the_past() -> None:
    history = pushed(10, 20, 30, 40)
    then = history.now - 2
    assert history.series(GPU, "gpu_utilization_percent", 2, 2, until=then) == [10, 20]


def test_half_an_hour_is_kept() -> None:
    history = pushed(*(number % 100 for number in range(2100)))
    points = history.series(GPU, "gpu_utilization_percent", 1800, 60)
    assert None not in points
    assert max(point or 0 for point in points) == 94.5


def test_a_number_beyond_every_float_is_a_gap() -> None:
    huge = make_device(memory_used_bytes=10**400, gpu_utilization_percent=7)
    history = History()
    history.push(*received(snapshot(0, devices=(huge,))))
    assert history.series(GPU, "memory_used_bytes", 1, 1) == [None]
    assert history.series(GPU, "gpu_utilization_percent", 1, 1) == [7]
