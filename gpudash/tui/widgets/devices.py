"""The panel of the devices."""

from __future__ import annotations

from textual.events import MouseScrollDown, MouseScrollUp
from textual.message import Message

from gpudash.tui.widgets.lines import Lines


class Devices(Lines):
    """Shows lines of devices and asks for others when the wheel turns."""

    class Scrolled(Message):
        """The wheel turned over the list."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Ask for later devices."""
        event.stop()
        self.post_message(self.Scrolled(1))

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Ask for earlier devices."""
        event.stop()
        self.post_message(self.Scrolled(-1))
