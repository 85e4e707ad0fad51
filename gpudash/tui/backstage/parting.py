"""Answers of the terminal that are still due when the screen is left.

Whoever reads the terminal next would take them for typed text.
"""

from __future__ import annotations

import os
import select
import time

_ANSWER = b"\x1b[?2026;"


def answers_in(data: bytes) -> int:
    """Return how many answers stand in what was read."""
    return data.count(_ANSWER)


def hear_out(descriptor: int, due: int, seconds: float) -> None:
    """Read until so many answers have come, and drop them; give up after so many seconds."""
    end = time.monotonic() + seconds
    heard = b""
    while answers_in(heard) < due and (left := end - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            return
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            return
        if not data:
            return
        heard += data
