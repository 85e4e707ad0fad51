"""The screen of many hosts; one that is entered has the screen that a local one has."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpudash.cli import fleet, remote
from gpudash.cli.options import overrides
from gpudash.cli.preframe import quiet_terminal, require_terminal, show_skeleton
from gpudash.cli.watch import preferences_of
from gpudash.feed.live import LiveFeed
from gpudash.feed.playback import Playback
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.model.errors import UsageError
from gpudash.system.imports import import_msgspec
from gpudash.system.memory import give_back_large

if TYPE_CHECKING:
    from gpudash.model.fleet import FleetHost
    from gpudash.tui.fleet.model import FleetFeed, FleetModel
    from gpudash.tui.preferences import Preferences

_DRAIN_SECONDS = 0.2
_ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


def run(options: argparse.Namespace) -> int:
    """Show many hosts until the user leaves; raises UsageError without a terminal."""
    require_terminal("gpudash --once with the same options")
    argv, seconds = fleet.command(options), fleet.interval(options)
    # Errors in options that only the collector would find, while there is no screen yet.
    fleet.fits(options)
    fleet.check(options)

    def open_feed() -> FleetFeed:
        from gpudash.model.fleet import decode

        feed = LiveFeed(argv, seconds, decode)
        feed.start()
        return feed

    return show(options, open_feed)


def play(options: argparse.Namespace, recording: Recording, start: Sample) -> int:
    """Show a recording of many hosts."""
    require_terminal(f"gpudash --once --replay {recording.path}")
    playback = Playback(recording, start, speed=options.speed, repeats=options.repeat)
    playback.start()
    return show(options, lambda: playback)


def show(options: argparse.Namespace, open_feed: Callable[[], FleetFeed]) -> int:
    """Show the snapshots of a feed and, between, the hosts that are entered."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    give_back_large()
    for_this_run = overrides(options)
    with quiet_terminal():
        size = os.get_terminal_size(1)
        show_skeleton(size.columns, ascii=bool(for_this_run.get("ascii")), what="asking hosts")
        feed = open_feed()
        import_msgspec()
        chosen = preferences_of(not options.no_config, for_this_run)
        try:
            status, failure = _alternate(options, feed, chosen)
        finally:
            feed.stop()
    messages = [*chosen.mistakes, *([] if failure is None else [failure])]
    chosen.finish(messages.append)
    for message in messages:
        print(message, file=sys.stderr)
    return status


def _alternate(
    options: argparse.Namespace, feed: FleetFeed, chosen: Preferences
) -> tuple[int, str | None]:
    """Show many hosts, then one, then many; return the status and why there never were any."""
    from gpudash.tui.fleet.app import FleetApp
    from gpudash.tui.fleet.model import FleetModel

    # What a recording shows is not what a host would answer now.
    model = FleetModel(lambda host: feed.player is None and _may_enter(options, host))
    if options.where is not None:
        model.filter_by(options.where, fleet.fits(options))
    no_color = "NO_COLOR" in os.environ
    while True:
        app = FleetApp(feed, model, no_color=no_color, preferences=chosen)
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        app.run()
        entered = app.entered
        if entered is None:
            return app.return_code or 0, app.failure
        status = _aside(feed, partial(_enter, options, entered, model, chosen))
        if status:
            return status, None


def _aside(feed: FleetFeed, run: Callable[[], int]) -> int:
    """Run something, and meanwhile take what a feed brings, of which only the last is kept."""
    if not isinstance(feed, LiveFeed):
        return run()
    feed.detach()
    is_over = threading.Event()

    def drain() -> None:
        while not is_over.wait(_DRAIN_SECONDS):
            feed.poll()

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        return run()
    finally:
        is_over.set()
        thread.join()


def _may_enter(options: argparse.Namespace, host: FleetHost) -> bool:
    """Whether the host can be reached by ssh, as far as its name and state show."""
    return options.demo is None and remote.is_name(host.name)


def _enter(
    options: argparse.Namespace, host: FleetHost, model: FleetModel, chosen: Preferences
) -> int:
    """Show the screen of one host; return 0 to go back, else the status of a signal.

    Where ssh does not lead there, the GPUs that are known of it are shown, and why.
    """
    from gpudash.tui.app import GpudashApp

    try:
        feed = remote.open_feed(options, host.name, chosen.current.interval)
    except UsageError as error:
        _explain(model, host, str(error))
        return 0
    feed.start()
    try:
        app = GpudashApp(feed, no_color="NO_COLOR" in os.environ, preferences=chosen)
        app.is_entered = True
        signal.pthread_sigmask(signal.SIG_BLOCK, (*_ENDING, signal.SIGUSR1))
        app.run()
    finally:
        feed.stop()
    if app.failure is not None:
        _explain(model, host, f"{host.name}: {app.failure.removeprefix('gpudash: ')}")
        return 0
    return app.return_code or 0


def _explain(model: FleetModel, host: FleetHost, message: str) -> None:
    """Let the next screen begin with what is known of a host, and why it has none itself."""
    from gpudash.tui.status import StatusMessage

    # The timer of the last one was that of an app which has ended.
    model.status_message = StatusMessage()
    model.open("gpus", host.key)
    model.message = message
