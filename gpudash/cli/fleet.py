"""Many hosts without a screen: opening their sources, one document, or a line per interval."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, NoReturn

from gpudash.cli.options import (
    acknowledged,
    check_recording,
    collector_words,
    has_color,
    is_ascii,
    judgement,
    settings,
    source_words,
)
from gpudash.cli.signals import exit_on_signals
from gpudash.feed.collector import ControlReader, is_controlled
from gpudash.fleet.sources import SOURCES, WITH_PAST, dest
from gpudash.model.errors import ExitStatus, UsageError, WireError
from gpudash.system import fork, terminal
from gpudash.system.memory import give_back_large

if TYPE_CHECKING:
    from gpudash.fleet.collector import Collector
    from gpudash.fleet.lasting import Lasting
    from gpudash.fleet.source import Reading, Source
    from gpudash.fleet.summary import Fits
    from gpudash.fleet.users import Prices
    from gpudash.model.fleet import FleetSnapshot
    from gpudash.model.snapshot import FindingLevel

_COLLECTOR_NAME = "hosts-collector"
"""The process name of a screen's collector in `ps`: `pkill gpudash` should hit the screen."""
_ONCE_SECONDS = 30.0
_BRIEF_SECONDS, _BRIEF_HOSTS = 2.0, 250
"""Within this time, an idle server knows this many hosts completely; more take far longer."""
_SAY_WHAT_IS_MISSING = ("table", "json")
"""Formats with a place for warnings."""
_EAGER_SECONDS, _EAGER_INTERVAL, _EAGER_PAUSE = 15.0, 0.25, 3.0
"""For how many seconds after a start or a request arrivals are printed at once, and the minimum
interval between lines then: this, or this multiple of the time of the last one, which is long for
thousands of hosts, whose answers wait for it.
"""
_DEATH_SECONDS = 0.2
"""For the children of the sources to end."""
_WAIT_SECONDS = 1.0
_DATING_SECONDS = 2.0
"""For findings to get dates, which a server answers within milliseconds."""


def interval(options: argparse.Namespace) -> float:
    """Return the seconds between two snapshots: more for a Prometheus, which scrapes rarely."""
    if options.interval is not None:
        return float(options.interval)
    return min(kind.interval for kind in SOURCES.values() if kind.is_asked(options))


def command(options: argparse.Namespace) -> list[str]:
    """Return the command that prints snapshots of many hosts: gpudash, with `environment`."""
    words = [*collector_words(), *source_words(options, SOURCES.values())]
    return [*words, "--no-config"] if options.no_config else words


def environment(options: argparse.Namespace) -> dict[str, str]:
    """Return the environment of that command: URLs, which may contain a password."""
    found = {}
    for kind in SOURCES.values():
        if kind.variable is not None and kind.is_asked(options):
            values = (value for name in kind.options for value in getattr(options, dest(name)))
            found[kind.variable] = " ".join(filter(None, values))
    return {name: text for name, text in found.items() if text}


def check(options: argparse.Namespace) -> None:
    """Raise UsageError for invalid names, URLs or settings."""
    open_collector(options).close()


def open_collector(options: argparse.Namespace) -> Collector:
    """Return the collector for the options; raises UsageError."""
    from gpudash.fleet.collector import Collector

    known = settings(options)
    sources: list[Source] = []
    for kind in SOURCES.values():
        if not kind.options or kind.is_asked(options):
            sources += import_module(kind.module).opened(options, known)
    return Collector(sources)


# A line per interval


def stream(options: argparse.Namespace) -> NoReturn:
    """Print a snapshot per interval, and the first data at once, until the reader is gone."""
    collect(options, has_starter=is_controlled(os.environ))


def collect(options: argparse.Namespace, *, has_starter: bool) -> NoReturn:
    """Do the same; with a parent, read intervals and requests from stdin.

    It ends with its parent.
    """
    terminal.keep_for_ourselves()
    give_back_large()
    if has_starter:
        fork.set_process_name(_COLLECTOR_NAME)
    control = ControlReader(interval(options), 0 if has_starter else None)
    with _opened(options) as collector:
        _print_lines(options, collector, control)


def _print_lines(
    options: argparse.Namespace, collector: Collector, control: ControlReader
) -> NoReturn:
    from msgspec import structs

    from gpudash.fleet.collector import has_answer
    from gpudash.model import fleet

    view, has_starter = Printed(options), control.descriptor is not None
    asked: fleet.FleetRequest | None = None
    printed_at, eager_until, has_news = -inf, time.monotonic() + _EAGER_SECONDS, False
    took = 0.0
    while True:
        now = time.monotonic()
        is_eager = has_news and now < eager_until
        eager = max(_EAGER_INTERVAL, _EAGER_PAUSE * took)
        due = printed_at + (min(eager, control.seconds) if is_eager else control.seconds)
        if now >= due and has_answer(readings := collector.read()):
            terminal.write(fleet.encode(view.of(readings)) + b"\n")
            collector.date(view.lasting)
            printed_at, has_news, took = now, False, time.monotonic() - now
            continue
        has_news |= _advance(collector, max(due - now, _EAGER_INTERVAL), control.descriptor)
        control.read()
        if has_starter and control.descriptor is None:
            raise terminal.ReaderGoneError
        while control.requests:
            with suppress(WireError):
                request = fleet.decode_request(control.requests.pop(0))
                view.log.since, view.log.until = request.events_since, request.events_until
                view.known = request.events_known
                before, asked = asked, structs.replace(request, events_known=None)
                if asked != before:
                    collector.ask(asked)
                    eager_until = time.monotonic() + _EAGER_SECONDS


def _advance(collector: Collector, seconds: float, control: int | None = None) -> bool:
    """Let a collector work for some time; return whether it became busy before the end.

    Data have arrived, or something is due, such as another attempt to reach a host.
    """
    seconds = min(seconds, _WAIT_SECONDS)
    until = time.monotonic() + seconds
    terminal.wait(min(seconds, collector.due_in()), *collector.descriptors(), control)
    is_early = time.monotonic() < until
    collector.advance()
    return is_early


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Collector]:
    """Yield the collector for the options; its children end with it in any case."""
    collector = open_collector(options)
    try:
        exit_on_signals()
        yield collector
    finally:
        collector.close(_DEATH_SECONDS)


class Printed:
    """The printed snapshot: merged, judged, and filtered by --where."""

    def __init__(self, options: argparse.Namespace) -> None:
        from gpudash.fleet.event_log import Log
        from gpudash.fleet.reduce import Reducer

        self._reducer = Reducer(prices(options), acknowledged(options))
        self._fits = fits(options)
        self.log = Log()
        self.known: tuple[int, float] | None = None
        """Identifies the events that its reader has."""

    @property
    def lasting(self) -> Lasting:
        """The findings of the last snapshot that sources should date."""
        return self._reducer.lasting

    def whole(self, readings: Sequence[Reading]) -> FleetSnapshot:
        """Return the snapshot of the sources' present data, without the filter."""
        from gpudash.fleet.collector import is_settled, merge
        from gpudash.fleet.lasting import longest

        lasted = longest(each.lasted for each in readings)
        return self._reducer.reduce(merge(readings), lasted, is_settled=is_settled(readings))

    def of(self, readings: Sequence[Reading]) -> FleetSnapshot:
        """Return the filtered snapshot of the sources' present data."""
        from msgspec.structs import replace

        from gpudash.fleet.collector import narrowed
        from gpudash.model.fleet import mark_of

        whole = self.whole(readings)
        # Values missing in the first answers have not just changed.
        if all(
            each.at is None and each.is_whole and each.report.state != "starting"
            for each in readings
        ):
            self.log.watch(whole)
        events = self.log.shown(whole.events)
        if events and mark_of(events) == self.known:
            events = None
        since = None if whole.events is None else self.log.since
        whole = replace(whole, events=events, events_since=since)
        return narrowed(whole, self._fits, self._reducer.price)


def prices(options: argparse.Namespace) -> Prices:
    """Return the prices of the settings, else those of a demo; raises UsageError for mistakes."""
    from gpudash.fleet.users import Prices

    known = settings(options).fleet.prices
    if not known and options.demo is not None:
        from gpudash.fleet.demo import PRICES

        known = PRICES
    return Prices(known)


def fits(options: argparse.Namespace) -> Fits | None:
    """Return the test of whether a GPU is shown, None for all; raises FilterError."""
    if options.where is None:
        return None
    from gpudash.fleet.where import where

    return where(options.where)


# Once


def print_once(options: argparse.Namespace) -> int:
    """Print many hosts once, when all have answered or failed, or after --timeout.

    A format that can say that there is more prints a Prometheus' first picture, unless an option
    needs all.
    """
    from gpudash.fleet.collector import is_settled, narrowed
    from gpudash.output import FLEET_FORMATS, Destination

    if options.replay is not None or options.at is None or not _has_past(options):
        check_recording(options)
    name, fitting = _format(options), fits(options)
    is_known = True
    if options.replay is not None:
        whole = _recorded(options)
    else:
        of_all = (options.timeout, options.fail_on, options.where, options.at)
        is_brief = name in _SAY_WHAT_IS_MISSING and not any(of_all)
        with _opened(options) as collector:
            readings = _collect(options, collector, is_brief=is_brief)
            is_known, whole = is_settled(readings), _dated(options, collector, readings)
    snapshot = narrowed(whole, fitting, prices(options))
    target = Destination(terminal.is_terminal(), terminal.width(), has_color(), is_ascii(options))
    terminal.write(FLEET_FORMATS[name](snapshot, target))
    status = exit_status(whole, snapshot, options.fail_on)
    is_judged = is_known or options.fail_on is None
    return status if status or is_judged else ExitStatus.UNAVAILABLE


def _collect(options: argparse.Namespace, collector: Collector, *, is_brief: bool) -> list[Reading]:
    """Return all data, or those known by the deadline; or a first picture.

    For few hosts, the first picture is complete too: further data are awaited for `rest_seconds`.
    """
    from gpudash.feed.instants import Span, parse_instant
    from gpudash.model.fleet import FleetRequest

    at = None
    if options.at is not None:
        at = parse_instant(options.at, Span(None, datetime.now(timezone.utc)))
    collector.ask(FleetRequest(at=at, is_brief=is_brief))
    seconds, began = options.timeout or _ONCE_SECONDS, time.monotonic()
    _settle(collector, began + seconds)
    if is_brief:
        hosts, took = max(len(each.hosts) for each in collector.read()), time.monotonic() - began
        collector.ask(FleetRequest(at=at))
        if not _settle(collector, began + took + rest_seconds(hosts, took)):
            collector.ask(FleetRequest(at=at, is_brief=True))
    return [_in_time(reading, seconds) for reading in collector.read()]


def _dated(
    options: argparse.Namespace, collector: Collector, readings: Sequence[Reading]
) -> FleetSnapshot:
    """Return a snapshot with the start times of findings, if the sources know them soon."""
    from msgspec.structs import replace

    view = Printed(options)
    deadline = time.monotonic() + (options.timeout or _DATING_SECONDS)
    whole = view.whole(readings)
    if not collector.date(view.lasting):
        return whole
    while collector.date(view.lasting) and (left := deadline - time.monotonic()) > 0:
        _advance(collector, left)
    lasted = [each.lasted for each in collector.read()]
    pairs = zip(readings, lasted, strict=True)
    return view.whole([replace(each, lasted=some) for each, some in pairs])


def rest_seconds(hosts: int, took: float) -> float:
    """Return how long to wait for the rest after a first picture that took this many seconds."""
    return _BRIEF_SECONDS - took if hosts <= _BRIEF_HOSTS else 0.0


def _settle(collector: Collector, deadline: float) -> bool:
    """Let a collector work until every query is answered; return False at the deadline."""
    from gpudash.fleet.collector import is_settled

    while collector.is_partial() or not is_settled(collector.read()):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        _advance(collector, left)
    return True


def _has_past(options: argparse.Namespace) -> bool:
    """Whether a requested source has a past."""
    return any(SOURCES[name].is_asked(options) for name in WITH_PAST)


def _in_time(reading: Reading, seconds: float) -> Reading:
    """Return a source's final reading: one that is still starting has failed."""
    from msgspec.structs import replace

    from gpudash.model.text import clean

    report = reading.report
    if report.state == "starting":
        message = clean(f"no answer in {seconds:g} s, see --timeout")
        report = replace(report, state="failed", message=message)
    elif not reading.is_whole and report.state != "failed":
        late = clean(f"not all was answered in {seconds:g} s, see --timeout")
        report = replace(report, warnings=(*report.warnings, late))
    return replace(reading, report=report)


def _recorded(options: argparse.Namespace) -> FleetSnapshot:
    """Return the last sample of a recording, or the one of --at."""
    from gpudash.feed.recording.reader import Recording
    from gpudash.feed.recording.samples import sample_at

    sample, gap = sample_at(Recording(options.replay), options.at)
    if gap:
        terminal.write_message(f"gpudash: {gap}\n")
    if not sample.is_fleet:
        raise UsageError(f"{options.replay} is a recording of one host: --where is for many")
    return sample.fleet()


def _format(options: argparse.Namespace) -> str:
    """Return the name of the format; raises UsageError for one without many hosts."""
    from gpudash.output import FLEET_FORMATS

    if options.json == "gpustat":
        raise UsageError("--json=gpustat does not go with many hosts: it is about one")
    name = options.format or ("json" if options.json else "table")
    if name not in FLEET_FORMATS:
        raise UsageError(f"--format {name!r} of many hosts: choose from {', '.join(FLEET_FORMATS)}")
    return str(name)


def exit_status(whole: FleetSnapshot, shown: FleetSnapshot, fail_on: FindingLevel | None) -> int:
    """Return the exit status: for failed sources, no GPU at all, and findings by --fail-on.

    A filter that leaves no GPU is not a failure: `whole` is unfiltered, `shown` is printed.
    """
    if any(source.state == "failed" for source in whole.sources):
        return ExitStatus.UNAVAILABLE
    if not any(host.devices for host in whole.hosts):
        return ExitStatus.NO_GPU
    return judgement(shown.findings, fail_on)
