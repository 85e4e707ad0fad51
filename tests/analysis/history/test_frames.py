from __future__ import annotations

import pytest

from gpudash.analysis.history import History
from tests.analysis.history.samples import pushed, snapshot


def test_everything_can_be_shown_as_it_was_then() -> None:
    history, given = History(), [snapshot(second, second % 100) for second in range(200)]
    for each in given:
        history.push(each)
    assert [history.at(moment) for moment in history.moments] == given


def test_a_moment_between_two_snapshots_shows_the_one_before() -> None:
    history = pushed(1, 2, 3)
    first, second, third = history.moments
    assert history.at(second + 0.5).devices[0].gpu_utilization_percent == 2
    assert history.at(first - 100).devices[0].gpu_utilization_percent == 1
    assert history.at(third + 100) == history.latest


def test_stepping_stays_within_what_is_kept() -> None:
    history = pushed(1, 2, 3)
    first, second, third = history.moments
    assert history.step(third, -1) == second
    assert history.step(second, -5) == first
    assert history.step(first, 9) == third


def test_ten_minutes_can_be_stepped_through_at_any_pace() -> None:
    for interval, count in ((1.0, 700), (0.1, 7000)):
        history = pushed(*[1] * count, interval=interval)
        assert history.now - history.moments[0] == pytest.approx(600, abs=60)
        assert len(history.moments) <= 660


def test_a_host_that_stands_still_does_not_fill_the_past() -> None:
    history = History()
    for _ in range(100):
        history.push(snapshot(0))
    assert len(history.moments) == 1
