"""What the terminal shows, cell by cell, and the fewest bytes that turn it into something else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import ne

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.cells import char_width

_GAP = 3
"""Unchanged cells of one look that are cheaper to send again than to jump over."""


_MOST_PENS = 4096
_MOST_DRAWN = 4096

_SURE = re.compile("[\x1b -~\u2500-\u28ff]*").fullmatch
"""Whether all terminals agree on the width of a text: ASCII, boxes, blocks and braille."""


class Pen:
    """The escape codes of one look; two looks that send the same codes are one object."""

    __slots__ = ("attributes", "background", "foreground")

    def __init__(self, attributes: str, foreground: str, background: str) -> None:
        self.attributes = attributes
        self.foreground = foreground
        self.background = background

    def after(self, before: Pen | None) -> str:
        """Return the sequence that changes the terminal's look from `before` to this."""
        if before is self:
            return ""
        if before is None or before.attributes != self.attributes:
            parts = ["0", self.attributes, self.foreground, self.background]
        else:
            parts = []
            if before.foreground != self.foreground:
                parts.append(self.foreground or "39")
            if before.background != self.background:
                parts.append(self.background or "49")
        return f"\x1b[{';'.join(part for part in parts if part)}m"


Cell = tuple[str, Pen]
"""A character with its look; the right half of a wide character is an empty string."""

Stretch = tuple[int, int]
"""The first cell of a part of a row, and the one behind its last."""

_ATTRIBUTES = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("reverse", "7"),
    ("strike", "9"),
)


class Frame:
    """A picture of the terminal, kept in step with every byte that is sent to it."""

    def __init__(self, color_system: ColorSystem) -> None:
        self._color_system = color_system
        self._pens: dict[int, tuple[Style | None, Pen]] = {}
        # By id, for a look is hashed slowly; kept beside its pen, so that no other gets its id.
        self._same: dict[tuple[str, str, str], Pen] = {}
        self._drawn: dict[tuple[str, int], list[Cell]] = {}
        """The cells of texts in pens, of which none is ever let go."""
        self._rows: dict[int, list[Cell]] = {}
        self._wanted: dict[int, list[Cell]] = {}
        self._places: dict[int, list[Stretch]] = {}
        """Where alone a wanted row may differ; of one that is not named, anywhere."""
        self._lines: dict[int, tuple[Stretch, Style, Sequence[Segment]]] = {}
        """What was drawn into a row last, and where."""
        self._out: list[str] = []
        self._pen: Pen | None = None

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
            if text.isascii() or _SURE(text):
                out += self._keep(text, pen)
                continue
            for char in text:
                width = char_width(char)
                if width:
                    out.append((char, pen))
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
        """Let row `y` show `new` from the next `take` on."""
        self._wanted[y] = new
        self._places.pop(y, None)
        self._lines.pop(y, None)

    def draw(self, y: int, place: Stretch, line: Sequence[Segment], blank: Style) -> None:
        """Let row `y` show a line from the next `take` on, cut off or filled up to its place.

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
            if not (text.isascii() or _SURE(text)):
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

    def take(self) -> str:
        """Return the bytes that make the terminal show what is wanted of it.

        They leave the terminal without a look of its own.
        """
        for y, new in self._wanted.items():
            self._turn(y, new)
        self._wanted.clear()
        self._places.clear()
        if not self._out:
            return ""
        data = "".join(self._out) + "\x1b[0m"
        self._out.clear()
        self._pen = None
        return data

    def _keep(self, text: str, pen: Pen) -> list[Cell]:
        """Return the cells of a text, the same objects as long as it comes again."""
        if len(self._drawn) >= _MOST_DRAWN:
            self._drawn.clear()
        cells = self._drawn[text, id(pen)] = list(zip(text, repeat(pen)))
        return cells

    def _turn(self, y: int, new: list[Cell]) -> None:
        """Add the bytes that make row `y` show `new`."""
        old = self._rows.get(y, [])
        self._rows[y] = new
        out, pen, sure_of = self._out, self._pen, 0
        for start, end in _spans(old, new, self._places.get(y)):
            out.append(f"\x1b[{start - sure_of}C" if sure_of else f"\x1b[{y + 1};{start + 1}H")
            text = len(out)
            for char, wanted in new[start:end]:
                if wanted is not pen:
                    out.append(wanted.after(pen))
                    pen = wanted
                out.append(char)
            sure_of = end if _SURE("".join(out[text:])) else 0
        self._pen = pen

    def _new_pen(self, style: Style | None) -> Pen:
        style_or_none = style or Style.null()
        attributes = ";".join(code for name, code in _ATTRIBUTES if getattr(style_or_none, name))
        codes = (
            attributes,
            self._color(style_or_none, foreground=True),
            self._color(style_or_none, foreground=False),
        )
        pen = self._same.setdefault(codes, Pen(*codes))
        if len(self._pens) >= _MOST_PENS:
            self._pens.clear()
        self._pens[id(style)] = style, pen
        return pen

    def _color(self, style: Style, *, foreground: bool) -> str:
        color = style.color if foreground else style.bgcolor
        if color is None or color.is_default:
            return ""
        return ";".join(color.downgrade(self._color_system).get_ansi_codes(foreground))


def _spans(
    old: list[Cell], new: list[Cell], places: Iterable[Stretch] | None = None
) -> list[Stretch]:
    """Return the stretches of a row that must be sent, whole characters each.

    Only what is within `places` can differ, anything where none are given.
    """
    size = len(new)
    if places is None:
        differs = [*map(ne, new, old), *repeat(True, size - len(old))]
    else:
        differs = [False] * size
        for start, end in places:
            differs[start:end] = map(ne, new[start:end], old[start:end])
    spans: list[Stretch] = []
    x = 0
    while True in differs[x:]:
        start = differs.index(True, x)
        x = end = start + 1
        while x < size and x - end <= _GAP:
            if differs[x]:
                end = x + 1
            elif new[x][1] is not new[end - 1][1]:
                break
            x += 1
        while start and (new[start][0] == "" or (start < len(old) and old[start][0] == "")):
            start -= 1
        while end < size and new[end][0] == "":
            end += 1
        spans.append((start, end))
        x = end
    return spans


def color_system(environ: Mapping[str, str]) -> ColorSystem:
    """Return how many colours the terminal has, as Textual will find too."""
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return ColorSystem.TRUECOLOR
    colors = environ.get("TERM", "").strip().lower().rpartition("-")[2]
    return ColorSystem.EIGHT_BIT if colors in {"256color", "kitty"} else ColorSystem.STANDARD
