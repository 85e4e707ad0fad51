"""`gpudash`: the live screen over a collector of its own.

The first pixels are sent before Textual is imported and the collector goes on from there; its
first snapshot is shown while Textual is still being imported.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from gpudash.cli import exit_with, stream
from gpudash.cli.options import collector_command, overrides
from gpudash.cli.preframe import skeleton
from gpudash.model.errors import UsageError

if TYPE_CHECKING:
    from gpudash.feed.protocol import SnapshotFeed
    from gpudash.system.fork import ForkedProcess
    from gpudash.tui.preferences import Preferences
    from gpudash.tui.terminal.screen_buffer import ScreenBuffer

_REPLY_SECONDS = 0.2
"""How long the answer of a terminal is waited for when the screen is left before it could read."""

_ENTER = b"\x1b[?1049h\x1b[?25l"
_LEAVE = b"\x1b[?1049l\x1b[?25h"

# The import of Textual in pieces, between which a first snapshot may be shown: the seconds to
# wait for one before the piece, and its name. Most collectors have one by the end of the first
# wait, in which no import takes time from them.
_PIECES = (
    (0.06, "asyncio"),
    (0.0, "rich.console"),
    (0.0, "textual"),
    (0.0, "textual.css.stylesheet"),
    (0.0, "textual.screen"),
    (0.0, "textual.command"),
    (0.0, "textual.app"),
    (0.0, "gpudash.tui.app"),
)


def run(options: argparse.Namespace) -> int:
    """Show the host until the user leaves; raises UsageError as `show` does."""
    if options.replay is not None:
        raise UsageError(f"the screen of a recording is gpudash replay {options.replay}")
    config, for_this_run = not options.no_config, overrides(options)
    argv, parent = collector_command(options), os.getpid()

    def interval() -> float:
        return _interval(config, for_this_run)

    def collect() -> NoReturn:
        exit_with(lambda: stream.collect(options, interval, controller=parent))

    def start_collecting() -> Callable[[float], SnapshotFeed]:
        # The first collector is forked, which saves it the start of an interpreter.
        forked = _forked(collect)

        def open_feed(interval: float) -> SnapshotFeed:
            from gpudash.feed.live import LiveFeed

            return LiveFeed(argv, interval, forked=forked)

        return open_feed

    return show(start_collecting, config=config, **for_this_run)


def show(
    start_collecting: Callable[[], Callable[[float], SnapshotFeed]],
    *,
    config: bool = True,
    instead: str = "gpudash --once",
    **for_this_run: Any,
) -> int:
    """Show what a feed brings until the user leaves.

    `start_collecting` is called as soon as the first pixels are sent, and returns what opens the
    feed for an interval. Without `config` the file of settings is left alone; fields of Settings
    for this run override it. Raises UsageError where there is no terminal, with the advice to
    use `instead`, and for an unknown theme; where the system gives no more files, threads
    or memory, what `is_exhausted` knows.
    """
    _require_terminal(instead)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    no_color = "NO_COLOR" in os.environ
    with _terminal() as attributes:
        size = os.get_terminal_size(1)
        in_ascii = bool(for_this_run.get("ascii"))
        _send(_ENTER + skeleton(size.columns, os.environ, ascii=in_ascii).encode())
        open_feed = start_collecting()
        import_msgspec()
        preferences = _preferences(_settings_path() if config else None, for_this_run)
        feed = open_feed(preferences.current.interval)
        feed.start()
        try:
            frame, sent = _first_frame(feed, size, no_color, preferences)
            from gpudash.tui.app import GpudashApp

            app = GpudashApp(feed, no_color=no_color, preferences=preferences)
            app.adopt_terminal(frame, size, attributes, sent)
            # One that raised within the loop would leave tasks that are waited for: see on_mount.
            held = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
            signal.pthread_sigmask(signal.SIG_BLOCK, held)
            app.run()
            if app.refusal is not None:
                raise app.refusal
        finally:
            feed.stop()
    troubles = [*preferences.mistakes, *([] if app.failure is None else [app.failure])]
    preferences.finish(troubles.append)
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    return app.return_code or 0


def _forked(collect: Callable[[], NoReturn]) -> ForkedProcess | None:
    """Return a collector that goes on from here, None where the system gives no process or file.

    The feed then starts one by its command, and reports why if that fails, too.
    """
    from gpudash.system.fork import ForkedProcess

    try:
        return ForkedProcess(collect)
    except OSError:
        return None


def _require_terminal(instead: str) -> None:
    """Raise UsageError with what to use instead, unless a screen can be shown and keys be read."""
    if sys.__stdin__ is None or not (sys.__stdin__.isatty() and os.isatty(1)):
        raise UsageError(f"not a terminal: use {instead}")
    term = os.environ.get("TERM", "")
    if term in {"", "dumb"}:
        why = f"TERM={term} cannot show a screen" if term else "TERM is not set"
        raise UsageError(f"{why}: use {instead}")


@contextmanager
def _terminal() -> Iterator[list[Any]]:
    """Keep typed keys from being echoed; yield how the terminal was found, and leave it so."""
    import termios

    before = termios.tcgetattr(0)
    quiet = termios.tcgetattr(0)
    quiet[0] &= ~termios.ICRNL  # an early Enter would arrive as another key
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    # An early Ctrl-C or Ctrl-Z waits for the screen, where it is a key.
    quiet[6][termios.VINTR] = quiet[6][termios.VSUSP] = b"\0"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_by_signal)
    # The screen receives both as soon as it can redraw, and release the GPUs.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGWINCH, signal.SIGUSR1))
    try:
        termios.tcsetattr(0, termios.TCSANOW, quiet)
        yield before
    except BaseException:
        _send(_LEAVE)
        raise
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


def import_msgspec() -> None:
    """Import it while no signal is handled: its C code crashes where a handler raises meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        import msgspec  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _settings_path() -> str:
    from gpudash import config as settings

    return settings.path()


def _interval(config: bool, for_this_run: dict[str, Any]) -> float:
    """Return the interval alone, for the collector, which imports no more of the settings."""
    from gpudash.config.file import load, path
    from gpudash.config.settings import Choices, Settings

    file = path()
    found = load(file, Choices())[0] if config and os.path.lexists(file) else Settings()
    return float(for_this_run.get("interval", found.interval))


def _preferences(path: str | None, for_this_run: dict[str, Any]) -> Preferences:
    from gpudash.tui.preferences import Preferences, choices

    theme = for_this_run.get("theme")
    if theme is not None and theme not in choices().themes:
        raise UsageError(f"unknown theme {theme!r}: choose from {', '.join(choices().themes)}")
    return Preferences(path, **for_this_run)


def _first_frame(
    feed: SnapshotFeed, size: os.terminal_size, no_color: bool, preferences: Preferences
) -> tuple[ScreenBuffer | None, int]:
    """Import the screen, and show the first snapshot as soon as there is one.

    Returns what is shown, and the bytes that were sent behind a question to the terminal.
    """
    from gpudash.tui.first_frame import draw, rehearse
    from gpudash.tui.terminal.flow import drain_replies, first_question

    frame, sent = None, 0
    question = first_question(os.environ).encode()
    try:
        rehearse(feed, *size, preferences)
        for patience, piece in _PIECES:
            if frame is None and feed.poll(patience) is not None:
                frame, picture = draw(feed, *size, preferences, no_color=no_color)
                data = picture.encode()
                sent = len(data) if question else 0
                _send(question + data)
            import_module(piece)
    except BaseException:
        drain_replies(0, int(sent > 0), _REPLY_SECONDS)
        raise
    return frame, sent


def _send(data: bytes) -> None:
    """Write all of it to the terminal, where the driver will write too."""
    while data:
        data = data[os.write(1, data) :]


def _exit_by_signal(number: int, _frame: object) -> None:
    """End in order before the screen has taken the signals over."""
    raise SystemExit(128 + number)
