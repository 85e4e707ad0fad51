"""Lines of segments, of which only changed ones are sent: panels, dialogs, the footer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gpudash.tui.draw.header import action_at
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.keymap import Key
from gpudash.tui.terminal import TerminalApp

WHEEL_LINES = 3
"""Lines that one notch of the wheel scrolls."""


class Lines(Widget):
    """A panel that is given all its lines and repaints those that have changed."""

    ALLOW_SELECT = False

    DEFAULT_CSS = """
    Lines { width: 1fr; height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._blank = Style()
        self._lines: Sequence[Line] = ()
        self._shown: list[Line] = []
        self._drawn_for: tuple[int, Style] | None = None

    def show(self, lines: Sequence[Line], blank: Style) -> None:
        """Replace the lines; `blank` is the style of cells that they do not cover.

        Lines beyond the panel's height are not drawn.
        """
        width, height = self.size
        before = self._shown if self._drawn_for == (width, blank) else []
        shown = [*lines[:height], *[[]] * (height - len(lines))]
        self._lines, self._shown, self._blank = lines, shown, blank
        self._drawn_for = width, blank
        changed = {
            y: line
            for y, line in enumerate(shown)
            if y >= len(before) or (line is not before[y] and line != before[y])
        }
        app = self.app
        direct = isinstance(app, TerminalApp) and app.write_rows(self, changed, self._blank)
        if changed and not direct:
            self.refresh(*[Region(0, y, width, 1) for y in changed])

    def on_resize(self) -> None:
        """Fit the same lines to the new size."""
        self.show(self._lines, self._blank)

    def render_line(self, y: int) -> Strip:
        """Return a line as given, or blank."""
        width = self.size.width
        line = self._shown[y] if y < len(self._shown) else []
        return Strip(fitted(line, width, self._blank), width)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines uncached, since rows written directly would outdate a cache."""
        strips = [self.render_line(y) for y in range(crop.y, crop.bottom)]
        if crop.x == 0 and crop.width == self.size.width:
            return strips
        return [strip.crop(crop.x, crop.right) for strip in strips]


class Wheel:
    """Turns notches of the wheel into lines; a mixin for a screen or a widget."""

    def turned(self, lines: int) -> None:
        """Scroll by this number of lines: down if positive, up if negative."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down."""
        event.stop()
        self.turned(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.turned(-WHEEL_LINES)


class Footer(Lines):
    """Shows the keys, which can be clicked."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys: tuple[Key, ...] = ()
        self._notice = ""

    def take_keys(self, keys: Iterable[Key], notice: str) -> None:
        """Set the keys that fit beside a notice, to be clicked."""
        self._keys, self._notice = tuple(keys), notice

    def on_click(self, event: Click) -> None:
        """Run the action of the clicked key."""
        event.stop()
        action = action_at(self._keys, self._notice, event.x, self.size.width)
        if action is not None:
            self.post_message(self.Pressed(action))
