"""The mouse: headings, rows, and the keys of the footer."""

from __future__ import annotations

from gpudash.tui.topics.opening import Opening
from gpudash.tui.topics.sorting import Sorting
from gpudash.tui.widgets.footer import Footer
from gpudash.tui.widgets.processes import Processes

_DOUBLE = 2


class Pointing(Sorting, Opening):
    """Does what is pointed at."""

    def on_processes_clicked(self, message: Processes.Clicked) -> None:
        """Sort by a heading, select a row, or open it with a second click."""
        table, listing = self.picture.processes, self.picture.listing
        if not message.line:
            key = table.column_at(message.x)
            if key is not None:
                self.sort_by(key)
            return
        place = table.top + message.line - 1
        if place >= len(listing.rows):
            return
        listing.move_to(place)
        self.say("")
        if message.times == _DOUBLE:
            self.action_view_process()

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)
