"""The options that several commands share, each declared once."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from gpudash.cli.arguments.values import timeout
from gpudash.model.errors import UsageError
from gpudash.system import terminal as stdout

DEFAULT_DEMO = "dgx-h100"
DEFAULT_TIMEOUT = 10.0


class _Formatter(argparse.HelpFormatter):
    """The look of the help, for which argparse would load shutil at every start."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": stdout.width() - 2, **options})


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **options})

    def print_help(self, file: object = None) -> None:
        """Print what --help prints; raises OutputError."""
        stdout.write(self.format_help().encode())

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}; see {self.prog} --help")


_SHARED: dict[str, dict[str, Any]] = {
    "json": {"action": "store_true"},
    "ascii": {"action": "store_true", "help": "draw with ASCII only"},
    "show-secrets": {
        "action": "store_true",
        "help": "show what else is masked: keys, tokens and passwords on command lines",
    },
    "pcie-throughput": {
        "action": "store_true",
        "help": "measure PCIe traffic where only a call tells it that blocks for 40 ms a GPU",
    },
    "read-only": {"action": "store_true", "help": "offer no way to signal a process"},
    "no-config": {"action": "store_true", "help": "leave the file of settings alone"},
    "timeout": {
        "type": timeout,
        "metavar": "S",
        "help": f"seconds that the driver has to answer a single look ({DEFAULT_TIMEOUT:g})",
    },
    "replay": {
        "metavar": "FILE",
        "help": "look at a recording instead: with --once, --json, ...",
    },
    "at": {
        "metavar": "TIME",
        "help": "in a recording: 10:53, 2026-11-21T10:53:41, +5m from its start, -30s from its end",
    },
    "gpu": {"metavar": "LIST", "help": "only these: 0,2-3, UUID prefixes, PCI bus ids"},
    "demo": {"metavar": "NAME", "help": f"a simulated host, by default {DEFAULT_DEMO}"},
}


def add_shared(parser: argparse.ArgumentParser, *names: str, **helps: str) -> None:
    """Add options to a command that may stand before its name as well.

    They have no default there: what stood before the name would be undone by it.
    """
    for name in names:
        told = helps.get(name.replace("-", "_"))
        declared = {**_SHARED[name], **({"help": told} if told else {})}
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS, **declared)


def add_main(parser: argparse.ArgumentParser, name: str, **other: Any) -> None:
    """Add a shared option to the parser of `gpudash` itself, with its default."""
    parser.add_argument(f"--{name}", **{**_SHARED[name], **other})
