"""The panel of the keys."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.events import Click
from textual.message import Message

from gpudash.tui.draw.footer import action_at
from gpudash.tui.keymap import Key
from gpudash.tui.widgets.lines import Lines


class Footer(Lines):
    """Shows the keys, which can be clicked."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, blank: Style, keys: Iterable[Key], *, id: str | None = None) -> None:
        super().__init__(blank, id=id)
        self._keys = tuple(keys)
        self._notice = ""

    def take_keys(self, keys: Iterable[Key], notice: str) -> None:
        """Obey the keys that it is given to show, as far as a notice leaves room for them."""
        self._keys, self._notice = tuple(keys), notice

    def on_click(self, event: Click) -> None:
        """Start the action of the key under the pointer."""
        event.stop()
        action = action_at(self._keys, self._notice, event.x, self.size.width)
        if action is not None:
            self.post_message(self.Pressed(action))
