"""The lines in which something is typed while the screen above goes on."""

from __future__ import annotations

from rich.style import Style
from textual.events import Key, Paste
from textual.message import Message

from gpudash.tui.dialogs.editor import Editor
from gpudash.tui.widgets.lines import Lines

_HEIGHT = 2

_KEEP = frozenset({"enter"})
_ABANDON = frozenset({"escape", "ctrl+c", "ctrl+g"})


class Prompt(Lines, can_focus=True):
    """Takes every key while it has the focus; what is drawn in it is given, as in all panels."""

    DEFAULT_CSS = f"""
    Prompt {{ height: {_HEIGHT}; }}
    """

    class Changed(Message):
        """The text is another one, or its cursor stands elsewhere."""

    class Kept(Message):
        """The text is to stay."""

    class Abandoned(Message):
        """The text is to be forgotten."""

    class Unused(Message):
        """A key was pressed that edits nothing."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, blank: Style, *, id: str | None = None) -> None:
        super().__init__(blank, id=id)
        self.editor = Editor()
        self.display = False
        self.height = _HEIGHT

    def fit(self, lines: int) -> bool:
        """Take as many lines as there are to be shown; return whether that is a change."""
        if self.height == lines:
            return False
        self.styles.height = self.height = lines
        return True

    @property
    def is_open(self) -> bool:
        """Whether it is on screen."""
        return self.display

    def open(self, text: str) -> None:
        """Begin with a text, the cursor behind it."""
        self.editor = Editor(text)
        # Both take effect at once, so that the next key is already typed.
        self.display = True
        self.screen.set_focus(self)

    def close(self) -> None:
        """Give the keys back."""
        self.display = False
        self.screen.set_focus(None)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Take everything: no letter of a filter may start an action."""
        return True

    def on_key(self, event: Key) -> None:
        """Edit the text, or tell what else is asked for."""
        event.stop()
        event.prevent_default()
        if event.key in _KEEP:
            self.post_message(self.Kept())
        elif event.key in _ABANDON or (event.key == "backspace" and not self.editor.text):
            self.post_message(self.Abandoned())
        elif event.is_printable and event.character:
            self.editor.insert(event.character)
            self.post_message(self.Changed())
        elif self.editor.press(event.key):
            self.post_message(self.Changed())
        else:
            self.post_message(self.Unused(event.key))

    def on_paste(self, event: Paste) -> None:
        """Insert what was pasted."""
        event.stop()
        self.editor.insert(event.text)
        self.post_message(self.Changed())
