"""`gpudash --json`: one document a line, until its reader goes away."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpudash import quick, stdout, wire
from gpudash.selection import select
from gpudash.sources import Source
from gpudash.sources.local import open_source


def run(
    *, demo: str | None, gpus: Sequence[str], interval: float, show_secrets: bool = False
) -> int:
    """Print a snapshot every `interval` seconds; ends by ReaderGoneError or a signal."""
    source = open_source(demo, show_secrets=show_secrets)
    due = time.monotonic()
    stdout.write(_line(source, gpus))
    quick.settle()
    while True:
        # A tick that was missed is skipped, so that a stall is not followed by a burst.
        due = max(due + interval, time.monotonic())
        stdout.wait(due - time.monotonic())
        stdout.write(_line(source, gpus))


def _line(source: Source, gpus: Sequence[str]) -> bytes:
    return wire.encode(select(source.sample(), gpus)) + b"\n"
