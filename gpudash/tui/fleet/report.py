"""The page that reports the use of the GPUs of many hosts."""

from __future__ import annotations

from gpudash.tui.draw.line import Line
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import LONGER, FleetPage
from gpudash.tui.keymap import INNER_KEYS, REPORT_PAGE_KEYS
from gpudash.tui.reporting import Reporting, ReportPane
from gpudash.tui.theme import Theme


class ReportPage(Reporting, FleetPage):
    """Who held GPUs and how, today or in some weeks, from Prometheus or the hosts."""

    KEYS = (*INNER_KEYS, *REPORT_PAGE_KEYS)
    LABELS = LONGER

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._report = ReportPane(
            model.report_command, None, model.time, lambda: model.snapshot.taken_at, self.draw
        )

    def lines(self, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the title and the rows in view."""
        lines = self._report.lines(theme, cells, height)
        self.page_rows = max(1, self._report.room)
        return lines

    @property
    def _refused(self) -> frozenset[str]:
        """Actions without effect here; the span is the report's."""
        return super()._refused - {"zoom"} | {"enter"}

    def move(self, rows: int) -> None:
        """Scroll the rows."""
        self._report.scroll(rows)

    def clicked(self, x: int, y: int) -> bool:
        """Do nothing."""
        return False

    def action_enter(self) -> None:
        """Do nothing."""
