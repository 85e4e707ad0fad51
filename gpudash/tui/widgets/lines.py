"""The base of all panels: lines of segments, of which only the changed ones are sent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gpudash.tui.backstage.display import repaint
from gpudash.tui.renderables.line import Line, fitted


class Lines(Widget):
    """A panel that is given all its lines and repaints those that differ from before."""

    ALLOW_SELECT = False

    DEFAULT_CSS = """
    Lines { width: 1fr; height: 1; }
    """

    def __init__(self, blank: Style, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._blank = blank
        self._lines: Sequence[Line] = ()
        self._strips: list[Strip] = []
        self._drawn_for = -1

    def wear(self, blank: Style) -> None:
        """Take another look for what no line covers."""
        self._blank = blank
        self._drawn_for = -1

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines; those beyond the panel's height are not drawn."""
        width, height = self.size
        old, before = self._strips, self._lines if self._drawn_for == width else ()
        new = [
            old[y]
            if y < len(before) and y < len(old) and before[y] == line
            else Strip(fitted(line, width, self._blank), width)
            for y, line in enumerate(lines[:height])
        ]
        new += [Strip.blank(width, self._blank)] * (height - len(new))
        self._lines, self._strips, self._drawn_for = lines, new, width
        changed = {
            y: row
            for y, row in enumerate(new)
            if y >= len(old) or (row is not old[y] and row != old[y])
        }
        if changed and not repaint(self, changed):
            self.refresh(*[Region(0, y, width, 1) for y in changed])

    def on_resize(self) -> None:
        """Fit the same lines to the new size."""
        self.show(self._lines)

    def render_line(self, y: int) -> Strip:
        """Return one line as it was given, or blank."""
        width = self.size.width
        if y < len(self._strips):
            return self._strips[y].adjust_cell_length(width, self._blank)
        return Strip.blank(width, self._blank)
