"""The mouse wheel, the same on every screen that has something to scroll."""

from __future__ import annotations

from textual.events import MouseScrollDown, MouseScrollUp

WHEEL_LINES = 3
"""Lines that one notch is worth."""


class Wheel:
    """Turns notches of the wheel into lines; mixed into a screen or a widget."""

    def turned(self, lines: int) -> None:
        """Scroll so many lines down, or up if negative."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.turned(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.turned(-WHEEL_LINES)
