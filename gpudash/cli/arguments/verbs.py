"""The commands behind `gpudash`, each with the options that are its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from gpudash.cli.arguments.options import add_shared
from gpudash.cli.arguments.values import (
    count,
    files,
    interval,
    percentage,
    size,
    span,
    speed,
    window,
)

DOCTOR_TIMEOUT = 5.0
"""Seconds that a check of `gpudash doctor` may take, unless it is told otherwise."""

_NOTHING_SENT = "send nothing, as with GPUDASH_READ_ONLY=1 or read_only in the settings"


class Verb:
    """A command: its name, one line about it, and what adds its options to a parser."""

    def __init__(
        self, name: str, help: str, add: Callable[[argparse.ArgumentParser], None]
    ) -> None:
        self.name, self.help, self.add = name, help, add


def _topo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--p2p", action="store_true", help="peer access between them, too")
    names = "json", "gpu", "timeout", "demo", "replay", "at"
    add_shared(parser, *names, json="one JSON document", replay="look at a recording instead")


def _kill(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    pid = "process id; 4242:303585 names the clock ticks of its start, too, as --json has them"
    add("pids", nargs="+", metavar="PID", help=pid)
    signals = "TERM, KILL, INT, 9, ... (TERM); also -9, -KILL first of all"
    add("-s", "--signal", default="TERM", metavar="NAME", help=signals)
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
    text = f"seconds that a check may take ({DOCTOR_TIMEOUT:g})"
    what = "the checks as one JSON document"
    add_shared(parser, "timeout", "json", "ascii", timeout=text, json=what)


def _wish(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-n", "--count", type=count, default=1, metavar="N", help="how many GPUs (1)")
    add("--min-free", type=size, default=0, metavar="SIZE", help="free memory each: 20GiB")
    add("--max-util", type=percentage, default=10.0, metavar="P", help="utilization, percent (10)")
    add("--model", metavar="TEXT", help="a part of the product's name: H100")
    add("--linked", action="store_true", help="all of them connected by NVLink")
    add("--share", action="store_true", help="take also those on which others compute")
    add("--for", type=window, default=2.0, dest="window", metavar="T", help="judged over (2s)")
    add_shared(parser, "gpu")


def _pick(parser: argparse.ArgumentParser) -> None:
    _wish(parser)
    parser.add_argument("--format", choices=("uuid", "index"), default="uuid", help="(uuid)")
    add_shared(parser, "demo")


def _wait(parser: argparse.ArgumentParser) -> None:
    _pick(parser)
    text = "give up after: 2h"
    parser.add_argument("--timeout", type=span, dest="patience", metavar="T", help=text)


def _run(parser: argparse.ArgumentParser) -> None:
    _wish(parser)
    add = parser.add_argument
    waits = parser.add_mutually_exclusive_group().add_argument
    waits("--wait", action="store_true", help="until they are free, in turn with others who wait")
    waits("--no-wait", action="store_false", dest="wait", help="exit with 75 if they are not (so)")
    text = "with --wait: give up after: 2h"
    add("--timeout", type=span, dest="patience", metavar="T", help=text)
    add("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run on them")


def _leases(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "json", "gpu", "demo", json="one JSON document")


def _config(parser: argparse.ArgumentParser) -> None:
    actions = ("init", "path", "validate")
    text = "write it with every setting explained, print where it is, or tell its mistakes"
    parser.add_argument("action", choices=actions, metavar="|".join(actions), help=text)


def _completion(parser: argparse.ArgumentParser) -> None:
    shells = ("bash", "zsh", "fish")
    parser.add_argument("shell", choices=shells, metavar="|".join(shells), help="for which shell")


def _record(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="a new file; packed by zstd if its name ends in .zst")
    add("--duration", type=span, metavar="T", help="end after: 90s, 10m, 1h30m (Ctrl-C)")
    pause = "seconds between samples (1)"
    add("--interval", type=interval, default=argparse.SUPPRESS, metavar="S", help=pause)
    add("--max-size", type=size, metavar="SIZE", help="then go on anew, with FILE as FILE.1: 500M")
    add("--keep", type=files, default=4, metavar="N", help="with --max-size: older files kept (4)")
    add_shared(parser, "gpu", "pcie-throughput", "demo")
    parser.epilog = (
        "A line is a document of gpudash --json, written whole. Secrets on command lines stay "
        "masked, and only you can read the file. Exit status: 0 after --duration, 74 the disk is "
        "full, 130 ended by Ctrl-C, 143 by SIGTERM."
    )


def _replay(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="what gpudash record has written")
    add("--speed", type=speed, default=1.0, metavar="X", help="so many times as fast (1)")
    add("--loop", dest="loop_again", action="store_true", help="from its end to its start again")
    add_shared(parser, "at", "no-config", "ascii")
    parser.epilog = (
        "The screen as it was: p stops and plays, [ ] { } step, + and - change the speed, @ goes "
        "to another time. Nothing can be killed there. For scripts: gpudash --once --replay FILE."
    )


VERBS = (
    Verb("topo", "how the GPUs are connected", _topo),
    Verb("kill", "end processes, if you agree", _kill),
    Verb("pick", "print free GPUs: CUDA_VISIBLE_DEVICES=$(gpudash pick)", _pick),
    Verb("wait", "the same, but wait until they are free", _wait),
    Verb("run", "run a command on free GPUs that nobody else gets: run -n 2 -- CMD", _run),
    Verb("leases", "who has GPUs by gpudash run, and whether they use them", _leases),
    Verb("record", "keep what happens in a file", _record),
    Verb("replay", "see it again: pause, step, any time, any speed", _replay),
    Verb("doctor", "why gpudash sees what it sees, and what to do", _doctor),
    Verb("config", "the file of settings: make, find or check it", _config),
    Verb("completion", "print completions for a shell", _completion),
)
