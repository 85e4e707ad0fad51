from __future__ import annotations

import pytest

from gpudash.tui.dashboard import DashboardModel
from tests.factories import received
from tests.tui.dashboards import THEME, make_dashboard
from tests.tui.past import sample
from tests.tui.stage import HandFeed, process_of


def test_idle_time_is_what_it_was_at_the_instant_that_is_shown() -> None:
    dashboard = DashboardModel(HandFeed(), THEME)
    dashboard.resize(120, 40)
    for second in range(0, 300, 2):
        idle = process_of(0, idle_seconds=float(second))
        dashboard.receive(*received(sample(second, [0], processes=(idle,))))
    assert dashboard.listing.rows[0].process.idle_seconds == 298
    dashboard.step(-50)
    assert dashboard.listing.rows[0].process.idle_seconds == 198


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "PAUSED"),
        (0.02, "0.1s AGO"),
        (0.46, "0.5s AGO"),
        (0.97, "1s AGO"),
        (1.96, "2s AGO"),
        (125, "2m05s AGO"),
    ],
)
def test_past_is_reported_as_near_as_it_is(seconds: float, told: str) -> None:
    dashboard = make_dashboard(sample(0, [50]))
    dashboard.receive(*received(sample(seconds, [50])))
    dashboard.step(-1)
    assert dashboard.playhead.mark == told
    dashboard.receive(*received(sample(200, [50])))
    assert dashboard.playhead.mark != "PAUSED"


def test_pause_stops_at_the_sample_that_is_shown() -> None:
    dashboard = make_dashboard(sample(0, [50]))
    assert dashboard.playhead.view_time is None
    dashboard.pause(True)
    at_pause = dashboard.history.now
    assert not dashboard.receive(*received(sample(60, [50])))
    assert dashboard.playhead.view_time == at_pause == dashboard.history.now - 60
    dashboard.step(-1)
    assert dashboard.playhead.view_time == dashboard.playhead.moment is not None
    dashboard.pause(False)
    assert dashboard.playhead.view_time is None


def test_a_step_back_from_a_pause_starts_at_the_frozen_sample() -> None:
    dashboard = make_dashboard(sample(0, [10]))
    dashboard.receive(*received(sample(1, [20])))
    dashboard.pause(True)
    for second in range(2, 30):
        dashboard.receive(*received(sample(second, [90])))
    dashboard.step(-1)
    assert dashboard.snapshot.devices[0].gpu_utilization_percent == 10
    dashboard.step(1)
    assert dashboard.snapshot.devices[0].gpu_utilization_percent == 20
