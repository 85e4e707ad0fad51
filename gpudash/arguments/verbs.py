"""The commands behind `gpudash`, each with the options that are its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from gpudash.arguments.options import add_shared, positive

_NOTHING_SENT = "send nothing, as with GPUDASH_READ_ONLY=1 or read_only in the settings"


class Verb(NamedTuple):
    """A command: its name, one line about it, and what adds its options to a parser."""

    name: str
    help: str
    add: Callable[[argparse.ArgumentParser], None]


def _topo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--p2p", action="store_true", help="peer access between them, too")
    add_shared(parser, "json", "gpu", "timeout", "demo", json="one JSON document")


def _kill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    pid = "process id; 4242:303585 names the clock ticks of its start, too, as --json has them"
    add("pids", nargs="+", metavar="PID", help=pid)
    add("--signal", default="TERM", metavar="NAME", help="TERM, KILL, INT, 9, ... (TERM)")
    add("--tree", action="store_true", help="the processes that they started, too")
    add("--yes", action="store_true", help="do not ask about plain jobs")
    add_shared(parser, "show-secrets", "read-only", "no-config", "demo", read_only=_NOTHING_SENT)
    parser.epilog = (
        "Shows whom it hits and asks; a PID that was reused is never hit. Daemons of the driver, "
        "displays, a container's init and what gpudash runs below want their PID typed. Exit "
        "status: 0 all ended, 1 not all, 2 bad usage. ~/.local/state/gpudash/audit.jsonl records "
        "what was sent."
    )


def _doctor(parser: argparse.ArgumentParser) -> None:
    timeout = "seconds that a check may take (5)"
    parser.add_argument("--timeout", type=positive, default=5.0, metavar="S", help=timeout)
    add_shared(parser, "json", "ascii", json="the checks as one JSON document")


VERBS = (
    Verb("topo", "how the GPUs are connected", _topo),
    Verb("kill", "end processes, if you agree", _kill),
    Verb("doctor", "why gpudash sees what it sees, and what to do", _doctor),
)
