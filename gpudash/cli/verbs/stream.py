"""`gpudash --json`: one document a line, until its reader goes away."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from math import inf

from gpudash.analysis.health.engine import Diagnosis
from gpudash.analysis.selection import select
from gpudash.cli.verbs.switch import Switch
from gpudash.collect.local import open_source
from gpudash.collect.source import Source
from gpudash.feed.collector import IntervalReader
from gpudash.model import wire
from gpudash.system import startup as quick
from gpudash.system import terminal as stdout

_SECOND_SAMPLE_SECONDS = 1.0


def run(
    *,
    demo: str | None,
    gpus: Sequence[str],
    interval: Callable[[], float],
    show_secrets: bool = False,
    pcie_throughput: bool = False,
    is_controlled: bool = False,
) -> int:
    """Print a snapshot every `interval` seconds; ends by ReaderGoneError or a signal.

    `interval` is called after the first one, which does not wait for it. A collector that
    `is_controlled` takes other intervals from stdin.
    SIGUSR1 makes it let go of the GPUs and be silent until the next one, so that they can be
    reset. Raises DriverError when the driver cannot be used, or not be let go of.
    """
    source = open_source(demo, show_secrets=show_secrets, pcie_throughput=pcie_throughput)
    diagnosis = Diagnosis()
    switch = Switch(signal.SIGUSR1)
    due = time.monotonic()
    stdout.write(_line(source, diagnosis, gpus))
    interval_reader = IntervalReader(interval(), 0 if is_controlled else None)
    quick.settle()
    # Rates are those between two samples: the second comes soon, however slow the interval.
    most = _SECOND_SAMPLE_SECONDS
    while True:
        # A tick that was missed is skipped, so that a stall is not followed by a burst.
        last = due
        due = max(last + min(interval_reader.seconds, most), time.monotonic())
        while (left := due - time.monotonic()) > 0 and not switch.is_on:
            stdout.wait(left, switch.descriptor, interval_reader.descriptor)
            switch.read()
            if interval_reader.read():
                due = max(last + min(interval_reader.seconds, most), time.monotonic())
        most = inf
        if switch.is_on:
            source.close()
            while switch.is_on:
                stdout.wait(None, switch.descriptor)
                switch.read()
        stdout.write(_line(source, diagnosis, gpus))


def _line(source: Source, diagnosis: Diagnosis, gpus: Sequence[str]) -> bytes:
    return wire.encode(select(diagnosis.examine(source.sample()), gpus)) + b"\n"
