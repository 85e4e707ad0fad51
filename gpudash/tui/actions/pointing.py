"""The mouse: headings, rows, and the keys of the footer."""

from __future__ import annotations

from gpudash.tui.actions.opening import Opening
from gpudash.tui.actions.sorting import Sorting
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.footer import Footer
from gpudash.tui.widgets.processes import Processes


class Pointing(Sorting, Opening):
    """Does what is pointed at: the first click selects, one more on the same opens."""

    _pointed: object = None
    """The identity that was clicked last."""

    def on_processes_clicked(self, message: Processes.Clicked) -> None:
        """Sort by a heading, select a row, or open it with a second click."""
        picture = self.picture
        table, listing = picture.processes, picture.listing
        if not message.line:
            key = table.column_at(message.x)
            if key is not None:
                self.sort_by(key)
            return
        place = table.top + message.line - 1
        if place >= len(listing.rows):
            return
        again = not picture.devices.focused and listing.cursor == place
        picture.devices.focused = False
        listing.move_to(place)
        self.say("")
        if self._is_second(listing.selected_key) and again:
            self.action_view_process()

    def on_devices_clicked(self, message: Devices.Clicked) -> None:
        """Select a device, or open it with a second click."""
        picture = self.picture
        if picture.is_finding(message.line):
            self.action_view_findings()
            return
        row = picture.device_at(message.x, message.line)
        if row is None:
            return
        before = picture.device if picture.devices.focused else None
        picture.devices.focused = True
        picture.devices.select(row)
        self.say("")
        if self._is_second(row.device.key) and before == row:
            self.action_view_device()

    def _is_second(self, identity: object) -> bool:
        """Note what was clicked; return whether it was clicked before, and nothing else since."""
        before, self._pointed = self._pointed, identity
        return before == identity

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)
