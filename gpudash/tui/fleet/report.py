"""The page that reports the use of the GPUs of many hosts."""

from __future__ import annotations

from gpudash.tui.draw.line import Line
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import LONGER, FleetPage
from gpudash.tui.keymap import INNER_KEYS, REPORT_PAGE_KEYS
from gpudash.tui.reporting import Reporting, ReportPane


class ReportPage(Reporting, FleetPage):
    """Who held GPUs and how, today or in some weeks, from Prometheus or the hosts."""

    KEYS = (*INNER_KEYS, *REPORT_PAGE_KEYS)
    LABELS = LONGER

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._report = ReportPane(
            model.report_command, None, model.time, lambda: model.snapshot.taken_at, self.draw
        )

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return the title and the rows in view."""
        return self._report.lines(self.model.value_theme, cells, height)

    @property
    def _refused(self) -> frozenset[str]:
        """Actions without effect here; the span is the report's."""
        return super()._refused - {"zoom"} | {"open"}
