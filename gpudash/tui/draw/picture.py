"""Text in an SVG that looks the same in every viewer and needs no font of its own."""

from __future__ import annotations

import re
from html import escape, unescape

from gpudash.model.text import width

FONT = "ui-monospace, 'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"
"""Fonts with cells about 0.6 times as wide as the letters are high."""

_REMOTE_FONT = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_FAMILY = re.compile(r"font-family: Fira Code[^;]*")
_TEXT = re.compile(
    r'<text class="([^"]*)" x="([^"]*)" y="([^"]*)" textLength="([^"]*)"[^>]*>([^<]*)</text>'
)
_WORD = re.compile("[\u2580-\u259f\u2800-\u28ff]{1,4}|[^\\s\u2580-\u259f\u2800-\u28ff]+")
"""Matches a few cells of a bar or a curve, or what stands between blanks."""


def words(text: str, x: float, y: float, cell: float, attributes: str) -> str:
    """Return a line of text that begins at `x`, its base line at `y`, with cells so wide.

    Each word has its own place, and each few cells of a curve: viewers disagree on what blanks are
    worth, not all obey a length, and the font of the curve may be another one.
    """
    return "".join(
        f'<text x="{x + width(text[: word.start()]) * cell:g}" y="{y:g}" '
        f'textLength="{width(word[0]) * cell:g}" lengthAdjust="spacingAndGlyphs" '
        f"{attributes}>{escape(word[0], quote=False)}</text>"
        for word in _WORD.finditer(text)
    )


def robust(picture: str) -> str:
    """Return a picture by Rich with each word at its own place, and without fonts of the net."""
    picture = _FAMILY.sub(f"font-family: {FONT}", _REMOTE_FONT.sub("", picture))
    return _TEXT.sub(_in_words, picture)


def _in_words(match: re.Match[str]) -> str:
    style, x, y, length, content = match.groups()
    text = unescape(content)
    # Rich gives each character a cell of that, also one that takes two.
    return words(text, float(x), float(y), float(length) / len(text), f'class="{style}"')
