"""What may stand behind `gpudash`, and one line for what may not."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from gpudash.cli.arguments import agreement
from gpudash.cli.arguments.dialects import add_dialects
from gpudash.cli.arguments.help import ShortHelp, Version, WholeHelp
from gpudash.cli.arguments.options import DEFAULT_DEMO, Parser, add_main
from gpudash.cli.arguments.values import interval
from gpudash.cli.arguments.verbs import VERBS

__all__ = ["parse", "parser"]

_NAMES = frozenset(verb.name for verb in VERBS)
_VALUES = {"--json": "native", "--demo": DEFAULT_DEMO}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options that the words of a command line ask for; raises UsageError."""
    words = _with_values(argv)
    whole = parser(None if "--help-all" in words else words)
    try:
        options, left = whole.parse_known_args(words)
    except argparse.ArgumentError as error:
        from gpudash.cli.arguments.mistaken import refused

        raise refused(whole, words, error) from None
    if left:
        from gpudash.cli.arguments.mistaken import unknown

        raise unknown(whole, words, options.command, left)
    agreement.check(options)
    return options


def parser(words: Collection[str] | None = None) -> ShortHelp:
    """Return the parser of everything, which help, completions and manual are made of.

    With `words` only commands that are among them have their options, and where all of these are
    options there are no commands at all: making them takes time.
    """
    whole = ShortHelp(
        prog="gpudash",
        description="See every GPU of a server at a glance, who holds it and why.",
        usage="gpudash [options] [command ...]",
        epilog=(
            "Without options: the live screen, where h lists the keys. Exit status: 0, 2 bad "
            "usage, 15 or 16 a GPU is lost or needs a reset, else NVML's number."
        ),
        allow_abbrev=False,
        exit_on_error=False,
    )
    if words is None or not all(word.startswith("-") for word in words):
        _add_commands(whole, words)
    whole.set_defaults(command=None)
    whole.commands = [verb.name for verb in VERBS]
    _add_options(whole)
    return whole


def _add_options(whole: argparse.ArgumentParser) -> None:
    add = whole.add_argument
    add("--help-all", action=WholeHelp, help="show every option and exit")
    add("--once", action="store_true", help="print the state once, as a table")
    add(
        "--fail-on",
        choices=("warn", "critical"),
        metavar="LEVEL",
        help="with --once: exit 1 if something is warn or critical",
    )
    add(
        "--json",
        nargs="?",
        const="native",
        choices=("native", "gpustat"),
        metavar="gpustat",
        help="JSON: a line per interval, with --once one document",
    )
    add(
        "--format",
        metavar="F",
        help="print once as table, json, csv or prometheus; a query as csv[,noheader][,nounits]",
    )
    add("--interval", type=interval, metavar="S", help="seconds between samples (1)")
    add_main(whole, "timeout")
    add_main(whole, "gpu")
    add_main(whole, "demo")
    add_main(whole, "show-secrets")
    add_main(whole, "pcie-throughput")
    add_main(whole, "replay")
    add_main(whole, "at")
    add("--theme", metavar="NAME", help="the colours of the screen, as F2 there lists them")
    add_main(whole, "no-config")
    add_main(whole, "read-only")
    add_main(whole, "ascii")
    add("--json-schema", action="store_true", help="print the JSON Schema of the documents")
    add_dialects(whole)
    add("--version", action=Version, help="show the version and exit")


def _add_commands(whole: ShortHelp, words: Collection[str] | None) -> None:
    commands = whole.add_subparsers(
        dest="command",
        title="commands",
        metavar=whole.command_name,
        help="each tells more of itself: gpudash COMMAND --help",
        prog="gpudash",
        parser_class=Parser,
        required=False,
    )
    for verb in VERBS:
        command = commands.add_parser(
            verb.name,
            help=verb.help,
            description=f"{verb.help[0].upper()}{verb.help[1:]}.",
            allow_abbrev=False,
        )
        if words is None or verb.name in words:
            verb.add(command)
    whole.parsers = commands.choices


def _with_values(argv: Sequence[str]) -> list[str]:
    """Give options their values where those may be left out: they would swallow the command.

    That of --at may begin with a sign, like an option. Behind `run` stands another program's.
    """
    words: list[str] = []
    end = argv.index("run") if "run" in argv else len(argv)
    for place, word in enumerate(argv[:end]):
        if words[-1:] == ["--at"]:
            words[-1] = f"--at={word}"
            continue
        following = argv[place + 1] if place + 1 < len(argv) else "-"
        # A PID behind --demo is none of its names.
        is_bare = following.startswith("-") or following in _NAMES or following.isdecimal()
        # Behind a command --json is that of the command, which takes no value.
        known = _VALUES if _NAMES.isdisjoint(words) else {"--demo": DEFAULT_DEMO}
        words.append(f"{word}={known[word]}" if is_bare and word in known else word)
    return [*_with_signal(words), *argv[end:]]


def _with_signal(argv: Sequence[str]) -> list[str]:
    """Take `-9` and `-KILL` first behind `kill` as the signal, as the shell's kill does."""
    words = [*argv]
    place = words.index("kill") + 1 if "kill" in words else len(words)
    if _is_signal("".join(words[place : place + 1])):
        words[place] = f"--signal={words[place][1:]}"
    return words


def _is_signal(word: str) -> bool:
    name = word[1:]
    return word.startswith("-") and (name[:1].isupper() or (name.isdecimal() and len(name) < 3))
