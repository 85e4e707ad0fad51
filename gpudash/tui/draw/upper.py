"""What stands above the processes: host, devices, what is wrong, and charts if there is room."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpudash.analysis.history import History
from gpudash.analysis.table import DeviceRow
from gpudash.model.snapshot import Finding, Host
from gpudash.tui.draw.devices import DeviceTable
from gpudash.tui.draw.findings import worst
from gpudash.tui.draw.host import host_line
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.main_charts import charts
from gpudash.tui.draw.trends import Trends
from gpudash.tui.layout import Arrangement
from gpudash.tui.theme import Theme


class Upper:
    """Draws the upper part of the screen, with the past that belongs to it."""

    def __init__(self, history: History) -> None:
        self._trends = Trends(history)
        self._devices = DeviceTable(self._trends)

    def lines(
        self,
        host: Host,
        rows: Sequence[DeviceRow],
        wrong: Sequence[Finding],
        theme: Theme,
        cells: int,
        plan: Arrangement,
        *,
        first: int,
        cursor: int | None,
        moment: float | None,
        hidden: Collection[str],
    ) -> list[Line]:
        """Return as many lines as the plan has for it, devices from number `first` on."""
        curves, blank = "sparklines" not in hidden, plan.spaces
        self._trends.show(moment)
        lines: list[Line] = []
        if plan.host:
            lines.append(host_line(host, self._trends if curves else None, theme, cells))
        if blank > 1 + bool(plan.charts):
            lines.append([])
        table = self._devices.lines(
            rows,
            theme,
            cells,
            plan,
            first=first,
            cursor=cursor,
            curves=curves,
        )
        lines += table + [[]] * (plan.headed - len(table))
        if plan.findings:
            told = worst(wrong, theme, cells, plan.findings)
            lines += told + [[]] * (plan.findings - len(told))
        if plan.charts:
            devices = [row.device for row in rows]
            drawn = charts(devices, self._trends, theme, cells, plan.charts)
            lines += [[], *drawn, *[[]] * (plan.charts - len(drawn))]
        return lines
