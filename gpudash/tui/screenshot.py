"""Saving the screen as an SVG file, for a report or a chat."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import count

from gpudash.model.snapshot import EMPTY
from gpudash.tui.draw.picture import robust

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_FILES = 1000
"""Names that are tried in a folder for the pictures of one second."""


def save_screen(
    subject: str, taken_at: datetime, draw: Callable[[str], str], show: Callable[[str], object]
) -> None:
    """Save what is shown to a file named after a subject and the time of the sample, or now.

    `draw` returns the picture of a title. It goes to the working directory, or home where that
    takes no file; the result is shown from another thread.
    """
    name = _NOT_IN_NAMES.sub("-", subject).strip(".-")
    if taken_at == EMPTY.taken_at:
        taken_at = datetime.now(timezone.utc)
    time = f"{taken_at.astimezone():%Y%m%d-%H%M%S}"
    stem = "-".join(["gpudash", *filter(None, [name]), time])
    picture = robust(draw(stem))
    # A daemon: a folder that does not answer must not keep the program from ending.
    threading.Thread(target=lambda: show(save(picture, stem)), daemon=True).start()


def save(picture: str, stem: str) -> str:
    """Write a picture to a new file that only its user can read; return where it is, or why not."""
    reason = ""
    for folder in (".", os.path.expanduser("~")):
        try:
            path = _write(picture, os.path.join(os.path.abspath(folder), stem))
            return f"saved the screen to {path}"
        except OSError as error:
            reason = reason or f"{error.strerror or error}"
    return f"screen not saved: {reason}"


def _write(picture: str, stem: str) -> str:
    """Write a file that is not there yet, and return its path."""
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
