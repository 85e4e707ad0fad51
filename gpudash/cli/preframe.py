"""The screen before Textual is imported: a quiet terminal, a skeleton, the first snapshot."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpudash.cli.signals import exit_on_signals
from gpudash.model.errors import UsageError
from gpudash.system.imports import import_asyncio
from gpudash.system.terminal import allows_color, color_bits

if TYPE_CHECKING:
    from gpudash.feed.protocol import SnapshotFeed
    from gpudash.tui.cells import ScreenBuffer
    from gpudash.tui.preferences import Preferences

_ENTER = b"\x1b[?1049h\x1b[?25l"
# Shown at once; a terminal that does not know these modes ignores them.
_SYNC_START, _SYNC_END = b"\x1b[?2026h", b"\x1b[?2026l"
_LEAVE = b"\x1b[?1049l\x1b[?25h"

# Most collectors have a first snapshot within this wait, while no import competes for CPU.
_FIRST_WAIT_SECONDS = 0.1
# The import of Textual in pieces, between which the first snapshot may be shown.
_MODULES = (
    "rich.console",
    "textual",
    "textual.css.stylesheet",
    "textual.screen",
    "textual.command",
    "textual.app",
    "gpudash.tui.overview",
    "gpudash.tui.app",
)

# The styles of text and of the header's name in the default theme, by the bits of the terminal's
# colours: importing the themes would delay the first pixels.
_STYLES = {
    24: ("0;38;2;118;131;154;48;2;16;20;27", "0;1;38;2;127;178;255;48;2;26;33;44"),
    8: ("0;38;5;102;48;5;233", "0;1;38;5;111;48;5;235"),
    4: ("0;90", "0;1;36"),
}
_WITHOUT_COLORS = "0;2", "0;1"


def require_terminal(instead: str) -> None:
    """Raise UsageError with an alternative, unless a screen can be shown and keys be read."""
    if sys.__stdin__ is None or not (sys.__stdin__.isatty() and os.isatty(1)):
        raise UsageError(f"not a terminal: use {instead}")
    term = os.environ.get("TERM", "")
    if term in {"", "dumb"}:
        why = f"TERM={term} cannot show a screen" if term else "TERM is not set"
        raise UsageError(f"{why}: use {instead}")


@contextmanager
def quiet_terminal() -> Iterator[list[Any]]:
    """Keep typed keys from being echoed; yield the terminal's former state, and restore it."""
    import termios

    before = termios.tcgetattr(0)
    quiet = termios.tcgetattr(0)
    quiet[0] &= ~termios.ICRNL  # an early Enter would arrive as another key
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    # An early Ctrl-C or Ctrl-Z waits for the screen, where it is a key.
    quiet[6][termios.VINTR] = quiet[6][termios.VSUSP] = b"\0"
    exit_on_signals()
    # The screen receives both as soon as it can redraw, and release the GPUs.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGWINCH, signal.SIGUSR1))
    try:
        termios.tcsetattr(0, termios.TCSANOW, quiet)
        yield before
    except BaseException:
        with suppress(OSError):
            _send(_LEAVE)
        raise
    finally:
        # The terminal may be gone.
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)


def show_skeleton(columns: int, *, ascii: bool, what: str = "reading GPUs") -> None:
    """Send the first pixels, with the present activity."""
    _send(_ENTER + skeleton(columns, os.environ, ascii=ascii, what=what).encode())


def skeleton(
    cells: int, environ: Mapping[str, str], *, ascii: bool, what: str = "reading GPUs"
) -> str:
    """Return the background, a header line `cells` wide and the present activity."""
    word, bar = _STYLES[color_bits(environ)] if allows_color(environ) else _WITHOUT_COLORS
    name = " gpudash"[:cells].ljust(cells)
    patience = f" {what}{'...' if ascii else '…'}"[:cells]
    return f"\x1b[{word}m\x1b[2J\x1b[H\x1b[{bar}m{name}\x1b[{word}m\x1b[3;1H{patience}\x1b[0m"


def first_frame(
    feed: SnapshotFeed, size: os.terminal_size, no_color: bool, preferences: Preferences
) -> ScreenBuffer | None:
    """Import the screen and show the first snapshot as soon as there is one.

    Return the picture shown, None for the skeleton.
    """
    from gpudash.model import wire
    from gpudash.tui.first_frame import draw

    frame = None
    # The collector takes longer than this.
    wire.prepare()
    patience = _FIRST_WAIT_SECONDS
    pieces: list[Callable[[], object]] = [import_asyncio]
    pieces += [partial(import_module, name) for name in _MODULES]
    for import_piece in pieces:
        if frame is None and feed.poll(patience) is not None:
            frame, picture = draw(feed, *size, preferences, no_color=no_color)
            _send(_SYNC_START + picture.encode() + _SYNC_END)
        import_piece()
        patience = 0.0
    return frame


def _send(data: bytes) -> None:
    """Write everything to the terminal, where the driver will write too."""
    while data:
        data = data[os.write(1, data) :]
