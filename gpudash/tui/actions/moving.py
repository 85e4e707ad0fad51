"""Moving: the cursor, the devices in view, the command lines."""

from __future__ import annotations

from gpudash.tui.screen import LiveApp
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.processes import Processes

_COMMAND_STEP, _END = 8, 1 << 20


class Moving(LiveApp):
    """Goes through what does not fit the screen."""

    def action_turn(self) -> None:
        """Give the focus to the devices, or back to the processes."""
        devices = self.picture.devices
        devices.focused = not devices.focused and bool(self.picture.rows)
        self.say("")

    def action_enlarge(self) -> None:
        """Give the part in focus all the room, or share it out again."""
        self.picture.enlarged = not self.picture.enlarged
        self.say("")

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        picture = self.picture
        if picture.devices.focused:
            picture.devices.move(rows, picture.rows, picture.plan)
        else:
            picture.listing.move(rows)
        self.say("")

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        picture = self.picture
        page = picture.plan.seen if picture.devices.focused else picture.page
        self.action_move(pages * page)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        picture = self.picture
        count = len(picture.rows if picture.devices.focused else picture.listing.rows)
        self.action_move(count if index else -count)

    def action_scroll_devices(self, pages: int) -> None:
        """Show other devices where not all fit."""
        self.picture.scroll_devices(pages * self.picture.plan.seen)
        self.redraw()

    def action_scroll_command(self, steps: int) -> None:
        """Show later or earlier parts of the command lines; move between columns of devices."""
        picture = self.picture
        if picture.devices.focused and picture.plan.across > 1:
            self.action_move(steps * picture.plan.device_lines)
            return
        picture.scroll_command(steps * _COMMAND_STEP)
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
