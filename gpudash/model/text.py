"""Foreign text made harmless: the single entry point for names from others.

Any user of a machine can name a process, so command lines, user names, container names and the
driver's own strings may contain escape sequences, newlines, bidi overrides or invalid bytes.
`clean` makes them printable, once, where they enter; everything later may trust the type.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NewType

SafeText = NewType("SafeText", str)
"""Text that `clean` returned: one line, printable, no surrogates, safe to send to a terminal."""

LIMIT = 4096
"""Characters kept of one foreign string; the rest is replaced by an ellipsis."""

NAME_BYTES = 256
"""Limit of a user-chosen name in a JSON document."""
_MAX_WIRE_BYTES = 4
"""For one character of clean text."""
_QUOTES = len('"",')

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me"})
_MARKS_IN_A_ROW = 2

# Unicode's Default_Ignorable_Code_Point beyond those categories: invisible letters and marks,
# of which variation selectors also widen the character before them.
_UNSEEN = frozenset(
    chr(code)
    for first, last in (
        *((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164)),
        *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF)),
    )
    for code in range(first, last + 1)
)


def clean(text: str, limit: int = LIMIT) -> SafeText:
    """Return `text` as one printable line: control and invisible characters as escapes.

    Undecodable bytes (surrogate escapes) are shown as `\\xff`, tabs as a space, a newline as
    `\\n`; at most two combining marks stay on one character. Text longer than `limit` ends in `…`.
    """
    if len(text) <= limit and text.isascii() and text.isprintable():
        return SafeText(text)
    return _clean(text[: limit + 1], limit)


def clean_bytes(raw: bytes, limit: int = LIMIT) -> SafeText:
    """Return bytes of an unknown encoding as safe text, undecodable ones as `\\xff`."""
    return clean(raw.decode("utf-8", "surrogateescape"), limit)


def wire_size(text: str) -> int:
    """Return the bytes of clean text in a JSON document, without its quotes."""
    return len(text.encode()) + text.count('"') + text.count("\\")


def bound(text: SafeText, limit: int) -> SafeText:
    """Return clean text of at most `limit` bytes of JSON; a shortened one ends in `…`."""
    if _MAX_WIRE_BYTES * len(text) <= limit or wire_size(text) <= limit:
        return text
    left, end = limit - wire_size("…"), 0
    for char in text[:limit]:
        left -= wire_size(char)
        if left < 0:
            break
        end += 1
    return SafeText(text[:end] + "…")


def bound_all(texts: Sequence[SafeText], limit: int) -> tuple[SafeText, ...]:
    """Return texts of at most `limit` bytes of JSON in total.

    The first that does not fit is shortened, and later ones are left out.
    """
    sizes = [wire_size(text) + _QUOTES for text in texts]
    if sum(sizes) <= limit:
        return tuple(texts)
    kept: list[SafeText] = []
    left = limit - wire_size("…") - _QUOTES
    for text, size in zip(texts, sizes, strict=True):
        if size > left:
            room = left + wire_size("…")
            kept.append(bound(text, min(room, size - _QUOTES - 1)))
            break
        kept.append(text)
        left -= size
    return tuple(kept)


@lru_cache(maxsize=4096)
def is_plain(char: str) -> bool:
    """Whether `clean` keeps a character in any position, which is not so for marks."""
    return unicodedata.category(char) not in _MARKS and clean(char) == char


@lru_cache(maxsize=4096)
def _clean(text: str, limit: int) -> SafeText:
    out: list[str] = []
    marks = 0
    for char in text[:limit]:
        category = unicodedata.category(char)
        hidden = category in _ESCAPED or char in _UNSEEN
        if category in _MARKS and not hidden:
            marks += 1
            if marks <= _MARKS_IN_A_ROW and out:
                out.append(char)
            continue
        marks = 0
        if hidden:
            out.append(_escape(char))
        else:
            out.append(" " if category == "Zs" else char)
    return SafeText("".join(out) + ("…" if len(text) > limit else ""))


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": " "}[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_MAX_COMPARED = 60
"""Characters of a mistyped word to compare: the comparison takes quadratic time."""


def did_you_mean(word: str, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> str:
    """Return `did you mean a or b?` with the closest of the names, "" if none is close.

    Case and leading dashes are ignored. `cutoff` is the minimum similarity, 0 to 1.
    """
    from difflib import get_close_matches

    known = {name.lower().lstrip("-"): name for name in names}
    wanted = word[:_MAX_COMPARED].lower().lstrip("-")
    close = get_close_matches(wanted, known, n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(known[each] for each in close)}?" if close else ""


Align = Literal["<", ">"]
StyledLine = list[tuple[str, str]]
"""Texts with their roles, such as `heading` or a level; print and screen style each role."""


def dashed(digits: str) -> str:
    """Return the 32 digits of a UUID in the usual form: 8-4-4-4-12."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def width(text: str) -> int:
    """Return the number of cells that a line of printable text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def cut(text: str, cells: int, *, mark: str = "…") -> str:
    """Return `text` in at most `cells`; a shortened one ends in `mark` if that fits."""
    if width(text) <= cells:
        return text
    if width(mark) > cells:
        mark = ""
    return _head(text, cells - width(mark)) + mark


def pad(text: str, cells: int, align: Align = "<", *, mark: str = "…") -> str:
    """Return `text` in exactly `cells`, shortened or padded with spaces."""
    text = cut(text, cells, mark=mark)
    space = " " * (cells - width(text))
    return space + text if align == ">" else text + space


_BREAK = r"(?<!\d) | (?!(?:%|°C|k?Wh?|MHz|[mµ]?s|min|h|days|[KMGTP]?i?B(?:/s)?)(?!\w))"
"""A blank at which a line may break: a number keeps its unit."""
_MAX_UNIT = 6
"""Characters of a unit and the one after it."""


def wrap(text: str, cells: int, *, lines: int = 3, mark: str = "…") -> list[str]:
    """Return `text` broken between words into up to `lines` lines of up to `cells`."""
    out = [""]
    for word in re.split(_BREAK, " ".join(text.split())):
        joined = f"{out[-1]} {word}" if out[-1] else word
        if width(joined) <= cells or not out[-1]:
            out[-1] = joined
        else:
            out.append(word)
    if len(out) > lines:
        out[lines - 1 :] = [" ".join(out[lines - 1 :])]
    return [cut(line, cells, mark=mark) for line in out]


def fold(text: str, cells: int) -> list[str]:
    """Return all of `text` in lines of up to `cells`, broken between words if possible."""
    cells = max(1, cells)
    lines: list[str] = []
    while text:
        # Marks take no cell; clean text has at most two per character.
        line = _head(text[: 4 * cells], cells) or text[:1]
        if len(line) < len(text):
            ends = (each.start() for each in re.finditer(_BREAK, text[: len(line) + 1 + _MAX_UNIT]))
            line = line[: max((end for end in ends if end <= len(line)), default=0) or len(line)]
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


# Wide since Unicode 16, and regional indicators, which some terminals draw wide if alone.
_WIDE_SOMEWHERE = (
    *((0x2630, 0x2637), (0x268A, 0x268F), (0x4DC0, 0x4DFF)),
    *((0x1D300, 0x1D356), (0x1D360, 0x1D376), (0x1F1E6, 0x1F1FF)),
)


@lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    """Return the cells of one printable character: 0, 1 or 2, the maximum over terminals.

    A line wider than counted would continue in the next row.
    """
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 2
    return 2 if any(first <= ord(char) <= last for first, last in _WIDE_SOMEWHERE) else 1
