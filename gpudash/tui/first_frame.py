"""The first live dashboard, sent without Textual, which takes six times as long to import."""

from __future__ import annotations

import os

from gpudash.feed.protocol import SnapshotFeed
from gpudash.tui.cells import ScreenBuffer, color_system, erases, moves
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.panels import DashboardPanels
from gpudash.tui.preferences import Preferences


def draw(
    feed: SnapshotFeed,
    cells: int,
    height: int,
    preferences: Preferences | None = None,
    *,
    no_color: bool,
) -> tuple[ScreenBuffer, str]:
    """Return the picture of the feed's last snapshot, and the bytes that show it."""
    colors = color_system(os.environ)
    preferences = preferences or Preferences()
    theme = preferences.theme(no_color=no_color, color_system=colors)
    dashboard = DashboardModel(feed, theme)
    preferences.arrange(dashboard)
    dashboard.resize(cells, height)
    dashboard.begin()
    panels = DashboardPanels(dashboard, preferences.current.columns).draw()
    spacer = dashboard.layout.upper - len(panels.devices)
    lines = [*panels.header, *panels.devices, *[[]] * spacer, *panels.processes]
    room = max(0, height - len(panels.footer))
    lines = lines[:room] + [[]] * (room - len(lines)) + panels.footer
    frame = ScreenBuffer(colors, erases=erases(os.environ), moves=moves(os.environ))
    frame.width = cells
    for y, line in enumerate(lines[:height]):
        frame.draw(y, 0, cells, line, theme.base)
    return frame, frame.take()
