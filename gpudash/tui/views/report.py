"""The view of what the GPUs of the host were used for, today or in some weeks."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.fleet.users import Prices
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import REPORT_KEYS
from gpudash.tui.reporting import Reporting, ReportPane
from gpudash.tui.views.view import View


class ReportView(Reporting, View):
    """Who held GPUs and how: of the history of the service, else of what was watched."""

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
        """Price it, before Textual calls what has it made."""
        self._report.price = Prices(self.app.preferences.current.fleet.prices)

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the title and the rows in view."""
        return self._report.lines(self.dashboard.theme, cells, height)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll the rows."""
        self._report.scroll(lines)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        self._report.scroll(pages * max(1, self._report.room - 1))
