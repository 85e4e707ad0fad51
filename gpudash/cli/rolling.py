"""The common part of `dmon` and `pmon`: their options, and the loop that prints their lines."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable
from contextlib import closing

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import chosen, exit_status, refuse_silence
from gpudash.cli.options import DEFAULT_INTERVAL, collector_command
from gpudash.cli.values import count, letters, seconds
from gpudash.feed.sampler import LineStream
from gpudash.model import wire
from gpudash.model.snapshot import EMPTY, Snapshot
from gpudash.system import terminal

_WAIT_SECONDS = 1.0
_MAX_COUNT = 999_999
_LINES_BELOW_HEADINGS = 44
"""nvidia-smi repeats them after this many lines."""


def add_rolling(parser: argparse.ArgumentParser) -> None:
    """Declare the options of both, as nvidia-smi spells them."""
    add = parser.add_argument
    text = "only these GPUs: indices, UUIDs or PCI bus ids"
    add("-i", "--id", dest="gpu", default=argparse.SUPPRESS, metavar="LIST", help=text)
    text = f"seconds between samples ({DEFAULT_INTERVAL:g})"
    add("-d", "--delay", type=seconds, default=DEFAULT_INTERVAL, metavar="S", help=text)
    text = "end after this many samples"
    add("-c", "--count", type=count(_MAX_COUNT), metavar="N", help=text)
    text = "put the date (D), the time (T) or both before each line"
    add("-o", "--options", type=letters("DT"), dest="stamp", metavar="DT", help=text)
    text = "write to a file"
    add("-f", "--filename", default=argparse.SUPPRESS, metavar="FILE", help=text)
    add_shared(parser, "demo")


def roll(
    options: argparse.Namespace,
    table: Callable[[Snapshot], tuple[str, Iterable[str]]],
    *,
    skipped: int = 1,
) -> int:
    """Print the headings and the lines of each sample's `table`; return the last status.

    The first `skipped` samples are omitted, as their rates are unknown. Raises GpudashError if
    requested GPUs are missing, and DriverError if a GPU is silent at the end.
    """
    printed, numbers, problem, latest = -skipped, itertools.count(), "", EMPTY
    # Missing GPUs of the list are skipped; the collector would fail.
    command = collector_command(argparse.Namespace(**{**vars(options), "gpu": None}), shared=True)
    with closing(LineStream(command, options.delay, wire.decode)) as stream:
        while options.count is None or printed < options.count:
            stream.wait(_WAIT_SECONDS)
            for sample in stream.take():
                if printed == options.count:
                    break
                refuse_silence(sample.snapshot, "nvml")
                latest = chosen(sample.snapshot, options)
                if printed >= 0:
                    headings, lines = table(latest)
                    text = "".join(
                        line if next(numbers) % _LINES_BELOW_HEADINGS else headings + line
                        for line in lines
                    )
                    terminal.write_text(text)
                printed += 1
            if stream.problem != problem:
                problem = stream.problem
                terminal.write_message(f"gpudash: {problem or 'samples again'}\n")
    return exit_status(latest, with_topology=False)
