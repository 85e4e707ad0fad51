"""The panel of the processes."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.processes import ProcessTable
from gpudash.tui.widgets.lines import Panel


class ProcessPanel(Panel):
    """Shows lines of processes, and puts the cursor on the one that is clicked."""

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
            key = self._table.column_at(event.x)
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
        """Move the cursor."""
        self.dashboard.move(lines)
        self.dashboard.message = ""
        self.post_message(self.Changed())
