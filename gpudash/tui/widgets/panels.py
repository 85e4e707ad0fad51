"""The panels of the main screen that can be clicked: the devices and the processes."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.analysis.table import DeviceRow
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.processes import ProcessTable
from gpudash.tui.widgets.lines import Lines, Wheel


class Panel(Wheel, Lines):
    """A panel of the main screen, in which a first click selects, and a second opens."""

    class Changed(Message):
        """The dashboard must be redrawn."""

    class Opened(Message):
        """The item under the cursor is to be opened."""

    def __init__(self, dashboard: DashboardModel, *, id: str) -> None:
        super().__init__(id=id)
        self.dashboard = dashboard

    def clicked(self, identity: object, *, was_selected: bool) -> None:
        """Post the effect of a click on an item, which may have been selected."""
        again = self.dashboard.is_second_click(identity) and was_selected
        self.post_message(self.Opened() if again else self.Changed())


class DevicePanel(Panel):
    """Shows lines of devices, and puts the cursor on a clicked one."""

    class FindingsOpened(Message):
        """A line of the findings was clicked."""

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard, id="devices")

    def on_click(self, event: Click) -> None:
        """Select a device, or open the clicked item."""
        event.stop()
        layout, devices = self.dashboard.layout, self.dashboard.devices
        top = layout.host + (layout.spaces > bool(layout.charts))
        if 0 <= event.y - top - layout.headed < layout.findings:
            self.post_message(self.FindingsOpened())
        elif (row := self._device_at(event.x, event.y - top - 1)) is not None:
            was_selected = devices.focused_row == row
            devices.focused = True
            devices.select(row)
            self.clicked(row.device.key, was_selected=was_selected)

    def turned(self, lines: int) -> None:
        """Scroll the devices one at a time: there are few lines of them."""
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


class ProcessPanel(Panel):
    """Shows lines of processes, and puts the cursor on a clicked one."""

    class HeadingClicked(Message):
        """The heading of a column was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, dashboard: DashboardModel, table: ProcessTable) -> None:
        super().__init__(dashboard, id="processes")
        self._table = table

    def on_click(self, event: Click) -> None:
        """Sort by a heading, or select or open a process."""
        event.stop()
        if not event.y:
            key = self._table.grid.column_at(event.x)
            if key is not None:
                self.post_message(self.HeadingClicked(key))
            return
        devices, listing = self.dashboard.devices, self.dashboard.listing
        index = self._table.top + event.y - 1
        if index < len(listing.rows):
            was_selected = not devices.focused and listing.cursor == index
            devices.focused = False
            listing.move_to(index)
            self.clicked(listing.selected_key, was_selected=was_selected)

    def turned(self, lines: int) -> None:
        """Move the cursor of the processes."""
        self.dashboard.listing.move(lines)
        self.post_message(self.Changed())
