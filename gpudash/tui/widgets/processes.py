"""The panel of the processes."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.tui.widgets.lines import Lines, Wheel


class Processes(Wheel, Lines):
    """Shows lines of processes; says what was clicked and how far the wheel turned."""

    class Clicked(Message):
        """A line was clicked: its number, 0 for the headings, and the cell."""

        def __init__(self, line: int, x: int) -> None:
            super().__init__()
            self.line = line
            self.x = x

    class Moved(Message):
        """The wheel asks for the cursor to move."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def on_click(self, event: Click) -> None:
        """Tell where."""
        event.stop()
        self.post_message(self.Clicked(event.y, event.x))

    def turned(self, lines: int) -> None:
        """Ask for the cursor to move."""
        self.post_message(self.Moved(lines))
