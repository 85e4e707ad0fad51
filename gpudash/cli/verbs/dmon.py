"""`gpudash dmon`: a line per GPU and second, in the columns of `nvidia-smi dmon`."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence

from gpudash.cli.rolling import add_rolling, roll
from gpudash.cli.values import letters
from gpudash.cli.verbs import Verb
from gpudash.model.snapshot import Snapshot
from gpudash.output import monitor


def gpm_metrics(text: str) -> Sequence[int]:
    """Return the numbers of `1,2,20`."""
    known = {str(number): number for number in monitor.GPM_IDS}
    words = [word.strip() for word in text.split(",")]
    if not known.keys() >= set(words):
        raise ArgumentTypeError(f"{text!r}: expected numbers of {', '.join(known)}")
    return [known[word] for word in words]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash dmon` takes."""
    add_rolling(parser)
    text = (
        "p power and temperature, u utilization, c clocks, v violations, m memory, e errors, t PCIe"
    )
    select = letters(monitor.DEVICE_LETTERS)
    parser.add_argument("-s", "--select", type=select, default="puc", metavar="LETTERS", help=text)
    text = "metrics of performance monitoring by their numbers: 1,2,5 (Hopper and newer)"
    parser.add_argument("--gpm-metrics", type=gpm_metrics, default=(), metavar="LIST", help=text)


def run(options: argparse.Namespace) -> int:
    """Print lines until the count is reached or a signal arrives."""
    # Without a counter, only the blocking call has the requested rates.
    options.pcie_throughput = "t" in options.select
    stamp = options.stamp or ""

    def table(snapshot: Snapshot) -> tuple[str, Iterable[str]]:
        columns = monitor.device_columns(options.select, snapshot, options.gpm_metrics)
        lines = monitor.device_lines(snapshot, columns, stamp)
        return monitor.headings(columns, stamp), lines

    # Throttle times are counted from the second sample on.
    return roll(options, table, skipped=2 if "v" in options.select else 1)


VERB = Verb("print a line per GPU and second, as nvidia-smi dmon", add_arguments, run)
