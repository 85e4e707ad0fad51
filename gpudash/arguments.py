"""What may stand behind `gpudash`, and one line for what may not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from gpudash import __version__
from gpudash.errors import UsageError

_MIN_INTERVAL, _MAX_INTERVAL = 0.1, 3600.0
_DEFAULT_DEMO = "dgx-h100"
_COMMANDS = ("topo", "kill")
_BELONGS = {"p2p": "topo", "tree": "kill", "yes": "kill"}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options that the words of a command line ask for; raises UsageError."""
    words = _with_demo_name(argv)
    options = _parser().parse_intermixed_args(words)
    if options.command not in (None, *_COMMANDS):
        choices = ", ".join(_COMMANDS)
        raise UsageError(f"invalid choice: {options.command!r} (choose from {choices})")
    for name, command in _BELONGS.items():
        if getattr(options, name) and options.command != command:
            raise UsageError(f"--{name} goes with gpudash {command}")
    if options.pids and options.command != "kill":
        raise UsageError(f"unrecognized arguments: {' '.join(options.pids)}; see gpudash --help")
    return options


class _Parser(argparse.ArgumentParser):
    """Bad arguments are one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see gpudash --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpudash",
        description="See every GPU of a server at a glance, who holds it and why.",
        usage="gpudash [options] [topo | kill PID...]",
        epilog=(
            "Without options: the live screen, where h lists the keys. Exit status: 0, 2 bad "
            "usage, 15 or 16 a GPU is lost or needs a reset, else NVML's number."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    topo = "the links of the GPUs; with --p2p peer access, too"
    kill = "end processes if you agree; or --signal NAME, --tree, --yes"
    add("command", nargs="?", metavar="topo", help=topo)
    add("pids", nargs="*", metavar="kill PID...", help=kill)
    _add_hidden(parser)
    add("--once", action="store_true", help="print the state once, as a table")
    add("--json", action="store_true", help="JSON: a line per interval, with --once one document")
    add("--interval", type=_interval, metavar="S", help="seconds between samples (1)")
    add("--gpu", metavar="LIST", help="only these: 0,2-3, UUID prefixes, PCI bus ids")
    add("--demo", metavar="NAME", help=f"a simulated host, by default {_DEFAULT_DEMO}")
    _add_screen(parser)
    add("--ascii", action="store_true", help="draw with ASCII only")
    add("--json-schema", action="store_true", help="print the JSON Schema of the documents")
    add("--version", action="version", version=f"gpudash {__version__}")
    return parser


def _add_hidden(parser: argparse.ArgumentParser) -> None:
    """Add the options that the lines of the commands name."""
    for name in ("--p2p", "--tree", "--yes"):
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--signal", default="TERM", help=argparse.SUPPRESS)


def _add_screen(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--theme", metavar="NAME", help="the colours of the screen, as F2 there lists them")
    add("--no-config", action="store_true", help="leave the file of settings alone")
    add("--read-only", action="store_true", help="offer no way to signal a process")


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not _MIN_INTERVAL <= seconds <= _MAX_INTERVAL:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no interval: choose {_MIN_INTERVAL:g} to {_MAX_INTERVAL:g} seconds"
        )
    return seconds


def _with_demo_name(argv: Sequence[str]) -> list[str]:
    """Give a bare `--demo` its name, so that it does not swallow the command behind it."""
    words: list[str] = []
    for place, word in enumerate(argv):
        following = argv[place + 1] if place + 1 < len(argv) else "-"
        bare = word == "--demo" and (following.startswith("-") or following in _COMMANDS)
        words.append(f"--demo={_DEFAULT_DEMO}" if bare else word)
    return words
