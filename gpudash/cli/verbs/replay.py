"""`gpudash replay`: the screen on a recording; and its lines for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from gpudash.analysis.selection import select
from gpudash.cli.verbs.watch import show
from gpudash.feed.playback import Playback
from gpudash.feed.recording.reader import Tape
from gpudash.feed.recording.samples import find
from gpudash.model import wire
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal as stdout


def run(
    path: str, at: str | None, *, speed: float, repeats: bool, config: bool, **for_this_run: Any
) -> int:
    """Play a recording on the screen from a time on, until the user leaves.

    Raises UsageError for a time that is not in it, WireError where nothing can be replayed.
    """
    tape = Tape(path)
    start = tape.first if at is None else tape.at(find(at, tape))
    playback = Playback(tape, start, speed=speed, repeats=repeats)
    playback.start()
    instead = f"gpudash --once --replay {path}"
    return show(lambda: lambda _interval: playback, config=config, instead=instead, **for_this_run)


def lines(path: str, at: str | None, *, gpus: Sequence[str]) -> int:
    """Print the documents of a recording from a time on, byte for byte unless GPUs are chosen.

    On a terminal they are made anew: whoever wrote the file may have put anything into it.
    """
    is_made_anew = bool(gpus) or stdout.is_terminal()
    tape = Tape(path)
    start = tape.first if at is None else tape.at(find(at, tape))
    for sample in chain((start,), tape.after(start)):
        line = wire.encode(select(sample.snapshot(), gpus)) if is_made_anew else sample.line
        stdout.write(line + b"\n")
    return ExitStatus.OK
