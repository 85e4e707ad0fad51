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
from gpudash.feed.collector import Pace
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
    is_led: bool = False,
) -> int:
    """Print a snapshot every `interval` seconds; ends by ReaderGoneError or a signal.

    `interval` is called after the first one, which does not wait for it. Where it `is_led`, lines
    on stdin tell others.
    SIGUSR1 makes it let go of the GPUs and be silent until the next one, so that they can be
    reset. Raises DriverError when the driver cannot be used, or not be let go of.
    """
    source = open_source(demo, show_secrets=show_secrets, pcie_throughput=pcie_throughput)
    diagnosis = Diagnosis()
    switch = Switch(signal.SIGUSR1)
    due = time.monotonic()
    stdout.write(_line(source, diagnosis, gpus))
    pace = Pace(interval(), 0 if is_led else None)
    quick.settle()
    # Rates are those between two samples: the second comes soon, however slow the interval.
    most = _SECOND_SAMPLE_SECONDS
    while True:
        # A tick that was missed is skipped, so that a stall is not followed by a burst.
        last = due
        due = max(last + min(pace.seconds, most), time.monotonic())
        while (left := due - time.monotonic()) > 0 and not switch.is_on:
            stdout.wait(left, switch.descriptor, pace.descriptor)
            switch.read()
            if pace.read():
                due = max(last + min(pace.seconds, most), time.monotonic())
        most = inf
        if switch.is_on:
            source.close()
            while switch.is_on:
                stdout.wait(None, switch.descriptor)
                switch.read()
        stdout.write(_line(source, diagnosis, gpus))


def _line(source: Source, diagnosis: Diagnosis, gpus: Sequence[str]) -> bytes:
    return wire.encode(select(diagnosis.examine(source.sample()), gpus)) + b"\n"
