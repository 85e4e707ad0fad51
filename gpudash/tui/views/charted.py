"""What a view with a chart of a device shares: the chart, and the keys that change it."""

from __future__ import annotations

from contextlib import suppress

from gpudash.analysis.table import DeviceRow, device_rows
from gpudash.model.device import device_fields
from gpudash.model.fields import Field
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import readable, span
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.draw.chart import Chart, drawn
from gpudash.tui.draw.device_head import legend, title
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.processes import shares_of
from gpudash.tui.views.charting import Charting, Time
from gpudash.tui.views.view import View, put_above

_MOST_CHART = 22
_LEAST_BELOW = 5
"""Lines that the metrics have before any of the chart."""
_ROOMY = 30
"""Lines from which one is left blank below the chart."""


class ChartedView(View):
    """A view of one device, a metric of which is charted beside that of others."""

    def __init__(self, dashboard: DashboardModel, key: str | None = None) -> None:
        super().__init__(dashboard)
        self.charting = Charting(dashboard.history)
        self.large = False
        """Whether the chart takes all the room."""
        self.key = key or _device_in_question(dashboard)
        self.place = 0
        """Where in the list of the devices the one looked at stands."""
        self._rows_of: Snapshot | None = None
        self._all: list[DeviceRow] = []

    def rows(self) -> list[DeviceRow]:
        """Return the devices, looked up once a snapshot."""
        snapshot = self.dashboard.snapshot
        if self._rows_of is not snapshot:
            self._rows_of, self._all = snapshot, device_rows(snapshot)
        return self._all

    def row(self) -> DeviceRow | None:
        """Return the device looked at, or the one in its place once it is gone."""
        rows = self.rows()
        if not rows:
            return None
        keys = [row.device.key for row in rows]
        if self.key in keys:
            self.place = keys.index(self.key)
        self.place = min(self.place, len(rows) - 1)
        return rows[self.place]

    def charted(self, row: DeviceRow, cells: int, height: int) -> list[Line]:
        """Return title, chart and legend in as many lines as they may have."""
        theme, charting = self.dashboard.value_theme, self.charting
        field = charting.field(row.device)
        time = self._time()
        asked = charting.shown(self.rows(), row.device.key, theme)
        shown = charting.legible(asked, row.device.key, field, time.until)
        below = legend(shown, len(asked), field, theme, cells) if len(shown) > 1 else []
        if height >= _ROOMY and not self.large:
            below.append([])
        room = height - 1 - len(below)
        lines = room if self.large else min(_MOST_CHART, (2 * height + 2) // 5, room - _LEAST_BELOW)
        size = (cells, max(0, lines))
        order = sorted(shown, key=lambda each: each.device.key == row.device.key)
        chart, told = charting.chart(field, order, time, size, theme.glyphs)
        heading = title(field, row.device, told[-1], self._range(), theme, cells)
        return [heading, *self._drawn(chart, size), *below]

    def _drawn(self, chart: Chart, size: tuple[int, int]) -> list[Line]:
        """Draw the chart, a large one by plotext if that can be had."""
        theme = self.dashboard.value_theme
        if self.large:
            from gpudash.tui.draw.plot import plotted

            with suppress(ImportError):
                return drawn(chart, *size, theme, plotted)
        return drawn(chart, *size, theme)

    def _time(self) -> Time:
        """Return the instant of what is shown, which a pause keeps from being now."""
        dashboard = self.dashboard
        if not dashboard.playhead.paused:
            return Time(None, "now")
        taken_at, history = dashboard.snapshot.taken_at, dashboard.history
        until = history.now - (history.latest.taken_at - taken_at).total_seconds()
        moment = until if dashboard.playhead.moment is None else dashboard.playhead.moment
        return Time(moment, taken_at.astimezone().strftime("%H:%M:%S"))

    def _range(self) -> str:
        return f"{'close-up of ' if self.charting.fits else ''}last {span(self.charting.seconds)}"

    def chart_metric(self, name: str | None) -> None:
        """Chart a metric by its name; None leaves it as it is."""
        if name is not None:
            self.charting.wanted = name
        self.draw()

    # Keys

    def action_metric(self, step: int) -> None:
        """Chart another metric."""
        row = self.row()
        if row is not None:
            self.charting.step_field(row.device, step)
            self._changed()

    def action_list_metrics(self) -> None:
        """Choose the metric from a list."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        row = self.row()
        if row is None:
            return
        current = self.charting.field(row.device).name
        fields = [device_fields()[name] for name in self.charting.fields(row.device)]
        choices = [_choice(field, row, current) for field in fields]
        look = self.dashboard.theme
        screen = ChooseScreen("Chart", choices, look, current=current)
        put_above(self.app, screen, self.chart_metric)

    def action_range(self) -> None:
        """Show the next range of time."""
        self.charting.step_range()
        self._changed()

    def action_zoom(self, step: int) -> None:
        """Show a longer or a shorter time."""
        self.charting.zoom(step)
        self._changed()

    def action_overlay_all(self) -> None:
        """Show the curves of all devices, or of one alone again."""
        self.charting.toggle(row.device.key for row in self.rows())
        self._changed()

    def action_overlay_shared(self) -> None:
        """Show the curves of all devices that the processes of this one use."""
        row, snapshot = self.row(), self.dashboard.snapshot
        if row is None:
            return
        mine = [p for p in snapshot.processes if shares_of(p, row.device)]
        devices = (d for d in snapshot.devices if any(shares_of(p, d) for p in mine))
        others = {device.key for device in devices} - {row.device.key}
        if others:
            self.charting.narrow(others, row.device.key)
            self._changed()
        else:
            self._changed("its processes use no other GPU" if mine else "no process is on this GPU")

    def action_overlay(self, index: int) -> None:
        """Show the curve of a GPU beside the one looked at."""
        found = [d for d in self.dashboard.snapshot.devices if d.index == index and not d.is_mig]
        self.charting.toggle(device.key for device in found)
        self._changed("" if found else f"there is no GPU {index}")

    def action_fit(self) -> None:
        """Spread the values that occur over the whole height, or show the whole scale."""
        self.charting.fits = not self.charting.fits
        self._changed()

    def action_large(self) -> None:
        """Show the chart alone, or with everything else."""
        self.large = not self.large
        self._changed()

    def _changed(self, notice: str = "") -> None:
        """Draw, and tell what came of a key."""
        self.dashboard.message = notice
        self.draw()


def _choice(field: Field, row: DeviceRow, current: str) -> Choice:
    value = readable(getattr(row.device, field.name), field.unit)
    return Choice(field.name, field.label, value, field.name == current)


def _device_in_question(dashboard: DashboardModel) -> str | None:
    """Return the first device of the selected process, None if there is none."""
    row = dashboard.listing.selected
    if row is None:
        return None
    devices = dashboard.snapshot.devices
    return next((d.key for d in devices if shares_of(row.process, d)), None)
