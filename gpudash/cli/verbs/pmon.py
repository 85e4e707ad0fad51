"""`gpudash pmon`: a line per process, GPU and second, in the columns of `nvidia-smi pmon`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from gpudash.cli.rolling import add_rolling, roll
from gpudash.cli.values import letters
from gpudash.cli.verbs import Verb
from gpudash.model.snapshot import Snapshot
from gpudash.output import monitor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash pmon` takes."""
    add_rolling(parser)
    text = "u utilization, m memory (u)"
    select = letters(monitor.PROCESS_LETTERS)
    parser.add_argument("-s", "--select", type=select, default="u", metavar="LETTERS", help=text)


def run(options: argparse.Namespace) -> int:
    """Print lines until the count is reached or a signal arrives."""
    stamp = options.stamp or ""

    def table(snapshot: Snapshot) -> tuple[str, Iterable[str]]:
        columns = monitor.process_columns(options.select, snapshot)
        lines = monitor.process_lines(snapshot, columns, stamp)
        return monitor.process_headings(snapshot, columns, stamp), lines

    return roll(options, table)


VERB = Verb("print a line per process and second, as nvidia-smi pmon", add_arguments, run)
