"""One line for each user that is in view, and one for all of them together."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.analysis.columns.users import USER_COLUMNS
from gpudash.analysis.usage import User
from gpudash.tui.draw.grid import Grid
from gpudash.tui.draw.line import Line, fitted, joined, spread
from gpudash.tui.ranking import Ranking
from gpudash.tui.theme import Theme

_BAR = 8
_ROLES = {"user": "owner", "jobs": "dim", "memory_percent": "dim"}


class UserTable:
    """Draws a ranking around its cursor, under headings and above the total."""

    def __init__(self) -> None:
        self.top = 0
        """Place in the ranking of the first line in view."""
        self._grid = Grid(USER_COLUMNS, _ROLES, bar=_BAR)

    @property
    def sortable(self) -> list[str]:
        """The keys of the columns on screen, in their order."""
        return [place.column.key for place in self._grid.places]

    def column_at(self, x: int) -> str | None:
        """Return the key of the column that cell `x` belongs to."""
        return self._grid.column_at(x)

    def lines(
        self, ranking: Ranking[User], total: User, theme: Theme, cells: int, height: int
    ) -> list[Line]:
        """Return headings, the users in view and the total, in at most `height` lines."""
        window = ranking.window(height - 2)
        self.top = window.start
        rows = [ranking.rows[index] for index in window]
        drawn = self._drawn(ranking, rows, total, theme, cells)
        place = ranking.cursor - window.start
        drawn[place] = _highlighted(drawn[place], theme, cells)
        titles = self._grid.heading(theme, sorted_by=ranking.sort_key, down=ranking.descending)
        position = []
        if len(rows) < len(ranking.rows):
            text = f" {window.start + 1}-{window.stop} of {len(ranking.rows)} "
            position = [Segment(text, theme.heading)]
        return [spread(titles, position, cells, theme.base), *drawn]

    def _drawn(
        self, ranking: Ranking[User], rows: list[User], total: User, theme: Theme, cells: int
    ) -> list[Line]:
        """Draw the rows; columns that prove too narrow are widened."""
        everybody = [*ranking.rows, total]
        members = tuple(user.name for user in everybody)
        bold = theme._replace(base=theme.strong, owner=theme.strong)
        lines: list[Line] = []
        for _attempt in range(2):
            self._grid.fit(everybody, members, cells)
            lines = [joined(self._grid.draw(user, theme)) for user in rows]
            lines.append(joined(self._grid.draw(total, bold)))
            if not self._grid.outgrown:
                break
        return lines


def _highlighted(line: Line, theme: Theme, cells: int) -> Line:
    return joined(
        Segment(text, (style or theme.base) + theme.selected)
        for text, style, _ in fitted(line, cells, theme.base)
    )
