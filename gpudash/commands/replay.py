"""`gpudash replay`: the screen on a recording; and its lines for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from gpudash import stdout, wire
from gpudash.errors import ExitStatus
from gpudash.recording import Tape, find
from gpudash.selection import select


def lines(path: str, at: str | None, *, gpus: Sequence[str]) -> int:
    """Print the documents of a recording from a time on, byte for byte unless GPUs are chosen."""
    tape = Tape(path)
    start = tape.first if at is None else tape.at(find(at, tape))
    for sample in chain((start,), tape.after(start)):
        line = wire.encode(select(sample.snapshot(), gpus)) if gpus else sample.line
        stdout.write(line + b"\n")
    return ExitStatus.OK
