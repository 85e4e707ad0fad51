"""The terminal's contents, cell by cell, and the fewest bytes to change them.

Pictures from Textual's compositor and rows that panels draw directly both end here, so that it does
not matter which of them drew a cell. Cells of one style are drawn together, wherever they are:
moving the cursor takes a few bytes, changing the style up to forty.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, groupby, repeat
from operator import itemgetter, ne

from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from gpudash.model.text import char_width
from gpudash.system.terminal import color_bits

Sgr = str
"""A style in SGR parameters: `background|attributes|foreground`, empty where it is the default."""

Cell = tuple[str, Sgr]
"""A character with its style; the right half of a wide character is an empty string.

A blank has only the visible parts of a style.
"""

Run = tuple[bool, Sgr, int, int, int, str]
"""Whether all terminals agree on the text's width, its style, the row, the first column, the
end column, and the text.
"""

Moved = tuple[int, int, int, int]
"""A part of a row that moves left by a cell: its number in the row, the row, its new first
column, and the column that it vacates.
"""

PLAIN = "||"
_UNKNOWN: Cell = "", ""
"""A cell not drawn yet, whatever the terminal may show there."""
_MAX_CACHED = 4096
_MAX_CELLS = 1 << 15
"""Cells of cached texts, about 2 MB: with whole lines among them, a count would not limit it."""
_UNLIMITED = 1 << 16
_GAP = 4
"""Unchanged cells to redraw rather than jump over: a jump takes as many bytes."""
_RUN_BYTES = 20
"""Approximate bytes of a run besides its text."""
_MIN_MOVED = 8
"""Differing cells from which a part is moved rather than redrawn, for the same reason."""
_FEW_BLANKS = 4
"""Blanks at the end of a text to write rather than erase, for the same reason."""
_PICTURE = re.compile(
    "([^\x00-\x1f\x7f-\x9f]+)|\x1b\\[([\\d;]*)m|\x1b\\[(\\d+);(\\d+)H|\n",
)
_PARAMETER = re.compile(r"[34]8;(?:5;\d+|2;\d+;\d+;\d+)|\d+")
_CODES = re.compile(r"\x1b\[([\d;]*)m")
_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
_UNSEEN_ON_BLANKS = frozenset("12356")
_ERASING = (
    *("xterm", "linux", "rxvt", "alacritty", "foot", "gnome"),
    *("kitty", "konsole", "putty", "st-", "vte", "wezterm"),
)
"""Prefixes of TERM for terminals that surely erase with the current background.

Not `screen` and `tmux`: old versions do not, and they send less to the outer terminal anyway.
"""
_MOVING = (
    *(name for name in _ERASING if name != "rxvt"),
    *("rxvt-unicode", "screen", "tmux", "vt220"),
)
"""Prefixes of TERM for terminals that surely delete and insert characters.

The VT100 does neither, the VT102 does not insert, and terminfo has no deletion for the old rxvt.
"""
_COLOR_SYSTEMS = {24: ColorSystem.TRUECOLOR, 8: ColorSystem.EIGHT_BIT, 4: ColorSystem.STANDARD}

_is_sure = re.compile("[ -~\u2500-\u259f\u25a0-\u25fc\u2800-\u28ff]*").fullmatch
"""Matches text in which every terminal gives each character one cell: ASCII, boxes, braille."""


def color_system(environ: Mapping[str, str]) -> ColorSystem:
    """Return the terminal's colour system, as Rich names it."""
    return _COLOR_SYSTEMS[color_bits(environ)]


def erases(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal surely erases with the current background."""
    return environ.get("TERM", "").startswith(_ERASING)


def moves(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal surely deletes and inserts characters (DCH, ICH)."""
    return environ.get("TERM", "").startswith(_MOVING)


class ScreenBuffer:
    """The contents of the terminal, kept in step with every byte sent to it."""

    def __init__(self, colors: ColorSystem, *, erases: bool = False, moves: bool = False) -> None:
        """Begin with a terminal whose contents are unknown.

        `erases` says whether it erases with the current background, `moves` whether it deletes and
        inserts characters.
        """
        self.width = self.height = _UNLIMITED
        """Columns and rows of the terminal; anything beyond is dropped."""
        self.size = 0
        """Bytes of the last picture taken."""
        self._colors, self._erases, self._moves = colors, erases, moves
        self._rows: dict[int, list[Cell]] = {}
        self._wanted: dict[int, list[Cell]] = {}
        self._overdue: dict[int, None] = {}
        """Rows that changed again while waiting, in order; every other row taken is one of them."""
        self._is_for_overdue = False
        self._cursor = self._cursor_wanted = 0, 0
        """Where Textual wants the hidden cursor: an input method composes text there."""
        # Keyed by id, as hashing a style is slow; the style is kept so that its id is not reused.
        self._styles: dict[int, tuple[Style | None, Sgr]] = {}
        self._texts: dict[tuple[str, Sgr], list[Cell]] = {}
        self._cached_cells = 0

    def forget(self) -> None:
        """Redraw every cell that is put from now on."""
        self._rows.clear()
        self._wanted.clear()
        self._overdue.clear()

    def cells(self, segments: Iterable[Segment]) -> list[Cell]:
        """Return text and styles as cells; combining characters join the cell before them."""
        out: list[Cell] = []
        texts, styles = self._texts, self._styles
        for text, style, control in segments:
            if not control:
                known = styles.get(id(style))
                sgr = known[1] if known else self._new_style(style)
                out += texts.get((text, sgr)) or self._text(text, sgr)
        return out

    def draw(self, y: int, x: int, width: int, line: Iterable[Segment], blank: Style) -> None:
        """Show a line in row `y` from column `x` on, cut off or padded to a width."""
        cells = self.cells(line)
        if len(cells) > width:
            # Half of a wide character cannot be shown.
            del cells[width - (cells[width][0] == "") :]
        if len(cells) < width:
            cells += self.cells([Segment(" " * (width - len(cells)), blank)])
        self.put(y, x, cells)

    def put(self, y: int, x: int, cells: Sequence[Cell]) -> None:
        """Show cells in row `y` from column `x` on."""
        if y >= self.height:
            # The terminal would show it in its last row.
            return
        row = self._wanted.pop(y, None)
        if row is None:
            row = self._rows.get(y, [])[:]
        else:
            self._overdue.setdefault(y)
        # Rows put last are taken first: the effect of a key must not wait for that of a sample.
        self._wanted[y] = row
        end = min(x + len(cells), self.width)
        if end <= x:
            return
        row += [_UNKNOWN] * (end - len(row))
        # When a wide character is half covered, its other half becomes blank.
        for half, other in ((x, x - 1), (end, end)):
            if 0 < half < len(row) and row[half][0] == "" != row[half][1]:
                row[other] = " ", ground_of(row[half][1])
        row[x:end] = cells[: end - x]

    def feed(self, picture: str) -> bool:
        """Put a picture of Textual's compositor; return False, and forget all, if it is not one."""
        y = x = -1
        end = 0
        sgr, cells = PLAIN, list[Cell]()
        for match in _PICTURE.finditer(picture):
            text, codes, row, column = match.groups()
            if match.start() != end or (codes and sgr != PLAIN and codes != "0"):
                break
            if text and x < 0:
                break
            end = match.end()
            if text:
                cells += self._texts.get((text, sgr)) or self._text(text, sgr)
            elif codes is not None:
                sgr = sgr_of(codes)
            else:
                if cells:
                    self.put(y, x, cells)
                    cells = []
                y, x = (int(row) - 1, int(column) - 1) if row else (y, -1)
        if end == len(picture) and not cells and x >= 0:
            self._cursor_wanted = y, x
            return True
        self.forget()
        return False

    @property
    def is_behind(self) -> bool:
        """Whether rows are waiting to be taken."""
        return bool(self._wanted)

    def take(self, most: float = math.inf) -> str:
        """Return the bytes that show what was put; they leave the terminal without a style.

        After about `most` bytes, the rows put first wait, but not for ever.
        """
        runs: list[Run] = []
        moved: list[Moved] = []
        size = 0
        while self._wanted and size < most:
            y = self._next()
            row = self._wanted.pop(y)
            old = self._rows.get(y, [])
            if row != old:
                parts = list(_moved(old, row)) if self._moves else []
                for number, (start, end) in enumerate(parts):
                    moved.append((number, y, start, end))
                    old = [*old[:start], *old[start + 1 : end + 1], _UNKNOWN, *old[end + 1 :]]
                found = [*self._runs(y, old, row)]
                size += sum(_RUN_BYTES + len(run[-1]) for run in found)
                runs += found
            self._rows[y] = row
        if not runs and self._cursor == self._cursor_wanted:
            return ""
        # Text that a terminal may draw too wide, over what follows, comes first.
        runs.sort()
        out, at = _moving(moved)
        now = PLAIN
        for sure, sgr, y, x, end, text in runs:
            drawn, column = self._erased(text, end) if self._may_erase(sgr) else (text, end)
            out += change(now, sgr), _move(at, y, x), drawn
            now, at = sgr, (y, column) if sure and column < self.width else (-1, -1)
        if now != PLAIN:
            out.append("\x1b[m")
        self._cursor = self._cursor_wanted
        if self._cursor != (0, 0):
            out.append("\x1b[{};{}H".format(*(each + 1 for each in self._cursor)))
        data = "".join(out)
        self.size = len(data.encode())
        return data

    def _next(self) -> int:
        """Return the next row: the one put last or, in turn, one that is overdue."""
        self._is_for_overdue = bool(self._overdue) and not self._is_for_overdue
        y = next(iter(self._overdue) if self._is_for_overdue else reversed(self._wanted))
        self._overdue.pop(y, None)
        return y

    def _erased(self, text: str, end: int) -> tuple[str, int]:
        """Return a text that ends at a column, with its last blanks erased, and where it ends."""
        kept = text.rstrip(" ")
        blanks = len(text) - len(kept)
        if blanks <= _FEW_BLANKS:
            return text, end
        # A cursor past the last column would erase that instead.
        erase = "\x1b[K" if end == self.width else f"\x1b[{blanks}X"
        return kept + erase, end - blanks

    def _runs(self, y: int, old: Sequence[Cell], row: Sequence[Cell]) -> Iterator[Run]:
        """Yield the differences, in runs of one style."""
        differing = compress(range(len(row)), map(ne, row, chain(old, repeat(_UNKNOWN))))
        start = end = -1
        sgr = ground = PLAIN
        for x in differing:
            char, style = row[x]
            if start >= 0:
                # Most differing cells are adjacent, with nothing between them.
                is_same = style == sgr or (char == " " and style == ground)
                gap = x - end
                if is_same and (not gap or (gap <= _GAP and _is_in(sgr, ground, row[end:x]))):
                    end = x + 1
                    continue
                yield _run(sgr, y, start, end, row)
            sgr, ground = style, ground_of(style)
            # Half of a wide character cannot be drawn.
            start, end = x - (char == "" and x > 0), x + 1
        if start >= 0:
            yield _run(sgr, y, start, end, row)

    def _may_erase(self, sgr: Sgr) -> bool:
        background = sgr.partition("|")[0]
        return (self._erases or not background) and ground_of(sgr) == background + PLAIN

    def _text(self, text: str, sgr: Sgr) -> list[Cell]:
        """Return the cells of a text, cached as the same objects."""
        ground = ground_of(sgr)
        cells: list[Cell] = []
        for char in text:
            width = 1 if char < "\x7f" else char_width(char)
            if width:
                cells.append((char, ground if char == " " else sgr))
                if width > 1:
                    cells.append(("", sgr))
            elif cells:
                base = -1 if cells[-1][0] or len(cells) < 2 else -2
                cells[base] = cells[base][0] + char, sgr
        self._cached_cells += max(1, len(cells))
        if self._cached_cells > _MAX_CELLS:
            self._texts.clear()
            self._cached_cells = len(cells)
        self._texts[text, sgr] = cells
        return cells

    def _new_style(self, style: Style | None) -> Sgr:
        codes = _CODES.search(style.render("x", color_system=self._colors) if style else "")
        sgr = sgr_of(codes[1]) if codes else PLAIN
        if len(self._styles) >= _MAX_CACHED:
            self._styles.clear()
        self._styles[id(style)] = style, sgr
        return sgr


def _moved(old: Sequence[Cell], row: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a row that were one cell further right, as in growing charts.

    A part extends from its new first column to the column that it vacates.
    """
    last = min(len(old), len(row)) - 1
    differing = [*compress(range(last), map(ne, row, old))]
    end = -1
    for number, start in enumerate(differing):
        if start < end or row[start] != old[start + 1] or start + _MIN_MOVED > last:
            continue
        end = start
        while end < last and row[end] == old[end + 1]:
            end += 1
        if bisect_left(differing, end) - number >= _MIN_MOVED:
            # What follows is shifted too, which must not split a wide character.
            if not _is_sure("".join([char or "\0" for char, _ in old[start:]])):
                return
            yield start, end


def _moving(moved: Iterable[Moved]) -> tuple[list[str], tuple[int, int]]:
    """Return the bytes that move parts of rows, and the cursor's position after: -1 if unknown.

    The first parts of adjacent rows are moved together.
    """
    out, at = list[str](), (-1, -1)
    for _, group in groupby(sorted(moved), itemgetter(0)):
        parts = list(group)
        for code, column in (("\x1b[P", 2), ("\x1b[@", 3)):
            for part in parts:
                place = part[1], part[column]
                out += _move(at, *place), code
                at = place
    return out, at


def _is_in(sgr: Sgr, ground: Sgr, cells: Sequence[Cell]) -> bool:
    """Return whether cells have a style, or are blanks that look the same in it."""
    return all(style == sgr or (char == " " and style == ground) for char, style in cells)


def _run(sgr: Sgr, y: int, start: int, end: int, row: Sequence[Cell]) -> Run:
    text = "".join([char for char, _ in row[start:end]])
    return _is_sure(text) is not None, sgr, y, start, end, text


def _move(at: tuple[int, int], y: int, x: int) -> str:
    """Return the bytes that move the cursor from where it is, -1 if unknown."""
    ahead = x - at[1]
    if y == at[0]:
        if not ahead:
            return ""
        return f"\x1b[{abs(ahead) if abs(ahead) > 1 else ''}{'C' if ahead > 0 else 'D'}"
    if y == at[0] + 1 and at[0] >= 0 and -5 < ahead <= 0:
        return "\x1b[B" + "\b" * -ahead
    return f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H"


@lru_cache(maxsize=_MAX_CACHED)
def sgr_of(codes: str) -> Sgr:
    """Return the style that SGR parameters set on a terminal without any."""
    background = foreground = ""
    attributes: list[str] = []
    for code in _PARAMETER.findall(codes):
        kind = code[0] if ";" in code else code[:-1]
        if kind in ("3", "9"):
            foreground = "" if code == "39" else code
        elif kind in ("4", "10"):
            background = "" if code == "49" else code
        elif code != "0":
            attributes.append(code)
    return f"{background}|{';'.join(attributes)}|{foreground}"


@lru_cache(maxsize=_MAX_CACHED)
def ground_of(sgr: Sgr) -> Sgr:
    """Return the part of a style visible on a blank: the background, or all if underlined."""
    background, attributes, _ = sgr.split("|")
    return background + PLAIN if _split(attributes) <= _UNSEEN_ON_BLANKS else sgr


@lru_cache(maxsize=_MAX_CACHED)
def change(before: Sgr, after: Sgr) -> str:
    """Return the shortest sequence that turns one style into another."""
    if before == after:
        return ""
    (old_ground, old, old_color), (ground, new, color) = before.split("|"), after.split("|")
    whole = _sequence("0", new, color, ground) if after != PLAIN else "\x1b[m"
    gone, kept = _split(old) - _split(new), _split(new)
    if not gone <= _ENDS.keys():
        return whole
    ends = {_ENDS[code] for code in gone}
    # The code that ends bold also ends dim.
    begins = {code for code in kept if code not in _split(old) or _ENDS.get(code) in ends}
    parts = [*sorted(ends), *sorted(begins)]
    parts += [color or "39"] * (color != old_color) + [ground or "49"] * (ground != old_ground)
    return min(_sequence(*parts), whole, key=len)


def _sequence(*parts: str) -> str:
    return f"\x1b[{';'.join(part for part in parts if part)}m"


def _split(attributes: str) -> set[str]:
    return set(attributes.split(";")) if attributes else set()
