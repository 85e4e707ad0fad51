from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.history import History
from gpudash.analysis.history.metrics import HOST_METRICS, PROCESS_METRICS, device_metrics
from gpudash.model.snapshot import EMPTY, Snapshot
from tests.analysis.history.samples import GPU, START, pushed, snapshot
from tests.analysis.history.samples import process as process_of
from tests.factories import make_host, received
from tests.strategies import snapshots


def test_nothing_is_known_before_the_first_snapshot(history: History) -> None:
    assert history.latest == EMPTY
    assert history.moments == []
    assert history.at(0.0) == EMPTY
    assert history.series(GPU, "gpu_utilization_percent", 60, 3) == [None] * 3


@pytest.mark.parametrize(
    ("key", "metrics"),
    [(GPU, device_metrics()), (None, HOST_METRICS), (process_of(50).key, PROCESS_METRICS)],
)
def test_every_metric_can_be_asked_for_and_no_other(
    key: Any, metrics: tuple[str, ...], history: History
) -> None:
    history.push(*received(snapshot(0.0, processes=(process_of(50),))))
    for metric in metrics:
        assert len(history.series(key, metric, 10, 5)) == 5
    with pytest.raises(ValueError, match="name"):
        history.series(key, "name", 10, 5)


@pytest.mark.parametrize("frozen", [True, False])
def test_later_numbers_leave_a_frozen_row_as_it_was(frozen: bool, history: History) -> None:
    history.push(*received(snapshot(10, 20)))
    until = history.now
    if frozen:
        history.freeze_last_row()
    history.push(*received(snapshot(10.2, 90)))
    load = "gpu_utilization_percent"
    assert history.series(GPU, load, 1, 1, until) == [20 if frozen else 55]
    assert history.series(GPU, load, 1, 1) == [55]


def test_a_reboot_starts_again() -> None:
    history = pushed(1, 2, 3)
    history.push(*received(snapshot(60, host=make_host(uptime_seconds=5.0))))
    assert history.moments == [5.0]
    assert history.series(GPU, "gpu_utilization_percent", 3, 3) == [None, None, 50]


def test_a_clock_that_someone_sets_does_not_bend_the_time_axis() -> None:
    history = pushed(1, 2)
    history.push(*received(snapshot(2, 3, taken_at=START - timedelta(hours=2))))
    assert history.series(GPU, "gpu_utilization_percent", 3, 3) == [1, 2, 3]


def test_a_host_that_does_not_tell_its_uptime_is_timed_by_its_snapshots(history: History) -> None:
    for second in range(3):
        history.push(*received(snapshot(second, second, host=make_host(uptime_seconds=None))))
    assert history.now == (START + timedelta(seconds=2)).timestamp()
    assert history.series(GPU, "gpu_utilization_percent", 3, 3) == [0, 1, 2]


@given(st.lists(snapshots(), max_size=2))
def test_any_snapshots_can_be_kept_and_drawn(given_snapshots: list[Snapshot]) -> None:
    history = History()
    for each in given_snapshots:
        history.push(*received(each))
    assert [history.at(moment) for moment in history.moments][-1:] == given_snapshots[-1:]
    for device in history.latest.devices:
        for metric in device_metrics():
            assert len(history.extents(device.key, metric, 60, 30)) == 30
    for process in history.latest.processes:
        assert history.seen_since(process) is not None
