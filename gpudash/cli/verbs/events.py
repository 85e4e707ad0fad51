"""`gpudash events`: events by host, GPU and job."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import datetime, timezone

from gpudash.actions import sent
from gpudash.cli.arguments import add_shared, add_sources
from gpudash.cli.fleet import open_collector
from gpudash.cli.oneshot import write_json
from gpudash.cli.options import check_recording, has_color, is_ascii, open_recording, settings
from gpudash.cli.verbs import Verb
from gpudash.feed.instants import Span, parse_instant, parse_window
from gpudash.feed.recording.reader import Recording
from gpudash.fleet.event_log import together
from gpudash.fleet.events import Changes, events
from gpudash.fleet.from_snapshot import recorded
from gpudash.fleet.losses import losses, no_data_before
from gpudash.fleet.sources import SOURCES, WITH_PAST
from gpudash.fleet.where import GRAMMAR_OF_EVENTS, passing
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.fleet import Event, FleetHost, FleetSnapshot, HostKey
from gpudash.output.events import render
from gpudash.system import terminal

_Hosts = dict[HostKey, FleetHost]
_DEFAULT_SINCE = "12h"
_STEPS = 1, 10, 60, 600
"""Seconds between the samples that are read of a recording, more for a longer one."""
_MAX_SAMPLES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash events` takes."""
    add = parser.add_argument
    text = "how far back, or from when: 12h, 3d, 02:14, yesterday, monday 18:00, 2026-11-26T02:14"
    add("--since", metavar="TIME", help=f"{text} ({_DEFAULT_SINCE})")
    text = "only events that fit: 'host:gpu20', 'gpu:5 kind:xid', 'job:4242'; gpudash help filter"
    add("--filter", metavar="WORDS", default="", help=text)
    text = "until when, instead of now or the end of the recording"
    add_shared(parser, "json", "replay", "at", "no-config", "ascii", at=text)
    add_sources(parser, demo="simulate many hosts: fleet, fleet-64x8")


def run(options: argparse.Namespace) -> int:
    """Print events; raises UsageError, GpudashError if the past is unreadable."""
    wanted, hosts = GRAMMAR_OF_EVENTS.parse(options.filter), _Hosts()
    problems, notes = list[str](), list[str]()
    is_filtered = bool(options.filter.strip())
    if options.replay is not None or _is_of_this_host(options):
        check_recording(options)
        recording = open_recording(options.replay, is_coarse=True)
        span, found = _of_recording(recording, options, hosts)
    else:
        span, found = _of_sources(options, hosts, problems, notes)
    start, end = span
    known = [each for each in found if start <= each.at <= end]
    shown = sorted(passing(known, hosts.values(), wanted), key=lambda each: each.at)
    if options.json:
        write_json(shown)
    else:
        some = shown if is_filtered else None
        text = render(
            shown,
            start,
            end,
            lost=losses(known, hosts.values(), start, end, some).texts,
            none="no event passes the filter" if is_filtered else "nothing happened",
            width=terminal.width(0) or None,
            color=has_color(),
            ascii=is_ascii(options),
        )
        terminal.write_text(text)
    for problem in (*problems, *notes):
        terminal.write_message(f"gpudash: {problem}\n")
    return ExitStatus.UNAVAILABLE if problems else ExitStatus.OK


def _is_of_this_host(options: argparse.Namespace) -> bool:
    """Whether the options are only about this host."""
    is_asked = any(kind.is_asked(options) for kind in SOURCES.values())
    has_default = os.environ.get("GPUDASH_PROMETHEUS") or settings(options).fleet.prometheus
    return not is_asked and not has_default


def _of_sources(
    options: argparse.Namespace, hosts: _Hosts, problems: list[str], notes: list[str]
) -> tuple[tuple[datetime, datetime], Iterable[Event]]:
    """Return the events; note the hosts' last states, and sources without data.

    `notes` are about sources with data for only a part of the span.

    Raises GpudashError if none has data of GPUs.
    """
    if not any(kind.is_asked(options) for kind in SOURCES.values()) and not options.no_config:
        options.prometheus = [""]
    asked = {name: kind for name, kind in SOURCES.items() if kind.is_asked(options)}
    if asked and WITH_PAST.isdisjoint(asked):
        option = next(iter(next(iter(asked.values())).options))
        raise UsageError(
            f"--{option} has no past: give --prometheus, or --replay FILE of a recording; the "
            "screen shows what it has watched"
        )
    now = Span(None, datetime.now(timezone.utc))
    span = parse_window(options.since or _DEFAULT_SINCE, options.at, now)
    collector = open_collector(options)
    try:
        found: list[Event] = []
        for name, past in collector.pasts(*span):
            own: list[Event] = []
            try:
                own += events(_noted(past, name, span[0], hosts, notes))
            except GpudashError as error:
                problems.append(f"{name}: {error}")
            found = together(found, own)
        if not hosts:
            raise GpudashError("; ".join(problems) or "there is no data of GPUs in that time")
        return span, [*found, *_signals({name for _, name in hosts}, *span)]
    finally:
        collector.close()
        if terminal.progress_is_shown():
            terminal.end_progress()


def _noted(
    past: Iterable[FleetSnapshot], name: str, since: datetime, hosts: _Hosts, notes: list[str]
) -> Iterator[FleetSnapshot]:
    """Yield a past, show the progress on a terminal, and note its hosts at the end.

    Also note when its data begin, if that is not the beginning of the span.
    """
    last, shown, has_line = None, "", terminal.progress_is_shown()
    for last in past:
        if not shown and (late := no_data_before(since, last.taken_at)) is not None:
            notes.append(f"{name}: {late}")
        hour = f"{last.taken_at.astimezone():%m-%d %H}:00"
        if has_line and hour != shown:
            terminal.show_progress(f"gpudash: read up to {hour}")
        shown = hour
        yield last
    if last is not None:
        hosts.update({host.key: host for host in last.hosts})
        warnings = (each for source in last.sources for each in source.warnings)
        notes += [f"{name}: answers in part: {each}" for each in warnings]


def _of_recording(
    recording: Recording, options: argparse.Namespace, hosts: _Hosts
) -> tuple[tuple[datetime, datetime], Iterable[Event]]:
    """Return the events of a recording, all of a file unless --since is given."""
    known = recording.span
    if options.since is None and options.replay is not None:
        end = known.last if options.at is None else parse_instant(options.at, known)
        span = known.first or end, end
    else:
        span = parse_window(options.since or _DEFAULT_SINCE, options.at, known)
    is_file = options.replay is not None and not os.path.isdir(options.replay)
    step = _step(known) if is_file else 1
    changes = Changes()
    found: list[Event] = []
    for many, leases in recorded(recording, *span, step):
        hosts.update({host.key: host for host in many.hosts})
        found += changes.add(many, leases)
    return span, [*found, *_signals({name for _, name in hosts}, *span)]


def _step(known: Span) -> int:
    """Return the interval of samples to read of a recording, independent of the options."""
    seconds = (known.last - (known.first or known.last)).total_seconds()
    return next((each for each in _STEPS if seconds <= each * _MAX_SAMPLES), _STEPS[-1])


def _signals(names: Set[str], start: datetime, end: datetime) -> Sequence[Event]:
    """Return the signals that gpudash has sent on this host, if it is one of these."""
    known = sent.signals() if sent.is_here(names) else ()
    return [each for each in known if start <= each.at <= end]


VERB = Verb(
    "list what happened: GPUs lost, hosts down, XID errors, jobs",
    add_arguments,
    run,
    "The past of a Prometheus is looked at in steps of a minute or more, longer for more GPUs: "
    "what is away for less is left out. Two times are those between which it happened, in JSON "
    "`at` and `within_seconds` before. Without a source it is the Prometheus of the settings, else "
    "what gpudash serve remembers of this host: every ten seconds for a day, every minute before "
    "that and of hundreds of processes. Signals are those that gpudash sent on this host. "
    "GPU-hours are added up of hosts that are down and GPUs that are lost; those of hosts that "
    "are stale or drained, and of GPUs after an XID error, are not in the sum.",
)
