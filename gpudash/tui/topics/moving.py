"""Moving: the cursor, the devices in view, the command lines."""

from __future__ import annotations

from gpudash.tui.live import LiveApp
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.processes import Processes

_COMMAND_STEP, _END = 8, 1 << 20


class Moving(LiveApp):
    """Goes through what does not fit the screen."""

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.picture.listing.move(rows)
        self.say("")

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(pages * self.picture.page)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to a row, counted from the end if negative."""
        listing = self.picture.listing
        listing.move_to(index if index >= 0 else len(listing.rows) + index)
        self.say("")

    def action_scroll_devices(self, pages: int) -> None:
        """Show other devices where not all fit."""
        self.picture.scroll_devices(pages * self.picture.device_lines)
        self.redraw()

    def action_scroll_command(self, steps: int) -> None:
        """Show later or earlier parts of the command lines."""
        self.picture.scroll_command(steps * _COMMAND_STEP)
        self.redraw()

    def action_scroll_command_to(self, end: int) -> None:
        """Show the beginning of the command lines (0), or the end of the longest (-1)."""
        self.picture.scroll_command(_END if end else -_END)
        self.redraw()

    def on_devices_scrolled(self, message: Devices.Scrolled) -> None:
        """Scroll the devices by the wheel."""
        self.picture.scroll_devices(message.rows)
        self.redraw()

    def on_processes_moved(self, message: Processes.Moved) -> None:
        """Move by the wheel."""
        self.action_move(message.rows)
