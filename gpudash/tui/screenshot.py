"""Saving the screen as an SVG file, for a report or a chat.

Its text looks the same in every viewer, and needs no special font.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from html import escape, unescape
from itertools import count

from gpudash.model.snapshot import EMPTY
from gpudash.model.text import width

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_FILES = 1000
"""How many names to try in a folder for pictures of the same second."""


def save_screen(
    subject: str, taken_at: datetime, draw: Callable[[str], str], show: Callable[[str], object]
) -> None:
    """Save the screen to a file named after a subject and the time of the sample, or now.

    `draw` returns the picture for a title. It is written to the working directory, or home if that
    is not writable; the result is shown from another thread.
    """
    name = _NOT_IN_NAMES.sub("-", subject).strip(".-")
    if taken_at == EMPTY.taken_at:
        taken_at = datetime.now(timezone.utc)
    time = f"{taken_at.astimezone():%Y%m%d-%H%M%S}"
    stem = "-".join(["gpudash", *filter(None, [name]), time])
    picture = robust(draw(stem))
    # A daemon thread: an unresponsive folder must not keep the program from exiting.
    threading.Thread(target=lambda: show(save(picture, stem)), daemon=True).start()


def save(picture: str, stem: str) -> str:
    """Write a picture to a new file readable only by its user; return its path, or the error."""
    reason = ""
    for folder in (".", os.path.expanduser("~")):
        try:
            path = _write(picture, os.path.join(os.path.abspath(folder), stem))
            return f"saved the screen to {path}"
        except OSError as error:
            reason = reason or f"{error.strerror or error}"
    return f"screen not saved: {reason}"


def _write(picture: str, stem: str) -> str:
    """Write a new file, and return its path."""
    for number in count(1):
        path = f"{stem}.svg" if number == 1 else f"{stem}-{number}.svg"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if number < _MAX_FILES:
                continue
            raise
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(picture)
        except OSError:
            os.unlink(path)
            raise
        break
    return path


FONT = "ui-monospace, 'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace"
"""Fonts with cells about 0.6 times as wide as the font size."""

_REMOTE_FONT = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_FAMILY = re.compile(r"font-family: Fira Code[^;]*")
_TEXT = re.compile(
    r'<text class="([^"]*)" x="([^"]*)" y="([^"]*)" textLength="([^"]*)"[^>]*>([^<]*)</text>'
)
_WORD = re.compile("[\u2580-\u259f\u2800-\u28ff]{1,4}|[^\\s\u2580-\u259f\u2800-\u28ff]+")
"""Matches a few cells of a bar or a curve, or a word between blanks."""


def words(text: str, x: float, y: float, cell: float, attributes: str) -> str:
    """Return a line of text at `x` with its baseline at `y`, with cells this wide.

    Each word has its own position, and so do a few cells of a curve: viewers disagree on the width
    of blanks, not all respect lengths, and curves may have another font.
    """
    return "".join(
        f'<text x="{x + width(text[: word.start()]) * cell:g}" y="{y:g}" '
        f'textLength="{width(word[0]) * cell:g}" lengthAdjust="spacingAndGlyphs" '
        f"{attributes}>{escape(word[0], quote=False)}</text>"
        for word in _WORD.finditer(text)
    )


def robust(picture: str) -> str:
    """Return a picture from Rich with each word positioned, and without fonts from the net."""
    picture = _FAMILY.sub(f"font-family: {FONT}", _REMOTE_FONT.sub("", picture))
    return _TEXT.sub(_in_words, picture)


def _in_words(match: re.Match[str]) -> str:
    style, x, y, length, content = match.groups()
    text = unescape(content)
    # Rich gives each character one cell of that, even a wide one.
    return words(text, float(x), float(y), float(length) / len(text), f'class="{style}"')
