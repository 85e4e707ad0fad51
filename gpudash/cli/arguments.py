"""The command line of gpudash: its own options, those shared by commands, and its parsing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from gpudash.cli import modes, verbs
from gpudash.cli.help import (
    ABOUT,
    Printing,
    QueryFields,
    ShortHelp,
    Version,
    formats_help,
)
from gpudash.cli.options import DEFAULT_INTERVAL, DEFAULT_TIMEOUT, QUERIES
from gpudash.cli.parser import Parser, command_parser, declare, given, refuse_before
from gpudash.cli.smi_options import SETTINGS, VERBS_ELSEWHERE
from gpudash.cli.values import milliseconds, seconds
from gpudash.feed.collector import is_controlled
from gpudash.fleet.sources import DEMO_OF_ONE, OPTIONS
from gpudash.model.errors import UsageError

_DEFAULT_LOOP_SECONDS = 5.0

_ELSEWHERE = {"mig", "vgpu", "-B", "--list-excluded-gpus"}
"""Only `gpudash smi` has these; no part of gpudash has `VERBS_ELSEWHERE`."""

_SHARED: dict[str, dict[str, Any]] = {
    "json": {"action": "store_true", "help": "print one JSON document"},
    "ascii": {"action": "store_true", "help": "draw with ASCII only"},
    "show-secrets": {
        "action": "store_true",
        "help": "do not mask keys, tokens and passwords on command lines",
    },
    "pcie-throughput": {
        "action": "store_true",
        "help": "use NVML's blocking PCIe call (40 ms a GPU) where there is no counter",
    },
    "fresh": {
        "action": "store_true",
        "help": "read the driver here, even if gpudash serve runs, whose samples all may share",
    },
    "read-only": {"action": "store_true", "help": "disable signals to processes"},
    "no-config": {"action": "store_true", "help": "ignore the settings file"},
    "timeout": {
        "type": seconds,
        "metavar": "S",
        "help": f"seconds of silence of the driver in a one-shot ({DEFAULT_TIMEOUT:g}), "
        "which ends after six times as many; of many hosts for all answers (30): without it, "
        "--fail-on, --where and --at, --once has a first picture where all takes long",
    },
    "replay": {
        "metavar": "FILE",
        "help": "read a recording, or the folder of a history, instead: with --once, --json, "
        "--query-gpu, ...",
    },
    "at": {
        "metavar": "TIME",
        "help": "in a recording, the past of a Prometheus, or else what gpudash serve remembers of "
        "this host: 10:53, yesterday 18:00, 2026-11-21T10:53:41, +5m from its start, -30s from its "
        "end",
    },
    "on-finding": {
        "metavar": "CMD",
        "help": "run a shell command when a finding appears and when it goes, with it as JSON on "
        "its stdin",
    },
    "level": {
        "choices": ("info", "warn", "critical"),
        "metavar": "LEVEL",
        "help": "with --on-finding: minimum level, info, warn (default) or critical",
    },
    "gpu": {"metavar": "LIST", "help": "only these GPUs: 0,2-3, UUID prefixes, PCI bus ids"},
    **OPTIONS,
    "demo": {**OPTIONS["demo"], "help": DEMO_OF_ONE},
}


def add_shared(parser: argparse.ArgumentParser, *names: str, **helps: str) -> None:
    """Add options to a command that may also precede its name.

    They have no default here, which would override what preceded the name.
    """
    for name in names:
        text = helps.get(name.replace("-", "_"), _SHARED[name].get("help"))
        declared = {**_SHARED[name], "help": text, "default": argparse.SUPPRESS}
        parser.add_argument(f"--{name}", **declared)


def add_sources(parser: argparse.ArgumentParser, demo: str = OPTIONS["demo"]["help"]) -> None:
    """Add the options of all sources of many hosts to a command, like `add_shared`."""
    add_shared(parser, *OPTIONS, demo=demo)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line, including `run`; raises UsageError."""
    _refuse_what_is_elsewhere(argv)
    parser = main_parser()
    index = parser.command_index(argv)
    options: argparse.Namespace = parser.parse_args(argv[:index])
    words = list(argv[index:])
    if words[:1] == ["--"]:
        del words[0]
    if words:
        command = command_parser(words[0])
        command.outer = parser
        refuse_before(parser, options, command)
        vars(options).update(vars(command.parse_args(words[1:])))
        return options
    _take_environment(parser, options)
    mode = modes.find(options)
    for action in given(parser, options):
        if action.dest not in mode.takes:
            option, hint = action.option_strings[0], modes.hint(action, mode)
            raise UsageError(f"{option} does not go with {mode.name}{hint}")
    options.run = mode.run
    return options


def _refuse_what_is_elsewhere(argv: Sequence[str]) -> None:
    """Raise UsageError with nvidia-smi's command for what changes a GPU, or only nvidia-smi has."""
    commands, refused = verbs.names(), {*SETTINGS, *VERBS_ELSEWHERE.split(), *_ELSEWHERE}
    before = list(takewhile(lambda word: word not in commands, argv))
    # A request for help comes first, whatever else is given.
    if "--help-all" in before or not any(word.partition("=")[0] in refused for word in before):
        return
    # Options of gpudash alone may have such a word as a value; nvidia-smi has none of them.
    parser = Parser(prog="gpudash", add_help=False)
    _add_options(parser)
    _, words = parser.parse_known_args(parser.spelled_out(before))
    for index, word in enumerate(words):
        name = word.partition("=")[0]
        if name in refused and (index == 0 or name.startswith("-")):
            import shlex

            why = "gpudash sets nothing" if name in SETTINGS else "only nvidia-smi does that"
            raise UsageError(f"{word}: {why}; run `command nvidia-smi {shlex.join(words)}`")


def _take_environment(parser: Parser, options: argparse.Namespace) -> None:
    """Use GPUDASH_PROMETHEUS in place of --prometheus, unless an option is about this host."""
    if not os.environ.get("GPUDASH_PROMETHEUS") or is_controlled(os.environ):
        return
    if {action.dest for action in given(parser, options)} <= modes.OF_ANY_FLEET:
        options.prometheus = [""]


def complete_parser() -> ShortHelp:
    """Return the parser with all commands, for help, completions and manual."""
    parser = _parser()
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        help="for more: gpudash COMMAND --help",
        prog="gpudash",
        parser_class=Parser,
    )
    for name in verbs.names():
        declare(commands.add_parser(name, help=verbs.load(name).help), name)
    parser.commands = commands.choices.values()
    _add_all(parser)
    return parser


def main_parser() -> ShortHelp:
    """Return the parser of options before a command, or without one."""
    parser = _parser()
    _add_all(parser)
    return parser


def _parser() -> ShortHelp:
    parser = ShortHelp(
        prog="gpudash",
        description=ABOUT,
        usage="gpudash [options] [command ...]",
        epilog=(
            "Without options: the live screen, where h lists the keys. Exit status: 0 on success, "
            "2 on bad usage, 15 or 16 if a GPU is lost or needs a reset, otherwise NVML's number; "
            "gpudash help exit lists all."
        ),
    )
    parser.set_defaults(command=None, choose=None)
    return parser


def _add_all(parser: Parser) -> None:
    _add_options(parser)
    _add_nvidia_smi_options(parser)
    parser.add_argument("--version", action=Version, help="show the version and exit")


class _CompleteHelp(Printing):
    """Prints every option."""

    def text(self, parser: argparse.ArgumentParser) -> str:
        """Return all options, and a line for each command."""
        return complete_parser().format_complete_help()


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--help-all", action=_CompleteHelp, help="show every option and exit")
    add("--once", action="store_true", help="print the state once, as a table")
    text = "with --once: exit 1 on a finding of this level or worse: info, warn or critical"
    add("--fail-on", choices=("info", "warn", "critical"), metavar="LEVEL", help=text)
    add(
        "--json",
        nargs="?",
        const="native",
        choices=("native", "gpustat"),
        metavar="gpustat",
        help="print JSON: a line per interval, or one document with --once",
    )
    text = "with --json: short lines for a slow link: no topology, short command lines"
    add("--compact", action="store_true", help=text)
    text = f"{formats_help()}; many hosts as csv-hosts or csv-users, too; a query as "
    text += "csv[,noheader][,nounits]"
    add("--format", metavar="F", help=text)
    text = "with --once: only the processes that fit, as on the screen: 'alice mem>10G'"
    add("--filter", metavar="EXPR", help=text)
    text = "with --once: order of the processes: mem, several columns (user,mem) or tree"
    add("--sort", metavar="COLUMNS", help=text)
    add("--user", metavar="NAMES", help="with --once: only processes of these users: alice,bob")
    add("--pid", metavar="PIDS", help="with --once: only these processes: 4242,77")
    text = f"seconds between samples ({DEFAULT_INTERVAL:g})"
    add("--interval", type=seconds, metavar="S", help=text)
    for name, declared in OPTIONS.items():
        add(f"--{name}", **declared)
    text = "many hosts: only the GPUs that fit: 'idle>1h mem>10G', 'host:gpu01 model:h100'"
    add("--where", metavar="EXPR", help=text)
    for name in ("on-finding", "level"):
        add(f"--{name}", **_SHARED[name])
    for name in ("timeout", "gpu", "show-secrets", "pcie-throughput", "fresh", "replay", "at"):
        add(f"--{name}", **_SHARED[name])
    add("--theme", metavar="NAME", help="colours of the screen; F2 lists them")
    add("--bell", action="store_true", help="ring the terminal when a critical finding appears")
    for name in ("no-config", "read-only", "ascii"):
        add(f"--{name}", **_SHARED[name])
    add("--json-schema", action="store_true", help="print the JSON Schema of the documents")


def _add_nvidia_smi_options(parser: Parser) -> None:
    """Add the options that users and scripts know from nvidia-smi."""
    group = parser.add_argument_group("as in nvidia-smi")

    def add(*names: str, **declared: Any) -> None:
        parser.declared.append(group.add_argument(*names, **declared))

    for query, about in QUERIES.items():
        add(f"--query-{query}", metavar="FIELDS", help=f"print values {about}")
        add(f"--help-query-{query}", action=QueryFields, help=f"list the fields of --query-{query}")
    add(
        "-q",
        "-a",
        "--query",
        action="store_true",
        help="print what is known of each GPU, by sections",
    )
    add("-d", "--display", metavar="SECTIONS", help="only these sections of -q: ECC,POWER")
    add("-x", "--xml-format", dest="xml", action="store_true", help="with -q: print XML")
    add("-u", "--unit", action="store_true", help="with -q: about units, which no host has today")
    add("--dtd", action="store_true", help="with -q -x: with the document type in the document")
    add("-i", "--id", dest="gpu", metavar="ID", default=argparse.SUPPRESS, help="same as --gpu")
    add("-L", "--list-gpus", action="store_true", help="print a line per GPU, with its UUID")
    add("-f", "--filename", metavar="FILE", help="write the output to a file")
    add(
        "-l",
        "--loop",
        nargs="?",
        type=seconds,
        const=_DEFAULT_LOOP_SECONDS,
        metavar="S",
        help=f"repeat a query, -q or --once every S seconds ({_DEFAULT_LOOP_SECONDS:g}); on the "
        "screen the same as --interval",
    )
    add(
        "-lms",
        "--loop-ms",
        type=milliseconds,
        dest="loop",
        metavar="MS",
        help="the same, in milliseconds",
    )
