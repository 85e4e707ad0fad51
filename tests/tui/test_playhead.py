from __future__ import annotations

from gpudash.tui.dashboard import DashboardModel
from tests.factories import received
from tests.tui.dashboards import THEME
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
