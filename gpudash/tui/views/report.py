"""The view of a report on the use of the host's GPUs, today or in some weeks."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.fleet.users import Prices
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import REPORT_KEYS
from gpudash.tui.reporting import Reporting, ReportPane
from gpudash.tui.views.view import View


class ReportView(Reporting, View):
    """Who held GPUs and how, from the service's history, else from the samples watched."""

    KEYS = REPORT_KEYS

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self._report = ReportPane(
            dashboard.report_command,
            dashboard.history,
            dashboard.time,
            lambda: dashboard.snapshot.taken_at,
            self.draw,
        )

    def on_mount(self) -> None:
        """Set the price before Textual calls the method that makes the report."""
        self._report.price = Prices(self.app.preferences.current.fleet.prices)

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the title and the rows in view."""
        return self._report.lines(self.model.theme, cells, height)
