from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.history import History
from gpudash.analysis.history.idleness import Idleness
from tests.analysis.history.samples import process, snapshot

MEMORY = 1 << 30


def seen(*utilizations: int | None) -> Idleness:
    """A process that was seen once a second from 100 s on."""
    idleness = Idleness()
    for second, sm in enumerate(utilizations):
        idleness.see(100.0 + second, MEMORY, sm)
    return idleness


def test_every_instant_has_what_was_known_then() -> None:
    idleness = seen(None, 50, 0, 0, 0, 30, 0, None, 0)
    told = [idleness.seconds(100.0 + second) for second in range(9)]
    assert told == [None, 0, 0, 1, 2, 0, 0, None, 2]


def test_instants_between_and_after_samples_go_on() -> None:
    idleness = seen(50, 0)
    assert idleness.seconds(100.5) == 0
    assert idleness.seconds(106.0) == 5
    assert idleness.seconds(99.9) is None


def test_one_without_memory_holds_nothing() -> None:
    idleness = Idleness()
    for second in range(3):
        idleness.see(second, 0, 0)
    assert idleness.seconds(2) == 0


def test_last_of_several_samples_at_one_instant_counts() -> None:
    idleness = seen(50)
    idleness.see(101.0, MEMORY, 0)
    idleness.see(101.0, MEMORY, 60)
    assert idleness.seconds(101.0) == 0
    assert idleness.seconds(105.0) == 0


@given(st.lists(st.sampled_from([None, 0, 50]), min_size=1, max_size=60))
def test_past_is_told_as_the_present_was(utilizations: list[int | None]) -> None:
    history, told = History(), []
    for second, sm in enumerate(utilizations):
        history.push(snapshot(second, processes=(process(sm),)))
        told.append(history.idle_seconds(process(sm)))
    past = [history.idle_seconds(process(0), moment) for moment in history.moments]
    assert past == told


@pytest.mark.parametrize("changes", [700, 5000])
def test_one_that_changes_all_the_time_is_known_for_as_long_as_snapshots_are(changes: int) -> None:
    idleness = seen(*(50 * (second % 2) for second in range(changes)))
    assert idleness.seconds(100.0 + changes - 661) == 0
    assert (idleness.seconds(100.0) is None) == (changes > 1024)
