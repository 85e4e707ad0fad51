"""A line on stderr that is replaced as things go on, and never stops or ends what it tells of."""

from __future__ import annotations

import os
import select
from contextlib import suppress

from gpudash.model.text import cut

_FD = 2
_ERASE = "\r\x1b[K"
_COLUMNS = 80


def is_terminal() -> bool:
    """Whether a line can be replaced."""
    return os.isatty(_FD)


def say(text: str) -> None:
    """Write it where it is taken at once: a stopped terminal must not stop us, nor a gone one."""
    with suppress(OSError):
        poll = select.poll()
        poll.register(_FD, select.POLLOUT)
        if any(event & select.POLLOUT for _, event in poll.poll(0)):
            os.write(_FD, text.encode(errors="backslashreplace"))


def show(text: str) -> None:
    """Put a line, cut to the terminal, in the place of the one that stands."""
    say(_ERASE + cut(text, max(_columns() - 1, 1)))


def end(text: str = "") -> None:
    """Put last words, which stay and end with a newline of their own, in the place of the line."""
    say(_ERASE + text)


def _columns() -> int:
    try:
        return os.get_terminal_size(_FD).columns or _COLUMNS
    except OSError:
        return _COLUMNS
