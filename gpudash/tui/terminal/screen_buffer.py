"""What the terminal shows, cell by cell, and the fewest bytes that turn it into something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.model.text import char_width
from gpudash.system.terminal import color_bits
from gpudash.tui.terminal.diff import Cell, RowDiff, Stretch, is_sure
from gpudash.tui.terminal.sgr import Codes, SgrStyle, codes_of, ground_of

_COLOR_SYSTEMS = {24: ColorSystem.TRUECOLOR, 8: ColorSystem.EIGHT_BIT, 4: ColorSystem.STANDARD}

_MOST_PENS = 4096
_MOST_DRAWN = 4096


class ScreenBuffer:
    """A picture of the terminal, kept in step with every byte that is sent to it."""

    def __init__(self, color_system: ColorSystem, *, erases: bool = False) -> None:
        """Begin with a terminal of which nothing is known but its colours.

        `erases` tells whether it erases in the background that is set.
        """
        self._color_system, self._erases = color_system, erases
        self._pens: dict[int, tuple[Style | None, SgrStyle]] = {}
        # By id, for a look is hashed slowly; kept beside its pen, so that no other gets its id.
        self._same: dict[Codes, SgrStyle] = {}
        self._drawn: dict[tuple[str, int], list[Cell]] = {}
        """The cells of texts in pens, of which none is ever let go."""
        self._rows: dict[int, list[Cell]] = {}
        self._wanted: dict[int, list[Cell]] = {}
        self._places: dict[int, list[Stretch]] = {}
        """Where alone a wanted row may differ; of one that is not named, anywhere."""
        self._lines: dict[int, tuple[Stretch, Style, Sequence[Segment]]] = {}
        """What was drawn into a row last, and where."""
        self.turn = 0
        """Counts what the user asked for: rows changed in a later turn are sent before others."""
        self._turns: dict[int, int] = {}

    def cells(self, segments: Iterable[Segment]) -> list[Cell]:
        """Return text and styles as cells; combining characters join the cell before them."""
        out: list[Cell] = []
        for text, style, control in segments:
            if control:
                continue
            known = self._pens.get(id(style))
            pen = known[1] if known else self._new_pen(style)
            drawn = self._drawn.get((text, id(pen)))
            if drawn is not None:
                out += drawn
                continue
            if is_sure(text):
                out += self._keep(text, pen)
                continue
            for char in text:
                width = char_width(char)
                if width:
                    out.append((char, pen.ground if char == " " else pen))
                    if width > 1:
                        out.append(("", pen))
                elif out:
                    base = -1 if out[-1][0] or len(out) < 2 else -2
                    out[base] = (out[base][0] + char, out[base][1])
        return out

    def fitted(self, segments: Iterable[Segment], count: int, blank: Style) -> list[Cell]:
        """Return the cells of segments cut off or filled up to exactly so many."""
        out = self.cells(segments)
        if len(out) > count:
            # Half of a wide character is none.
            end = count - (out[count][0] == "")
            del out[end:]
        if len(out) < count:
            out += self.cells([Segment(" " * (count - len(out)), blank)])
        return out

    def row(self, y: int) -> list[Cell]:
        """Return a copy of what row `y` is to show, empty if that is not known."""
        wanted = self._wanted.get(y)
        return (self._rows.get(y, []) if wanted is None else wanted)[:]

    def change(self, y: int, new: list[Cell]) -> None:
        """Let row `y` show `new` as soon as a `take` gets to it."""
        if self.turn and self._turns.get(y) != self.turn:
            # Behind what is of the same turn, not where it waited before.
            self._wanted.pop(y, None)
            self._turns[y] = self.turn
        self._wanted[y] = new
        self._places.pop(y, None)
        self._lines.pop(y, None)

    def draw(self, y: int, place: Stretch, line: Sequence[Segment], blank: Style) -> None:
        """Let row `y` show a line as by `change`, cut off or filled up to its place.

        Of a line that was drawn there last, segments that are the same objects cost nothing.
        """
        row, start = self.row(y), place[0]
        known = self._lines.get(y)
        is_open = y in self._wanted
        changed = None
        if known is not None and known[0] == place and known[1] is blank:
            changed = self._replace(row, place, known[2], line)
        if changed is None:
            row[start : place[1]] = self.fitted(line, place[1] - start, blank)
        self.change(y, row)
        if changed is not None and not is_open:
            self._places[y] = changed
        self._lines[y] = place, blank, line

    def _replace(
        self,
        row: list[Cell],
        place: Stretch,
        before: Sequence[Segment],
        line: Sequence[Segment],
    ) -> list[Stretch] | None:
        """Put the segments that changed into a row, and return where; None if others moved."""
        if len(before) != len(line):
            return None
        changed: list[Stretch] = []
        x = place[0]
        for old, new in zip(before, line, strict=True):
            text = old[0]
            if not is_sure(text):
                return None
            end = x + len(text)
            if old is not new and (new[0] != text or new[1] is not old[1]):
                cells = self.cells((new,))
                if len(cells) != len(text) or end > place[1]:
                    return None
                row[x:end] = cells
                changed.append((x, end))
            x = end
        return changed

    @property
    def pending(self) -> bool:
        """Whether rows are left that no `take` got to yet."""
        return bool(self._wanted)

    def take(self, size: int | None = None) -> str:
        """Return the bytes that make the terminal show what is wanted of it.

        They leave the terminal without a look of its own. With a `size` they end with the row
        that reaches it; what waits is what changes until then. A row is never behind one that
        began to wait later, unless that is of a later turn.
        """
        strokes = RowDiff(erases=self._erases)
        rows = list(self._wanted)
        if self._turns:
            rows.sort(key=lambda y: -self._turns.get(y, 0))
        for y in rows:
            if size is not None and strokes.size >= size:
                break
            new = self._wanted.pop(y)
            strokes.add(y, self._rows.get(y, []), new, self._places.pop(y, None))
            self._rows[y] = new
            self._turns.pop(y, None)
        return strokes.take()

    def _keep(self, text: str, pen: SgrStyle) -> list[Cell]:
        """Return the cells of a text, the same objects as long as it comes again."""
        if len(self._drawn) >= _MOST_DRAWN:
            self._drawn.clear()
        ground = pen.ground
        cells = [(char, ground if char == " " else pen) for char in text]
        self._drawn[text, id(pen)] = cells
        return cells

    def _new_pen(self, style: Style | None) -> SgrStyle:
        pen = self._pen_of(codes_of(style, self._color_system))
        if len(self._pens) >= _MOST_PENS:
            self._pens.clear()
        self._pens[id(style)] = style, pen
        return pen

    def _pen_of(self, codes: Codes) -> SgrStyle:
        pen = self._same.get(codes)
        if pen is None:
            ground = ground_of(codes)
            pen = SgrStyle(codes, None if ground == codes else self._pen_of(ground))
            self._same[codes] = pen
        return pen


def color_system(environ: Mapping[str, str]) -> ColorSystem:
    """Return how many colours the terminal has, as Rich calls that."""
    return _COLOR_SYSTEMS[color_bits(environ)]
