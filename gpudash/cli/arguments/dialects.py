"""Options that fingers and scripts know from nvidia-smi."""

from __future__ import annotations

import argparse

from gpudash.cli.arguments.help import AppFields, GpuFields
from gpudash.cli.arguments.values import milliseconds, seconds

_DEFAULT_LOOP_SECONDS = 5.0


def add_dialects(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of `gpudash` itself."""
    group = parser.add_argument_group("as nvidia-smi has them")
    add = group.add_argument
    add("--query-gpu", metavar="FIELDS", help="values of GPUs, with --format=csv[,...]")
    add("--query-compute-apps", metavar="FIELDS", help="values of processes, the same way")
    add("--help-query-gpu", action=GpuFields, help="list the fields of --query-gpu")
    add("--help-query-compute-apps", action=AppFields, help="list those of processes")
    add("-i", "--id", dest="gpu", metavar="ID", default=argparse.SUPPRESS, help="as --gpu")
    add("-L", "--list-gpus", action="store_true", help="a line per GPU, with its UUID")
    add("-f", "--filename", metavar="FILE", help="print into a file")
    add(
        "-l",
        "--loop",
        nargs="?",
        type=seconds,
        const=_DEFAULT_LOOP_SECONDS,
        metavar="S",
        help="query again and again, every so many seconds (5)",
    )
    add("-lms", "--loop-ms", type=milliseconds, dest="loop", metavar="MS", help="in milliseconds")
