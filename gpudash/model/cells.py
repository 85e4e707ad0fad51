"""Text measured in terminal cells: a wide character takes two, a combining mark none."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal

Align = Literal["<", ">"]


def width(text: str) -> int:
    """Return the number of cells that a line of printable text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def cut(text: str, cells: int, *, mark: str = "…") -> str:
    """Return `text` in at most that many cells; a shortened one ends in `mark` where it fits."""
    if width(text) <= cells:
        return text
    if width(mark) > cells:
        mark = ""
    return _head(text, cells - width(mark)) + mark


def pad(text: str, cells: int, align: Align = "<", *, mark: str = "…") -> str:
    """Return `text` in exactly that many cells, shortened or filled with spaces."""
    text = cut(text, cells, mark=mark)
    space = " " * (cells - width(text))
    return space + text if align == ">" else text + space


def wrap(text: str, cells: int, *, lines: int = 3, mark: str = "…") -> list[str]:
    """Return `text` broken between words into at most that many lines of at most `cells`."""
    out = [""]
    for word in text.split():
        joined = f"{out[-1]} {word}" if out[-1] else word
        if width(joined) <= cells or not out[-1]:
            out[-1] = joined
        else:
            out.append(word)
    if len(out) > lines:
        out[lines - 1 :] = [" ".join(out[lines - 1 :])]
    return [cut(line, cells, mark=mark) for line in out]


def fold(text: str, cells: int) -> list[str]:
    """Return all of `text` in lines of at most that many cells, broken at blanks where it can."""
    cells = max(1, cells)
    lines: list[str] = []
    while text:
        # Marks take no cell; clean text has at most two on a character.
        line = _head(text[: 4 * cells], cells) or text[:1]
        blank = line.rfind(" ")
        if len(line) < len(text) and text[len(line)] != " " and blank > 0:
            line = line[:blank]
        lines.append(line.rstrip())
        text = text[len(line) :].lstrip()
    return lines or [""]


def _head(text: str, cells: int) -> str:
    """Return the longest beginning that fits, with the marks of its last character."""
    taken = 0
    for end, char in enumerate(text):
        taken += char_width(char)
        if taken > cells:
            return text[:end]
    return text


# Wide since Unicode 16, and letters of flags, which some terminals draw wide where they are alone.
_WIDE_SOMEWHERE = (
    *((0x2630, 0x2637), (0x268A, 0x268F), (0x4DC0, 0x4DFF)),
    *((0x1D300, 0x1D356), (0x1D360, 0x1D376), (0x1F1E6, 0x1F1FF)),
)


@lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    """Return the cells of one printable character: 0, 1 or 2, the most that a terminal gives it.

    A line that takes more than it was counted for would go on in the next row.
    """
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 2
    return 2 if any(first <= ord(char) <= last for first, last in _WIDE_SOMEWHERE) else 1
