"""The panel of the keys."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.tui.renderables.footer import action_at
from gpudash.tui.widgets.lines import Lines


class Footer(Lines):
    """Shows the keys, which can be clicked."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def on_click(self, event: Click) -> None:
        """Start the action of the key under the pointer."""
        event.stop()
        action = action_at(event.x)
        if action is not None:
            self.post_message(self.Pressed(action))
