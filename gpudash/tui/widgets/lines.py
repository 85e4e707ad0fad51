"""The base of all panels: lines of segments, of which only the changed ones are sent."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gpudash.tui.backstage.display import repaint
from gpudash.tui.draw.line import Line, fitted


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
        self._shown: list[Line] = []
        self._drawn_for = -1

    def wear(self, blank: Style) -> None:
        """Take another look for what no line covers."""
        self._blank = blank
        self._drawn_for = -1

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines; those beyond the panel's height are not drawn."""
        width, height = self.size
        before = self._shown if self._drawn_for == width else []
        shown = [*lines[:height], *[[]] * (height - len(lines))]
        self._lines, self._shown, self._drawn_for = lines, shown, width
        changed = {
            y: line
            for y, line in enumerate(shown)
            if y >= len(before) or (line is not before[y] and line != before[y])
        }
        if changed and not repaint(self, changed, self._blank):
            self.refresh(*[Region(0, y, width, 1) for y in changed])

    def on_resize(self) -> None:
        """Fit the same lines to the new size."""
        self.show(self._lines)

    def render_line(self, y: int) -> Strip:
        """Return one line as it was given, or blank."""
        width = self.size.width
        line = self._shown[y] if y < len(self._shown) else []
        return Strip(fitted(line, width, self._blank), width)
