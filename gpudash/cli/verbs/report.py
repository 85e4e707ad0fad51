"""`gpudash report`: the use of GPUs, by user, GPU, job or host."""

from __future__ import annotations

import argparse
from contextlib import closing
from datetime import datetime, timezone
from typing import get_args

from gpudash.analysis.report import ReportSums
from gpudash.cli.arguments import add_shared
from gpudash.cli.fleet import prices
from gpudash.cli.oneshot import write_json
from gpudash.cli.options import (
    check_recording,
    has_color,
    is_ascii,
    open_recording,
    refuse,
    settings,
)
from gpudash.cli.verbs import Verb
from gpudash.feed.instants import Span, parse_instant, parse_window
from gpudash.feed.recording.reader import Recording
from gpudash.fleet.report import asked_reports, of_servers, recorded_minutes, recorded_span
from gpudash.fleet.ssh_source import hosts_of
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.report import Grouping, Minute, Report
from gpudash.model.text import clean
from gpudash.output import report as output
from gpudash.system import terminal

_DEFAULT_SINCE = "7d"
_FORMATS = ("table", "json", "csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash report` takes."""
    add = parser.add_argument
    text = "how far back, or from when: 12h, 7d, 02:14, yesterday, monday 18:00, 2026-11-26T02:14"
    text += f" ({_DEFAULT_SINCE}; of a recording all)"
    add("--since", metavar="TIME", help=text)
    text = "what the rows are: user (the default), gpu, job or host"
    add("--by", choices=get_args(Grouping), default="user", metavar="WHAT", help=text)
    text = f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}"
    add("--format", choices=_FORMATS, default=argparse.SUPPRESS, metavar="F", help=text)
    text = "until when, instead of now or the end of the recording"
    add_shared(parser, "json", "replay", "at", "no-config", "ascii", at=text)
    demo = "simulate many hosts: fleet, fleet-64x8"
    add_shared(parser, "host", "hosts-file", "ssh-config", "prometheus", "demo", demo=demo)


def run(options: argparse.Namespace) -> int:
    """Print a report; raises UsageError, GpudashError if the past is unreadable."""
    if options.json:
        refuse(options, ("format",), "--json")
    if options.replay is not None:
        check_recording(options)
        report = _of_recording(open_recording(options.replay), options)
    elif options.host is not None or options.hosts_file is not None:
        refuse(options, ("prometheus", "demo"), "--host: give one of the two")
        report = _of_hosts(options)
    elif options.prometheus is not None:
        refuse(options, ("demo",), "--prometheus: give one of the two")
        report = _of_prometheus(options)
    elif options.demo is not None:
        report = _of_demo(options)
    else:
        report = _of_recording(open_recording(None), options)
    _write(report, options)
    failed = [each for each in report.hosts if each.message is not None]
    for each in failed:
        terminal.write_message(f"gpudash: {each.name}: {each.message}\n")
    return ExitStatus.UNAVAILABLE if failed else ExitStatus.OK


def _of_recording(recording: Recording, options: argparse.Namespace) -> Report:
    """Return the report of a recording, all of it unless --since is given; or of the past."""
    known, now = recorded_span(recording), datetime.now(timezone.utc)
    if options.replay is None:
        since, until = _window(options, now)
    elif options.since is None:
        until = known.last if options.at is None else parse_instant(options.at, known)
        since = known.first or until
    else:
        since, until = parse_window(options.since, options.at, known)
    sums = ReportSums(options.by)
    for minute in recorded_minutes(recording, since, until):
        sums.add(minute)
    notes = [each.note for each in (recording, recording.numbers) if each is not None]
    if any(notes):
        sums.note(clean("; ".join(filter(None, notes))))
    report = sums.report(now, since, until, prices(options))
    if not any(each.seen_seconds for each in report.hosts):
        notes.append(f"nothing was seen in that time: there are samples of {known}")
    for note in filter(None, notes):
        terminal.write_message(f"gpudash: {note}\n")
    return report


def _of_hosts(options: argparse.Namespace) -> Report:
    """Return the report of hosts, each made there; raises GpudashError if none answers."""
    now, known = datetime.now(timezone.utc), settings(options).fleet
    since, until = _window(options, now)
    # Clocks differ: a report up to now is requested without an end.
    words = ["report", "--json", "--by", options.by]
    words += ["--since", f"{(until - since).total_seconds():.0f}s"]
    words += [] if options.at is None else ["--at", until.astimezone(timezone.utc).isoformat()]
    hosts = hosts_of(options, known)
    sums = ReportSums(options.by)
    failures = []
    for host, answer in asked_reports(
        hosts, words, config=options.ssh_config, gpudash=known.remote
    ):
        if isinstance(answer, Report) and answer.by == options.by:
            sums.merge(answer, clean(host))
            continue
        message = answer if isinstance(answer, str) else f"answers by {answer.by}"
        sums.miss(clean(host), clean(message))
        failures.append(f"{host}: {message}")
    if len(failures) == len(hosts):
        raise GpudashError("; ".join(failures))
    report = sums.report(now, since, until, prices(options))
    for each in report.hosts:
        if each.note is not None:
            terminal.write_message(f"gpudash: {each.name}: {each.note}\n")
    return report


def _of_prometheus(options: argparse.Namespace) -> Report:
    """Return the report of hosts from servers; raises GpudashError if none answers."""
    from gpudash.fleet.prometheus.source import opened
    from gpudash.fleet.slurm import owners

    now = datetime.now(timezone.utc)
    since, until = _window(options, now)
    sums, failures = ReportSums(options.by), []
    sources = list(opened(options, settings(options)))
    jobs = owners(since)
    known: list[list[Minute]] = []
    for source in sources:
        with closing(source):
            name = source.read().report.name
            try:
                known.append([])
                # The minutes of one server are many, and no other has the same: they are not kept.
                take = sums.add if len(sources) == 1 else known[-1].append
                for minute in source.minutes(since, until, jobs, by_host=options.by == "host"):
                    take(minute)
                for warning in source.past_warnings:
                    terminal.write_message(f"gpudash: {name}: answers in part: {warning}\n")
            except GpudashError as error:
                sums.miss(name, clean(str(error)))
                failures.append(f"{name}: {error}")
    if len(failures) == len(sources):
        raise GpudashError("; ".join(failures))
    for minute in of_servers(known):
        sums.add(minute)
    return sums.report(now, since, until, prices(options))


def _of_demo(options: argparse.Namespace) -> Report:
    from gpudash.fleet.demo import opened

    now = datetime.now(timezone.utc)
    since, until = _window(options, now)
    sums = ReportSums(options.by)
    for source in opened(options, None):
        for minute in source.minutes(since, until):
            sums.add(minute)
    return sums.report(now, since, until, prices(options))


def _window(options: argparse.Namespace, now: datetime) -> tuple[datetime, datetime]:
    return parse_window(options.since or _DEFAULT_SINCE, options.at, Span(None, now))


def _write(report: Report, options: argparse.Namespace) -> None:
    name = "json" if options.json else options.format or "table"
    if name == "json":
        write_json(report)
        return
    text = (
        output.to_csv(report)
        if name == "csv"
        else output.render(
            report, width=terminal.width(), color=has_color(), ascii=is_ascii(options)
        )
    )
    terminal.write_text(text)


VERB = Verb(
    "what GPUs were used for: time held, held idle, energy, cost",
    add_arguments,
    run,
    "A GPU counts as held while processes compute on it; its share is what is left of that if it "
    "is divided equally among its MIG instances in use, their users, and the jobs of each. Held "
    "idle is what the column STATUS says: pauses of up to five minutes are none. Unknown is time "
    "held in which the utilization is not known. The energy of users and jobs is an estimate: "
    "that of a GPU by its counter, divided by SM utilization where it is known of all who hold it, "
    "else by their shares. The cost is that of the shares at the prices of the settings. The time "
    "from sample to sample counts, but for gaps of more than three intervals and 15 seconds: what "
    "was not seen is in no sum. The past of a Prometheus is looked at in steps of a minute, longer "
    "for many GPUs: what gpudash serve exports of users, GPUs and findings counts as above; of "
    "other exporters a GPU is held that has a job by its labels, 1 GiB in use or a utilization of "
    "5 %, and idle once it has had less than 1 % for five minutes. Jobs are those of the labels, "
    "their users as Slurm knows them; MIG instances are in the rows of their GPUs, users of "
    "gpudash serve have no energy.",
)
