"""`gpudash replay`: the screen on a recording, or its lines for scripts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain

from gpudash.cli.arguments import add_shared
from gpudash.cli.options import (
    check_recording,
    gpu_selectors,
    open_recording,
    overrides,
    report_words,
)
from gpudash.cli.values import speed
from gpudash.cli.verbs import Verb
from gpudash.cli.watch import show
from gpudash.feed.instants import parse_instant
from gpudash.feed.playback import Playback
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.feed.recording.samples import sample_at
from gpudash.model import fleet, wire
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash replay` takes."""
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        nargs="?",
        help="a file written by gpudash record, or the folder of gpudash serve --history; without "
        "it what gpudash serve remembers of this host",
    )
    add("--speed", type=speed, default=1.0, metavar="X", help="speed factor (1)")
    add("--loop", dest="repeat", action="store_true", help="start again at the end")
    add_shared(parser, "at", "no-config", "ascii")
    add("--theme", default=argparse.SUPPRESS, metavar="NAME", help="colours of the screen")


def run(options: argparse.Namespace) -> int:
    """Play a recording on the screen until the user leaves.

    Raises UsageError for a time outside it, WireError if nothing can be replayed.
    """
    recording = open_recording(options.file)
    if recording.first.is_fleet:
        from gpudash.cli import fleet_screen

        return fleet_screen.play(options, recording, _start(recording, options.at))
    of_file = "--at -0s" if options.file is None else f"--replay {options.file}"
    start = _start(recording, options.at)
    playback = Playback(recording, start, speed=options.speed, repeats=options.repeat)
    playback.start()
    words = report_words(options) or ()
    return show(
        lambda: lambda _interval: playback,
        config=not options.no_config,
        instead=f"gpudash --once {of_file}",
        reported=[*words, *([] if options.file is None else [f"--replay={options.file}"])],
        **overrides(options),
    )


def print_lines(options: argparse.Namespace) -> int:
    """Print the documents of a recording, byte for byte unless GPUs are chosen.

    If there is none near the requested time, stderr says so. On a terminal, they are encoded again:
    the file may contain anything.
    """
    check_recording(options)
    gpus = gpu_selectors(options)
    is_encoded_again = bool(gpus) or terminal.is_terminal()
    recording = open_recording(options.replay)
    start, gap = (recording.first, "") if options.at is None else sample_at(recording, options.at)
    if gap:
        terminal.write_message(f"gpudash: {gap}\n")
    for sample in chain((start,), recording.after(start)):
        line = _encoded_again(sample, gpus) if is_encoded_again else sample.line
        terminal.write(line + b"\n")
    return ExitStatus.OK


def _encoded_again(sample: Sample, gpus: Sequence[str]) -> bytes:
    from gpudash.analysis.selection import select

    if sample.is_fleet and not gpus:
        return fleet.encode(sample.fleet())
    return wire.encode(select(sample.snapshot(), gpus))


def _start(recording: Recording, at: str | None) -> Sample:
    """Return the sample at a time, the first for none; raises UsageError."""
    return recording.first if at is None else recording.at(parse_instant(at, recording.span))


VERB = Verb(
    "play a recording: pause, step, any time, any speed",
    add_arguments,
    run,
    "Shows the screen as it was: p pauses or plays, [ ] { } step, + and - change the speed, @ goes "
    "to another time. No process can be killed. For scripts: gpudash --once --replay FILE.",
)
