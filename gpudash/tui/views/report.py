"""The view of what the GPUs of the host were used for, today or in some weeks."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.fleet.users import Prices
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import REPORT_KEYS
from gpudash.tui.reporting import ReportPane
from gpudash.tui.views.view import View


class ReportView(View):
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
        """Have the report made."""
        super().on_mount()
        self._report.price = Prices(self.app.preferences.current.fleet.prices)
        self._report.ask()

    def on_unmount(self) -> None:
        """Wait for none any more."""
        super().on_unmount()
        self._report.close()

    def draw(self) -> None:
        """Draw the present state, the report up to the instant that is shown."""
        if self.is_current:
            self._report.follow_time()
        super().draw()

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the title and the rows in view."""
        return self._report.lines(self.dashboard.theme, cells, height)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll the rows."""
        self._report.scroll(lines)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        self._report.scroll(pages * max(1, self._report.room - 1))

    def action_scroll_ends(self, end: int) -> None:
        """Scroll to the top (0) or the bottom (1)."""
        self._report.scroll(self._report.count if end else -self._report.count)

    def action_zoom(self, step: int) -> None:
        """Report a longer (1) or a shorter (-1) time."""
        self._report.zoom(step)

    def action_group_by(self) -> None:
        """Report by the next: users, GPUs, jobs."""
        self._report.turn()
