"""`gpudash`: the live screen over its own collector.

The first pixels are sent before Textual is imported, and the collector is forked at that point; its
first snapshot is shown while Textual is still being imported.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from gpudash.cli import exit_with, stream
from gpudash.cli.options import (
    DEFAULT_INTERVAL,
    collector_command,
    gpu_selectors,
    overrides,
    report_words,
)
from gpudash.cli.preframe import (
    first_frame,
    quiet_terminal,
    require_terminal,
    show_skeleton,
)
from gpudash.model.errors import UsageError
from gpudash.system.files import settings_file
from gpudash.system.fork import ForkedProcess
from gpudash.system.imports import import_asyncio, import_msgspec
from gpudash.system.terminal import allows_color

if TYPE_CHECKING:
    from gpudash.feed.protocol import Feed, SnapshotFeed
    from gpudash.model.snapshot import Snapshot
    from gpudash.tui.cells import ScreenBuffer
    from gpudash.tui.page import Page
    from gpudash.tui.preferences import Preferences


F = TypeVar("F", bound="Feed[Any]")
FirstFrame = Callable[[F, os.terminal_size, bool, "Preferences"], "ScreenBuffer | None"]
"""Shows a feed's snapshot at a size, possibly without colours, and returns the screen."""


def run(options: argparse.Namespace) -> int:
    """Show the host until the user leaves; raises UsageError like `show`."""
    if options.replay is not None or options.at is not None:
        import shlex

        at = "" if options.at is None else f" --at {shlex.quote(options.at)}"
        file = "" if options.replay is None else f" {shlex.quote(options.replay)}"
        raise UsageError(f"the screen of a recording is gpudash replay{file}{at}")
    if options.host:
        from gpudash.cli import remote

        host = options.host[0]
        remote.of(options, host)
        return _show(options, lambda: lambda interval: remote.open_feed(options, host, interval))
    argv, parent = collector_command(options, shared=True), os.getpid()
    gpus = gpu_selectors(options)

    def selected(snapshot: Snapshot) -> Snapshot:
        from gpudash.analysis.selection import select

        return select(snapshot, gpus)

    def collect() -> NoReturn:
        # The feed uses the interval of the settings, which are read meanwhile.
        run = partial(stream.collect, options, DEFAULT_INTERVAL, controller=parent)
        exit_with(partial(run, brief_first=True))

    def start_collecting() -> Callable[[float], SnapshotFeed]:
        # The first collector is forked, which saves starting an interpreter.
        forked = fork_collector(collect)

        def open_feed(interval: float) -> SnapshotFeed:
            from gpudash.feed.live import LiveFeed
            from gpudash.model import wire

            feed = LiveFeed(argv, interval, wire.decode, forked=forked)
            feed.adapt_past = selected
            return feed

        return open_feed

    return _show(options, start_collecting)


def _show(options: argparse.Namespace, start: Callable[[], Callable[[float], SnapshotFeed]]) -> int:
    """Show one host according to the command line."""
    reported = None if options.demo else report_words(options)
    config = not options.no_config
    return show(start, config=config, reported=reported, **overrides(options))


def show(
    start_collecting: Callable[[], Callable[[float], SnapshotFeed]],
    *,
    config: bool = True,
    instead: str = "gpudash --once",
    reported: Sequence[str] | None = None,
    **for_this_run: Any,
) -> int:
    """Show the snapshots of a feed until the user leaves.

    `reported` is the command that reports the past of the host. `start_collecting` is called as
    soon as the first pixels are sent, and returns a function that opens the feed for an interval.
    Without `config`, the settings file is not used; fields of Settings for this run override it.
    Raises UsageError without a terminal, advising to use `instead`, and for an unknown theme; and
    errors known to `is_exhausted` if files, threads or memory run out.
    """
    require_terminal(instead)

    def first_page(feed: SnapshotFeed) -> Page:
        from gpudash.tui.overview import Overview

        page = Overview(feed)
        page.model.report_command = None if reported is None else (reported, {})
        return page

    return show_page(start_collecting, first_page, first_frame, config=config, **for_this_run)


def show_page(
    start_collecting: Callable[[], Callable[[float], F]],
    first_page: Callable[[F], Page],
    first_frame: FirstFrame[F] | None = None,
    *,
    config: bool,
    what: str = "reading GPUs",
    **for_this_run: Any,
) -> int:
    """Show the first page over a feed until the user leaves, like `show`.

    `first_frame` shows a picture before there is an app, which keeps it until it has its own.
    """
    no_color = not allows_color(os.environ)
    with quiet_terminal() as attributes:
        size = os.get_terminal_size(1)
        in_ascii = bool(for_this_run.get("ascii"))
        show_skeleton(size.columns, ascii=in_ascii, what=what)
        open_feed = start_collecting()
        import_msgspec()
        preferences = preferences_of(config, for_this_run)
        feed = open_feed(preferences.current.interval)
        feed.start()
        try:
            frame = first_frame and first_frame(feed, size, no_color, preferences)
            import_asyncio()
            from gpudash.tui.app import GpudashApp

            app = GpudashApp(first_page(feed), no_color=no_color, preferences=preferences)
            if first_frame is not None:
                app.adopt_terminal(frame, attributes)
            # A handler that raised within the loop would leave pending tasks: see on_mount.
            blocked = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
            signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
            app.run()
            if app.refusal is not None:
                raise app.refusal
        finally:
            feed.stop()
    messages = [*preferences.mistakes, *([] if app.failure is None else [app.failure])]
    preferences.finish(messages.append)
    for message in messages:
        print(message, file=sys.stderr)
    return app.return_code or 0


def fork_collector(collect: Callable[[], NoReturn]) -> ForkedProcess | None:
    """Return a collector forked here, None if the system has no process or file left.

    The feed then starts one by its command, and reports the error if that fails too.
    """
    try:
        return ForkedProcess(collect)
    except OSError:
        return None


def preferences_of(config: bool, for_this_run: dict[str, Any]) -> Preferences:
    """Return the settings for a screen; raises UsageError for an unknown theme."""
    from gpudash.tui.preferences import Preferences, choices

    theme = for_this_run.get("theme")
    if theme is not None and theme not in choices().themes:
        raise UsageError(f"unknown theme {theme!r}: choose from {', '.join(choices().themes)}")
    return Preferences(settings_file() if config else None, **for_this_run)
