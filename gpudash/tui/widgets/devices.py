"""The panel of the devices."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.tui.widgets.lines import Lines, Wheel


class Devices(Wheel, Lines):
    """Shows lines of devices; says what was clicked, and asks for others when the wheel turns."""

    class Scrolled(Message):
        """The wheel turned over the list."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    class Clicked(Message):
        """A line was clicked: its number, 0 for the first of the panel, and the cell."""

        def __init__(self, line: int, x: int) -> None:
            super().__init__()
            self.line = line
            self.x = x

    def on_click(self, event: Click) -> None:
        """Tell where."""
        event.stop()
        self.post_message(self.Clicked(event.y, event.x))

    def turned(self, lines: int) -> None:
        """Ask for later or earlier devices, one at a time: there are few lines of them."""
        self.post_message(self.Scrolled(1 if lines > 0 else -1))
