"""A matrix of GPU pairs in the cells there are: in words, or in one character for each pair."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.links import Matrix, Reach
from gpudash.model.text import pad, width
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, joined
from gpudash.tui.theme import Theme

_CORNER = "GPU"
_LABEL_GAP = 2

_ROLES: dict[Reach, str] = {
    "self": "faint",
    "nvlink": "ok",
    "switch": "owner",
    "bridge": "memory",
    "socket": "warn",
    "yes": "ok",
    "no": "warn",
    "unknown": "dim",
}


def reach_style(reach: Reach, theme: Theme) -> Style:
    """Return how a cell looks; the text alone tells the kinds apart too."""
    role: Style | tuple[Style, ...] = getattr(theme, _ROLES[reach])
    return role[len(role) // 2] if isinstance(role, tuple) else role


class LinkGrid:
    """A matrix fitted to a width: the widest form that leaves room for what stands beside it."""

    def __init__(
        self, matrix: Matrix, indices: Sequence[int], room: int, *, wanted: int, least: int
    ) -> None:
        """Fit to `room` cells, if possible with `wanted`, else with `least` of them beside it."""
        self._matrix = matrix
        self._labels = [str(index) for index in indices]
        self._count = len(indices)
        self._digits = max(map(len, self._labels))
        self._first = MARGIN + max(len(_CORNER), self._digits) + _LABEL_GAP
        words = max(self._digits, *(width(cell) for row in matrix.cells for cell in row))
        for in_words, cell, gap, beside in (
            (True, words, 2, wanted),
            (True, words, 1, least),
            (False, 1, 1, least),
            (False, 1, 0, 0),
        ):
            self.in_words, self._cell, self._gap = in_words, cell, gap
            if self.width + beside <= room:
                break
        self.shown = max(1, min(self._count, (room - self._first + gap) // (self._cell + gap)))
        """How many columns fit."""

    @property
    def width(self) -> int:
        """Cells that the whole matrix takes."""
        return self._first + self._count * (self._cell + self._gap) - self._gap

    def heading(self, theme: Theme, first: int) -> list[Line]:
        """Return the numbers of the columns from number `first` on, digits stacked where narrow."""
        labels = self._labels[first : first + self.shown]
        if self._cell >= self._digits:
            return [self._titled(_CORNER, labels, theme)]
        stacked = [label.rjust(self._digits) for label in labels]
        tops = [_CORNER, *[""] * (self._digits - 1)]
        return [
            self._titled(tops[place - self._digits + 1], [label[place] for label in stacked], theme)
            for place in range(self._digits)
        ]

    def row(self, number: int, theme: Theme, first: int) -> Line:
        """Return a GPU's label and its cells from column `first` on."""
        matrix, gap = self._matrix, Segment(" " * self._gap, theme.base)
        line = [self._label(self._labels[number], theme.strong)]
        for cell in matrix.cells[number][first : first + self.shown]:
            kind = matrix.kind(cell)
            text = pad(cell if self.in_words else kind.mark, self._cell)
            line += [Segment(text, reach_style(kind.reach, theme)), gap]
        return joined(line[:-1])

    def key(self, theme: Theme) -> Line:
        """Return in one line what the marks stand for; empty for a matrix in words."""
        if self.in_words:
            return []
        line = [self._label("", theme.base)]
        for name, kind in self._matrix.legend():
            style = reach_style(kind.reach, theme)
            line.append(Segment(f"{kind.mark} {name}  " if kind.mark != name else "", style))
        return joined(line)

    def legend(self, theme: Theme) -> list[Line]:
        """Return what the kinds that occur mean, behind their mark where that stands for them."""
        kinds = self._matrix.legend()
        name_cells = max((width(name) for name, _ in kinds), default=0) + 2
        lines = []
        for name, kind in kinds:
            mark = "" if self.in_words else pad(kind.mark, 3)
            text = " " * MARGIN + mark + pad(name, name_cells)
            style = reach_style(kind.reach, theme)
            lines.append([Segment(text, style), Segment(kind.meaning, theme.dim)])
        return lines

    def _titled(self, corner: str, labels: Sequence[str], theme: Theme) -> Line:
        text = (" " * self._gap).join(pad(label, self._cell) for label in labels)
        return [self._label(corner, theme.heading), Segment(text, theme.heading)]

    def _label(self, text: str, style: Style) -> Segment:
        return Segment(pad(" " * MARGIN + text, self._first), style)
