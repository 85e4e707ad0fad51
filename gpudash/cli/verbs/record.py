"""`gpudash record`: writes the collector's lines to a file."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gpudash.cli import fleet, modes
from gpudash.cli.arguments import add_shared, add_sources
from gpudash.cli.options import DEFAULT_INTERVAL, refuse
from gpudash.cli.remote import lines
from gpudash.cli.signals import NotedSignals
from gpudash.cli.stream import alerts
from gpudash.cli.values import seconds, size, span
from gpudash.cli.verbs import Verb
from gpudash.feed.recording.segments import Folder
from gpudash.feed.recording.writer import Writer
from gpudash.feed.sampler import LineStream, SilenceError
from gpudash.model.errors import ExitStatus
from gpudash.model.fleet import FleetSnapshot, decode
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.units import counted, duration, short_size
from gpudash.system import terminal

_WAIT_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash record` takes."""
    add = parser.add_argument
    add("file", metavar="FILE", help="a new file; compressed if its name ends in .zst")
    add(
        "--duration",
        type=span,
        metavar="T",
        help="end this long after the first sample: 90s, 10m, 1h30m (at Ctrl-C)",
    )
    text = f"seconds between samples ({DEFAULT_INTERVAL:g})"
    add("--interval", type=seconds, default=argparse.SUPPRESS, metavar="S", help=text)
    text = (
        "make FILE a folder of this size, 500M, whose oldest samples go: replay takes it as a file"
    )
    add("--max-size", type=size, metavar="SIZE", help=text)
    add_shared(parser, "on-finding", "level", "gpu", "pcie-throughput")
    add_sources(parser)


def run(options: argparse.Namespace) -> int:
    """Record until the end of the time, or a signal, which then sets the status.

    SIGUSR1 releases the GPUs until the next SIGUSR1. Raises UsageError if a file is in the way,
    OutputError if it cannot be written, and the collector's own error, or SilenceError, if there
    never was a sample.
    """
    with alerts(options) as observe:
        return _record(options, observe)


def _record(options: argparse.Namespace, observe: Callable[[Snapshot], None] | None) -> int:
    is_fleet = modes.is_fleet(options)
    interval = fleet.interval(options) if is_fleet else options.interval or DEFAULT_INTERVAL
    limit: float | None = options.duration
    noted = NotedSignals(ends=True)
    open_stream = _stream(options, interval)
    path, limit_bytes, series = options.file, options.max_size, [max(1, round(interval))]
    writer = Writer(path) if limit_bytes is None else Folder(path, limit_bytes)
    progress = _ProgressLine(writer)
    try:
        with closing(writer), closing(open_stream()) as stream:
            since = time.monotonic()
            while noted.status is None:
                left = _WAIT_SECONDS if limit is None else since + limit - time.monotonic()
                if left <= 0 and (writer.lines or stream.problem):
                    break
                wait = min(left, _WAIT_SECONDS) if left > 0 else _WAIT_SECONDS
                stream.wait(wait, noted.descriptor)
                noted.drain()
                if noted.is_released is not stream.is_released:
                    stream.toggle_release()
                for sample in stream.take():
                    if not writer.lines:
                        since = time.monotonic()
                    if isinstance(writer, Folder):
                        writer.write(sample.line, sample.snapshot.taken_at, series)
                    else:
                        writer.write(sample.line)
                    if observe is not None and isinstance(sample.snapshot, Snapshot):
                        observe(sample.snapshot)
                progress.update(stream.problem)
            problem = stream.problem
    finally:
        progress.end()
    if not writer.lines:
        raise _nothing_recorded(options.file, problem, noted.status)
    return ExitStatus.OK if noted.status is None else noted.status


def _stream(
    options: argparse.Namespace, interval: float
) -> Callable[[], LineStream[Snapshot] | LineStream[FleetSnapshot]]:
    """Return a function that starts the collector of one host, or of many."""
    if modes.is_fleet(options):
        refuse(options, ("on_finding", "gpu", "pcie_throughput"), "many hosts")
        argv, environ = fleet.command(options), fleet.environment(options)
        return lambda: LineStream(argv, interval, decode, environ=environ)
    found = lines(options)
    return lambda: LineStream(found.argv, interval, found.decode, encode=found.encode)


def _nothing_recorded(path: str, problem: str, status: int | None) -> SilenceError:
    """Return why there is no file, with the status of the signal that ended the wait, if any."""
    why = problem or "it was ended before the first sample"
    error = SilenceError(f"{clean(path)} was not written: {why}")
    error.exit_status = error.exit_status if status is None else status
    return error


class _ProgressLine:
    """A line of progress on a terminal; elsewhere only problems, as they come and go."""

    def __init__(self, writer: Writer | Folder) -> None:
        self._writer = writer
        self._since = time.monotonic()
        self._on_terminal = terminal.progress_is_shown()
        self._problem = ""

    def update(self, problem: str) -> None:
        """Show how much was recorded, and why nothing is being added."""
        if self._on_terminal:
            what = f"; {problem}" if problem else "; Ctrl-C ends it"
            text = f"{self._done('recording')}, {duration(time.monotonic() - self._since)}{what}"
            terminal.show_progress(text)
        elif bool(problem) != bool(self._problem):
            terminal.write_message(
                f"gpudash: {problem or 'samples again: the recording goes on'}\n"
            )
        self._problem = problem

    def end(self) -> None:
        """Report what was recorded, if anything was."""
        if self._on_terminal:
            terminal.end_progress(f"{self._done('recorded')}\n" if self._writer.lines else "")

    def _done(self, verb: str) -> str:
        count, size = counted(self._writer.lines, "sample"), short_size(self._writer.bytes)
        return f"gpudash: {verb} {Path(self._writer.path).name}: {count}, {size}"


VERB = Verb(
    "record samples to a file",
    add_arguments,
    run,
    "Each line is a document of gpudash --json. Secrets on command lines stay masked, and only "
    "you can read the file. Exit status: 0 after --duration, 74 if the disk is full, 130 when "
    "ended by Ctrl-C, 143 by SIGTERM.",
)
