"""The panel of the devices."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.analysis.table import DeviceRow
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.widgets.lines import Panel


class DevicePanel(Panel):
    """Shows lines of devices, and puts the cursor on the one that is clicked."""

    class FindingsOpened(Message):
        """A line was clicked that says what is wrong."""

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard, id="devices")

    def on_click(self, event: Click) -> None:
        """Select a device, or open what was clicked."""
        event.stop()
        layout, devices = self.dashboard.layout, self.dashboard.devices
        top = layout.host + (layout.spaces > 1 + bool(layout.charts))
        if 0 <= event.y - top - layout.headed < layout.findings:
            self.post_message(self.FindingsOpened())
        elif (row := self._device_at(event.x, event.y - top - 1)) is not None:
            was_selected = devices.focused_row == row
            devices.focused = True
            devices.select(row)
            self.clicked(row.device.key, was_selected=was_selected)

    def turned(self, lines: int) -> None:
        """Show later or earlier devices, one at a time: there are few lines of them."""
        self.dashboard.scroll_devices(1 if lines > 0 else -1)
        self.post_message(self.Changed())

    def _device_at(self, x: int, line: int) -> DeviceRow | None:
        """Return the device at a cell of a line below the headings."""
        layout, devices = self.dashboard.layout, self.dashboard.devices
        height = layout.device_lines
        column = x // max(1, self.size.width // layout.across)
        if not 0 <= line < height or column >= layout.across:
            return None
        index = devices.first + column * height + line
        in_view = min(len(devices.rows), devices.first + layout.seen)
        return devices.rows[index] if index < in_view else None
