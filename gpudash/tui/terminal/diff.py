"""The bytes that turn cells of a terminal into others, as few as there can be.

What has the same look is drawn together, wherever it stands: to go there takes a few bytes, to
change the look up to forty. A blank has no look but its background.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import ne

from gpudash.tui.terminal.sgr import SgrStyle

Cell = tuple[str, SgrStyle]
"""A character with its look; the right half of a wide character is an empty string."""

Stretch = tuple[int, int]
"""The first cell of a part of a row, and the one behind its last."""

Run = tuple[int, int, int, str, bool]
"""A row, its cells from the first to before the second number, their text, and whether the row
ends there. All have one look."""

_RUN_BYTES = 6
_GAP_BYTES = 4
"""What cells may cost that are drawn again as they are: a jump over them costs as much."""
_FEW_BLANKS = 4
_MANY_BLANKS = re.compile(" {12,}")
"""Blanks between texts that are cheaper to erase and jump over."""
_ERASING = (
    "xterm",
    "linux",
    "rxvt",
    "alacritty",
    "foot",
    "gnome",
    "kitty",
    "konsole",
    "putty",
    "st-",
    "vte",
    "wezterm",
)
"""How TERM begins on terminals that surely erase in the background that is set.

Not `screen` and `tmux`: old ones do not, and they send less to the terminal around them anyway.
"""

_sure = re.compile("[ -~\u2500-\u259f\u25a0-\u25fc\u2800-\u28ff]*").fullmatch


def is_sure(text: str) -> bool:
    """Return whether all terminals give each character one cell: ASCII, boxes, braille."""
    return text.isascii() or _sure(text) is not None


def erases(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal surely erases in the background that is set."""
    return environ.get("TERM", "").startswith(_ERASING)


class RowDiff:
    """Collects the cells that differ, and draws those of one look after those of another."""

    def __init__(self, *, erases: bool) -> None:
        self.size = 0
        """About how many bytes it takes to draw what was added."""
        self._erases = erases
        self._runs: dict[SgrStyle, list[Run]] = {}
        self._blanks: dict[SgrStyle, list[Run]] = {}
        """Runs without any text, by what is left of their look."""
        self._unsure: list[tuple[SgrStyle, Run]] = []
        """What a terminal may draw wider, and thereby over what stands behind it."""
        self._out: list[str] = []
        self._y = self._x = -1
        """Where the cursor surely is; -1 if that is not known."""

    def add(
        self,
        y: int,
        old: Sequence[Cell],
        new: Sequence[Cell],
        places: Iterable[Stretch] | None = None,
    ) -> None:
        """Take what differs in row `y`; what is beyond the end of `old` is not known.

        Only what is within `places` can differ, anything where none are given.
        """
        start = end = 0
        pen: SgrStyle | None = None
        bare = True
        """Whether there are only blanks so far."""
        for x in _differing(old, new, places):
            char, wanted = new[x]
            blank = char == " "
            if pen is not None:
                joined = None
                if wanted is pen or (blank and wanted is pen.ground):
                    joined = pen
                elif bare and wanted.ground is pen:
                    joined = wanted
                if joined and (x == end or self._bridged(joined, new[end:x], bare and blank)):
                    pen, end, bare = joined, x + 1, bare and blank
                    continue
                self._close(y, start, end, new, pen)
            start, end, pen, bare = x, x + 1, wanted, blank
            if char == "" and start:
                start -= 1  # half a character is none
        if pen is not None:
            self._close(y, start, end, new, pen)

    def take(self) -> str:
        """Return what draws it all and leaves the terminal without a look; empty if nothing."""
        before: SgrStyle | None = None
        for pen, run in self._unsure:
            self._out.append(pen.after(before))
            self._draw(pen, run)
            before = pen
        hosts = {pen.ground: pen for pen in self._runs if pen.bare}
        for ground, blanks in self._blanks.items():
            runs = self._runs.setdefault(hosts.get(ground, ground), [])
            runs += blanks
            runs.sort()
        for pen in sorted(self._runs, key=_order):
            self._out.append(pen.after(before))
            for run in self._runs[pen]:
                self._draw(pen, run)
            before = pen
        return "".join([*self._out, "\x1b[0m"]) if before else ""

    def _bridged(self, pen: SgrStyle, gap: Sequence[Cell], bare: bool) -> bool:
        """Whether cells that are as wanted are rather drawn again than jumped over."""
        if bare and self._may_erase(pen):
            return gap.count((" ", pen)) == len(gap)
        if len(gap) > _GAP_BYTES:
            return False
        ground = pen.ground
        chars = [c for c, of in gap if of is pen or (of is ground and c == " ")]
        return len(chars) == len(gap) and len("".join(chars).encode()) <= _GAP_BYTES

    def _close(self, y: int, start: int, end: int, row: Sequence[Cell], pen: SgrStyle) -> None:
        """Note a run of one look."""
        text = "".join([char for char, _ in row[start:end]])
        run = (y, start, end, text, end == len(row))
        self.size += _RUN_BYTES + len(text.encode())
        if pen.bare and not text.strip(" "):
            self._blanks.setdefault(pen, []).append(run)
        elif is_sure(text):
            self._runs.setdefault(pen, []).append(run)
        else:
            self._unsure.append((pen, run))

    def _may_erase(self, pen: SgrStyle) -> bool:
        return pen.bare and (self._erases or not pen.background)

    def _draw(self, pen: SgrStyle, run: Run) -> None:
        """Draw a run in the look that is set."""
        y, start, end, text, at_edge = run
        self._go(y, start)
        sure = is_sure(text)
        if "     " in text and self._may_erase(pen):
            kept = text.rstrip(" ")
            blanks = len(text) - len(kept)
            if blanks > _FEW_BLANKS:
                # A cursor that has passed the last cell would erase that instead.
                erasing = "\x1b[K" if at_edge else f"\x1b[{blanks}X"
                text, end, at_edge = kept + erasing, end - blanks, False
            text = _MANY_BLANKS.sub(_jumped, text)
        self._out.append(text)
        self._y, self._x = (y, end) if sure and not at_edge else (-1, -1)

    def _go(self, y: int, x: int) -> None:
        """Move the cursor."""
        ahead = x - self._x
        out = self._out
        if y != self._y:
            if y - self._y == 1 and self._y >= 0 and -5 < ahead <= 0:
                out.append("\x1b[B" + "\b" * -ahead)
            else:
                out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        elif ahead > 0:
            out.append(f"\x1b[{ahead}C" if ahead > 1 else "\x1b[C")
        elif ahead:
            out.append(f"\x1b[{-ahead}D")


def _differing(
    old: Sequence[Cell], new: Sequence[Cell], places: Iterable[Stretch] | None
) -> Iterable[int]:
    """Return where a row differs, from left to right."""
    if places is None:
        differing = compress(range(len(new)), map(ne, new, old))
        return chain(differing, range(len(old), len(new)))
    return chain.from_iterable(
        compress(range(start, end), map(ne, new[start:end], old[start:end]))
        for start, end in places
    )


def _jumped(blanks: re.Match[str]) -> str:
    count = len(blanks[0])
    return f"\x1b[{count}X\x1b[{count}C"


def _order(pen: SgrStyle) -> tuple[str, bool, str, str]:
    """Bring looks together between which a change is short."""
    return pen.background, pen.bare, pen.attributes, pen.foreground
