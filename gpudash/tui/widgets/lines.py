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

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines; those beyond the panel's height are not drawn."""
        self._lines = lines
        width, height = self.size
        old = self._strips
        new = [Strip(fitted(line, width, self._blank), width) for line in lines[:height]]
        new += [Strip.blank(width, self._blank)] * (height - len(new))
        self._strips = new
        changed = {y: row for y, row in enumerate(new) if y >= len(old) or old[y] != row}
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
