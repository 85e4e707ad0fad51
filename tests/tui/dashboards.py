"""The model of the main screen over a feed, without a screen."""

from rich.color import ColorSystem

from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.theme import load_theme
from tests.factories import received
from tests.feed.hand import HandFeed

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)


def make_dashboard(snapshot: Snapshot, size: tuple[int, int] = (120, 40)) -> DashboardModel:
    dashboard = DashboardModel(HandFeed(), THEME)
    dashboard.resize(*size)
    give(dashboard, snapshot)
    return dashboard


def give(dashboard: DashboardModel, snapshot: Snapshot) -> None:
    dashboard.time.receive([Received(*received(snapshot))], after_jump=False)
