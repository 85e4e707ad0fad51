"""The screen of many hosts; an entered host has the overview of a local one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from gpudash.cli import exit_with, fleet, remote, watch
from gpudash.cli.options import overrides, report_words, reported_kind
from gpudash.cli.preframe import require_terminal
from gpudash.feed.live import LiveFeed
from gpudash.feed.playback import Playback
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.model.fleet import decode
from gpudash.system.memory import give_back_large

if TYPE_CHECKING:
    from gpudash.feed.protocol import Feed, SnapshotFeed
    from gpudash.model.fleet import FleetHost, FleetSnapshot
    from gpudash.tui.page import Page


def run(options: argparse.Namespace) -> int:
    """Show many hosts until the user leaves; raises UsageError without a terminal."""
    require_terminal("gpudash --once with the same options")
    argv, environ = fleet.command(options), fleet.environment(options)
    seconds = fleet.interval(options)
    # Errors in options that only the collector would find, before there is a screen.
    fleet.fits(options)
    fleet.check(options)

    def collect() -> NoReturn:
        exit_with(partial(fleet.collect, options, has_starter=True))

    def start_collecting() -> Callable[[float], Feed[FleetSnapshot]]:
        # The check has imported what the first collector needs.
        forked = watch.fork_collector(collect)

        def open_feed(_interval: float) -> Feed[FleetSnapshot]:
            return LiveFeed(argv, seconds, decode, environ=environ, forked=forked)

        return open_feed

    return show(options, start_collecting)


def play(options: argparse.Namespace, recording: Recording, start: Sample) -> int:
    """Show a recording of many hosts."""
    require_terminal(f"gpudash --once --replay {recording.path}")
    playback = Playback(recording, start, speed=options.speed, repeats=options.repeat)
    return show(options, lambda: lambda _interval: playback, "reading the recording")


def show(
    options: argparse.Namespace,
    start_collecting: Callable[[], Callable[[float], Feed[FleetSnapshot]]],
    what: str = "asking hosts",
) -> int:
    """Show the snapshots of a feed and the hosts entered, until the user leaves."""
    give_back_large()

    def first_page(feed: Feed[FleetSnapshot]) -> Page:
        from gpudash.fleet.where import GRAMMAR_OF_EVENTS
        from gpudash.tui.fleet.map import MapPage
        from gpudash.tui.fleet.model import FleetModel

        model = FleetModel(feed, open_host, reaches, fleet.prices(options))
        if reported_kind(options):
            words = report_words(options)
            model.report_command = None if words is None else (words, fleet.environment(options))
        if options.where is not None:
            model.filter_by(GRAMMAR_OF_EVENTS.parse(options.where))
        return MapPage(model)

    def open_host(host: FleetHost, interval: float) -> SnapshotFeed:
        return remote.open_feed(options, host.name, interval)

    def reaches(host: FleetHost) -> bool:
        # Judging by its name alone.
        return options.demo is None and remote.is_name(host.name)

    return watch.show_page(
        start_collecting,
        first_page,
        config=not options.no_config,
        what=what,
        **overrides(options),
    )
