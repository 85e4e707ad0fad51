from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.history import History
from gpudash.analysis.history.metrics import IdleTracker
from tests.analysis.history.samples import process, snapshot
from tests.factories import received

MEMORY = 1 << 30


def seen(*utilizations: int | None) -> IdleTracker:
    """A process that was seen once a second from 100 s on."""
    idle = IdleTracker()
    for second, sm in enumerate(utilizations):
        idle.put(100.0 + second, MEMORY, sm)
    return idle


def test_every_instant_has_what_was_known_then() -> None:
    idle = seen(None, 50, 0, 0, 0, 30, 0, None, 0)
    told = [idle.seconds(100.0 + second) for second in range(9)]
    assert told == [None, 0, 0, 1, 2, 0, 0, None, 2]


def test_instants_between_and_after_samples_go_on() -> None:
    idle = seen(50, 0)
    assert idle.seconds(100.5) == 0
    assert idle.seconds(106.0) == 5
    assert idle.seconds(99.9) is None


def test_one_without_memory_holds_nothing() -> None:
    idle = IdleTracker()
    for second in range(3):
        idle.put(second, 0, 0)
    assert idle.seconds(2) == 0


def test_last_of_several_samples_at_one_instant_counts() -> None:
    idle = seen(50)
    idle.put(101.0, MEMORY, 0)
    idle.put(101.0, MEMORY, 60)
    assert idle.seconds(101.0) == 0
    assert idle.seconds(105.0) == 0


@given(st.lists(st.sampled_from([None, 0, 50]), min_size=1, max_size=60))
def test_past_is_reported_as_the_present_was(utilizations: list[int | None]) -> None:
    history, told = History(), []
    for second, sm in enumerate(utilizations):
        history.push(*received(snapshot(second, processes=(process(sm),))))
        told.append(history.idle_seconds(process(sm)))
    past = [history.idle_seconds(process(0), moment) for moment in history.moments]
    assert past == told


@pytest.mark.parametrize("changes", [700, 5000])
def test_one_that_changes_all_the_time_is_known_for_as_long_as_snapshots_are(changes: int) -> None:
    idle = seen(*(50 * (second % 2) for second in range(changes)))
    assert idle.seconds(100.0 + changes - 661) == 0
    assert (idle.seconds(100.0) is None) == (changes > 1024)
