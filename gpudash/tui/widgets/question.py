"""The box of the question before a signal."""

from __future__ import annotations

from textual.events import Click
from textual.message import Message

from gpudash.tui.draw.question import Drawing
from gpudash.tui.widgets.lines import Lines


class QuestionBox(Lines):
    """Shows a drawn question, and says which of its actions was clicked."""

    class Pressed(Message):
        """Something that acts was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    drawing: Drawing | None = None

    def present(self, drawing: Drawing) -> None:
        """Show another drawing."""
        self.drawing = drawing
        self.show(drawing.lines)

    def on_click(self, event: Click) -> None:
        """Tell what is under the pointer."""
        event.stop()
        action = self.drawing.action_at(event.x, event.y) if self.drawing else None
        if action is not None:
            self.post_message(self.Pressed(action))
