"""The view of what is wrong in the file of settings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from gpudash.model.text import fold
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.views.view import View

_INDENT = 2


class MistakesView(View):
    """Lists every mistake in full; the rest of the file is in force."""

    def __init__(self, dashboard: DashboardModel, mistakes: Sequence[str]) -> None:
        super().__init__(dashboard)
        self._mistakes = tuple(mistakes)

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return a heading and the mistakes, each broken into as many lines as it needs."""
        theme, margin = self.dashboard.theme, " " * MARGIN
        count = len(self._mistakes)
        title = f"{count} {'mistake' if count == 1 else 'mistakes'} in the settings"
        lines: list[Line] = [[Segment(margin + title, theme.title)]]
        for mistake in self._mistakes:
            first, *rest = fold(mistake, cells - 2 * MARGIN - _INDENT)
            lines += [[], [Segment(margin + first, theme.base)]]
            lines += [[Segment(margin + " " * _INDENT + text, theme.base)] for text in rest]
        return lines
