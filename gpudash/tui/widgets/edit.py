"""Text in Textual's own widgets, typed or shown: of any origin, never parsed as markup."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar

from rich.style import Style as RichStyle
from textual.binding import Binding
from textual.color import Color
from textual.content import Content
from textual.events import Key, Paste
from textual.style import Style
from textual.widgets import Input

from gpudash.model.text import clean
from gpudash.tui.draw.line import Line
from gpudash.tui.theme import css_color


class Edit(Input, inherit_bindings=False):
    """An input of one line of at most `limit` characters; pastes are cut and cleaned.

    Enter and Ctrl-C are left to the container.
    """

    BINDINGS: ClassVar[list[Any]] = [
        binding
        for binding in Input.BINDINGS
        if not isinstance(binding, Binding) or binding.action not in ("submit", "copy")
    ]

    CSS = """
    Edit, Edit:focus { border: none; background: $surface; background-tint: transparent; }
    Edit, Edit:ansi { color: $foreground; }
    Edit > .input--cursor {
        background: $input-cursor-background;
        color: $input-cursor-foreground;
        text-style: $input-cursor-text-style;
    }
    Edit > .input--placeholder { color: $dim; text-style: $dim-style; }
    """
    """For the app to append to its own: Textual's rules for some terminals are more specific."""

    def __init__(
        self, value: str = "", *, limit: int = 1000, without: str = "", **options: Any
    ) -> None:
        """Begin with a value; the characters `without` are left to other bindings."""
        super().__init__(value, max_length=limit, select_on_focus=False, compact=True, **options)
        self._limit, self._without = limit, without
        self.cursor_blink = False

    def on_key(self, event: Key) -> None:
        """Ignore Alt with a letter, which Textual would insert."""
        if event.key.startswith("alt+"):
            event.prevent_default()

    def on_paste(self, event: Paste) -> None:
        """Insert the first line of a paste, as far as there is room."""
        event.prevent_default()
        event.stop()
        line = event.text.partition("\n")[0].partition("\r")[0]
        room = self._limit - len(self.value) + len(self.selected_text)
        self.replace(str(clean(line, self._limit))[: max(0, room)], *self.selection)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Leave some characters to bindings."""
        return character not in tuple(self._without) and super().check_consume_key(key, character)

    def restricted(self) -> None:
        """Ignore text that does not fit, without a bell."""


def content(lines: Iterable[Line]) -> Content:
    """Return lines of segments as Textual content, on the background of the widget."""
    return Content("\n").join(
        Content.assemble(*((segment.text, _style(segment.style)) for segment in line))
        for line in lines
    )


@cache
def _style(style: RichStyle | None) -> Style:
    if style is None:
        return Style()
    color = css_color(style.color)
    meta = Style.from_meta(style.meta) if style.meta else Style()
    return meta + Style(
        foreground=None if color == "ansi_default" else Color.parse(color),
        bold=style.bold,
        dim=style.dim,
        underline=style.underline,
        reverse=style.reverse,
    )
