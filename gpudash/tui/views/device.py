"""The view of one device: a chart of any metric, its processes, and every metric there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual.events import Click

from gpudash.analysis.history.metrics import DEVICE_METRICS
from gpudash.analysis.usage import no_gpu
from gpudash.tui.dashboard import Picture
from gpudash.tui.draw.details import Sheet, missing, sheet
from gpudash.tui.draw.device_head import Tabs, tabs, trouble
from gpudash.tui.draw.findings import worst
from gpudash.tui.draw.holders import HolderTable, holders, nobody_on
from gpudash.tui.draw.lease import lease_lines
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.metric_rows import Details
from gpudash.tui.keymap import DEVICE_KEYS, Key, bindings
from gpudash.tui.views.charted import ChartedView

_ROOMY = 30
"""Lines from which the processes stand above the metrics."""
_FEW, _MANY = 4, 12
"""Processes shown above the metrics, and below them."""


class DeviceView(ChartedView):
    """Shows everything about a GPU or a MIG instance, and turns to the others."""

    KEYS: ClassVar[tuple[Key, ...]] = DEVICE_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(DEVICE_KEYS)

    def __init__(self, picture: Picture, key: str | None = None) -> None:
        super().__init__(picture, key)
        self.explained = False
        self._tabs = Tabs([], [])
        self._chart_lines = range(0)
        self._pinned = 0
        self._sheet = Sheet([], [])
        self._sheet_line = 0
        self._table = HolderTable()

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the devices, what is wrong with this one, and the chart."""
        theme, row = self.picture.look, self.row()
        if row is None:
            self._tabs, self._pinned, self._chart_lines = Tabs([], []), 0, range(0)
            return ()
        self._tabs = tabs(self.rows(), row.device.key, theme, cells)
        above = [self._tabs.line, *trouble(row, theme, cells)]
        if row.device.state == "ok" and not self.large:
            above += worst(row.findings, theme, cells, 3 if height >= _ROOMY else 1)
        lines = [*above, *self.charted(row, cells, height - len(above))][:height]
        self._chart_lines = range(len(above), len(lines))
        self._pinned = len(lines)
        return lines

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the metrics, the processes above them where there is room, else below."""
        theme, row = self.picture.look, self.row()
        if row is None:
            return [[], [Segment(" " + no_gpu(self.picture.snapshot), theme.dim)]]
        if self.large:
            return []
        field = self.charting.field(row.device)
        details = Details(row.device, field.name, DEVICE_METRICS, self.explained)
        self._sheet = sheet(details, cells, theme)
        held = holders(self.picture.snapshot, row.device, self.picture.playhead.idle_seconds)
        roomy = height >= _ROOMY
        leased = lease_lines(self.picture.snapshot, row.device, theme, cells)
        few = _FEW if roomy else _MANY
        nobody = nobody_on(row.device, self.picture.snapshot)
        listed = leased + self._table.lines(held, nobody, theme, cells, few)
        before, after = (listed, []) if roomy else ([], listed)
        self._sheet_line = len(before)
        return [*before, *self._sheet.lines, *after, *missing(details, cells, theme)]

    # Keys

    def action_turn(self, step: int) -> None:
        """Show another device."""
        rows = self.rows()
        if rows:
            self._show(rows[(self.place + step) % len(rows)].device.key)

    def action_explain(self) -> None:
        """Show what each metric means, or only its value."""
        self.explained = not self.explained
        self.draw()

    def on_click(self, event: Click) -> None:
        """Turn to the device that was clicked, or chart the metric."""
        region = self.body.region
        if not region.contains(event.screen_x, event.screen_y):
            return
        x, y = event.screen_x - region.x, event.screen_y - region.y
        if y == 0:
            key = self._tabs.key_at(x)
            if key is not None:
                self._show(key)
        elif y in self._chart_lines:
            self.action_list_metrics()
        else:
            name = self._sheet.field_at(x, y - self._pinned + self.first - self._sheet_line)
            if y >= self._pinned and name is not None:
                self.chart_metric(name)

    def _show(self, key: str) -> None:
        self.key = key
        self.draw()
