import random

import pytest
from hypothesis import given

from gpudash.analysis.history import History, Snapshots
from gpudash.model.snapshot import EMPTY, Snapshot
from tests.analysis.history.samples import pushed, snapshot
from tests.factories import make_snapshot, received
from tests.strategies import snapshots


def test_everything_can_be_shown_as_it_was_then() -> None:
    history, given = History(), [snapshot(second, second % 100) for second in range(200)]
    for each in given:
        history.push(*received(each))
    assert [history.at(moment) for moment in history.moments] == given


def test_a_moment_between_two_snapshots_shows_the_one_before() -> None:
    history = pushed(1, 2, 3)
    first, second, third = history.moments
    assert history.at(second + 0.5).devices[0].gpu_utilization_percent == 2
    assert history.at(first - 100).devices[0].gpu_utilization_percent == 1
    assert history.at(third + 100) == history.latest


def test_ten_minutes_can_be_stepped_through_at_any_pace() -> None:
    for interval, count in ((1.0, 700), (0.2, 3500)):
        history = pushed(*[1] * count, interval=interval)
        assert history.now - history.moments[0] == pytest.approx(600, abs=60)
        assert len(history.moments) <= 660


def test_a_host_that_stands_still_does_not_fill_the_past() -> None:
    history = History()
    for _ in range(100):
        history.push(*received(snapshot(0)))
    assert len(history.moments) == 1


@given(snapshots(), snapshots())
def test_any_snapshot_is_shown_again_as_it_was(first: Snapshot, second: Snapshot) -> None:
    kept = Snapshots()
    for moment, each in enumerate((first, second, snapshot(0))):
        kept.push(float(moment), *received(each))
    assert (kept.at(0.0), kept.at(1.0)) == (first, second)


def test_a_large_host_is_shown_again_as_it_was_whatever_comes_and_goes() -> None:
    kept, given = Snapshots(), [make_snapshot(count) for count in (64, 65, 1, 200, 64, 0, 64)]
    for second, each in enumerate([*given, snapshot(0)]):
        kept.push(second * 20.0, *received(each))
    assert [kept.at(moment) for moment in kept.times()[:-1]] == given


def test_nothing_is_kept_at_first() -> None:
    kept = Snapshots()
    assert (kept.times(), kept.at(5.0)) == ([], EMPTY)


def test_fewer_are_kept_of_a_large_host() -> None:
    kept, random_bytes = Snapshots(), random.Random(1).randbytes
    for second in range(15):
        kept.push(float(second), EMPTY, random_bytes(1 << 20))
    assert kept.times() == [float(second) for second in range(3, 15)]


def test_one_larger_than_all_that_may_be_kept_is_kept_alone() -> None:
    kept = Snapshots()
    for second in range(2):
        kept.push(float(second), snapshot(second), random.Random(1).randbytes(13 << 20))
    assert kept.times() == [1.0]
    assert kept.at(1.0) == snapshot(1)


def test_the_newest_are_kept_however_far_apart() -> None:
    history = pushed(*[1] * 100, interval=60.0)
    assert len(history.moments) == 60
