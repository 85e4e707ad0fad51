"""The page of what the GPUs of many hosts were used for."""

from __future__ import annotations

from typing import Any, ClassVar

from gpudash.tui.bindings import bindings
from gpudash.tui.draw.line import Line
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import LONGER, FleetPage
from gpudash.tui.keymap import INNER_KEYS, REPORT_PAGE_KEYS
from gpudash.tui.reporting import ReportPane
from gpudash.tui.theme import Theme


class ReportPage(FleetPage):
    """Who held GPUs and how, today or in some weeks, as Prometheus or the hosts know it."""

    KEYS = (*INNER_KEYS, *REPORT_PAGE_KEYS)
    BINDINGS: ClassVar[list[Any]] = bindings(REPORT_PAGE_KEYS)
    LABELS = LONGER

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._report = ReportPane(
            model.report_command, None, model.time, lambda: model.snapshot.taken_at, self.draw
        )

    def on_mount(self) -> None:
        """Have the report made."""
        super().on_mount()
        self._report.ask()

    def on_unmount(self) -> None:
        """Wait for none any more."""
        super().on_unmount()
        self._report.close()

    def draw(self) -> None:
        """Draw everything, the report up to the instant that is shown."""
        if self.is_current:
            self._report.follow_time()
        super().draw()

    def lines(self, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the title and the rows in view."""
        lines = self._report.lines(theme, cells, height)
        self.page_rows = max(1, self._report.room)
        return lines

    @property
    def _refused(self) -> frozenset[str]:
        """What has no effect here; the span is that of the report."""
        return super()._refused - {"zoom"} | {"enter"}

    def move(self, rows: int) -> None:
        """Scroll the rows."""
        self._report.scroll(rows)

    def clicked(self, x: int, y: int) -> bool:
        """Leave the rows as they are."""
        return False

    def action_enter(self) -> None:
        """Leave the rows as they are."""

    def action_zoom(self, step: int) -> None:
        """Report a longer (1) or a shorter (-1) time."""
        self._report.zoom(step)

    def action_group_by(self) -> None:
        """Report by the next: users, GPUs, jobs, hosts."""
        self._report.turn()
