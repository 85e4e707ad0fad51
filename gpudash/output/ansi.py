"""Colour for printed text by SGR sequences, and none at all where it is not wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Style = Literal["plain", "bold", "dim", "green", "yellow", "red"]

Paint = Callable[[str, Style], str]
"""Returns a text in a style."""

# The sixteen colours of the terminal's own theme: they fit a light and a dark one alike.
_SGR: dict[Style, str] = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "1;31"}


def painter(color: bool) -> Paint:
    """Return what paints texts, or leaves every one as it is."""
    return _paint if color else _leave


def _paint(text: str, style: Style) -> str:
    code = _SGR.get(style)
    bare = text.strip(" ")
    if code is None or not bare:
        return text
    return text.replace(bare, f"\x1b[{code}m{bare}\x1b[0m", 1)


def _leave(text: str, style: Style) -> str:
    return text
