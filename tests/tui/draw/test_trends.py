from __future__ import annotations

import pytest

from gpudash.tui.draw.main_charts import COLUMN_SECONDS, Trends
from tests.factories import gpu_uuid
from tests.tui.past import START, sample, watched

GPU = gpu_uuid(0)
FIELD = "gpu_utilization_percent"


def test_last_column_fills_up_and_then_all_move_on_by_one() -> None:
    history = watched(sample(second, [second % 100]) for second in range(40))
    trends = Trends(history)
    trends.show(None)
    assert trends.values(GPU, FIELD, 5) == [None, None, 4, 9, 14, 19, 24, 29, 34, 39]
    for second in (40, 41, 42):
        history.push(sample(second, [second]))
        trends.show(None)
        assert trends.values(GPU, FIELD, 5) == [4, 9, 14, 19, 24, 29, 34, 39, second, None]


def test_later_samples_are_seen_without_asking_for_the_past_again() -> None:
    history = watched(sample(second, [50]) for second in range(22))
    trends = Trends(history)
    trends.show(None)
    assert trends.values(GPU, FIELD, 2) == [50, 50, 50, None]
    history.push(sample(27, [80]))
    trends.show(None)
    assert trends.values(GPU, FIELD, 2)[-1] == 80


def test_moment_of_the_past_ends_the_series() -> None:
    history = watched(sample(second, [second]) for second in range(60))
    trends = Trends(history)
    trends.show(START + 12)
    assert trends.values(GPU, FIELD, 2) == [4, 9, 12, None]
    trends.show(None)
    assert trends.values(GPU, FIELD, 1) == [54, 59]


def test_join_leaves_out_who_does_not_tell() -> None:
    history = watched(sample(second, [10, 30, None]) for second in range(10))
    trends = Trends(history)
    trends.show(None)
    keys = tuple(map(gpu_uuid, range(3)))
    assert trends.joined(keys, FIELD, 3, sum) == [None, None, 40, 40, 40, 40]
    assert trends.joined(keys[2:], FIELD, 1, sum) == [None, None]


@pytest.mark.parametrize(("seconds", "width"), [(0, 5), (100, 5), (101, 10), (900, 10)])
def test_columns_are_as_short_as_lets_them_hold_all_that_is_known(seconds: int, width: int) -> None:
    trends = Trends(watched(sample(second, [7]) for second in range(seconds + 1)))
    trends.show(None)
    assert trends.column_seconds(20) == width
    known = [value for value in trends.values(GPU, FIELD, 20) if value is not None]
    assert len(known) >= 2 * min(20, seconds // width) - 1
    trends.show(START + 10)
    assert trends.column_seconds(20) == COLUMN_SECONDS[0]


def test_a_curve_starts_anew_with_its_history() -> None:
    history = watched(sample(second, [7]) for second in range(300))
    trends = Trends(history)
    history.push(sample(-50, [9]))
    trends.show(None)
    assert trends.column_seconds(20) == COLUMN_SECONDS[0]
    assert set(trends.values(GPU, FIELD, 20)) == {None, 9}


@pytest.mark.parametrize("columns", [1, 2, 30])
def test_every_column_has_two_points_at_any_instant(columns: int) -> None:
    history = watched(())
    trends = Trends(history)
    for second in range(columns * COLUMN_SECONDS[-1] + 1):
        history.push(sample(second, [1]))
        trends.show(None)
        assert len(trends.values(GPU, FIELD, columns)) == 2 * columns


def test_columns_that_are_finished_one_by_one_are_those_of_a_look_at_all() -> None:
    history = watched([])
    trends = Trends(history)
    # Samples come and go slowly and fast, and once a column long none does.
    for second in (0, 1, 2, 3, 7, 8, 19, 20, 21, 22, 23, 43, 44, 45, 46, 47, 48, 49, 50, 51):
        history.push(sample(second, [second]))
        trends.show(None)
        afresh = Trends(history)
        afresh.show(None)
        assert trends.values(GPU, FIELD, 12) == afresh.values(GPU, FIELD, 12)


def test_another_history_has_another_past() -> None:
    history = watched(sample(second, [50]) for second in range(10))
    trends = Trends(history)
    trends.show(None)
    trends.values(GPU, FIELD, 5)
    history.clear()
    history.push(sample(12, [80]))
    trends.show(None)
    assert [value for value in trends.values(GPU, FIELD, 5) if value is not None] == [80]
