"""What to say of words that no parser knows: which it is, and what was probably meant."""

from __future__ import annotations

import argparse
from collections.abc import Container, Sequence

from gpudash.cli.arguments.help import ShortHelp
from gpudash.model.errors import UsageError
from gpudash.model.text import did_you_mean

_CLOSE = 0.7
"""How alike two words must be, of 1: --sort is not meant to be --format."""


def refused(whole: ShortHelp, words: Sequence[str], error: argparse.ArgumentError) -> UsageError:
    """Return the error for what argparse has refused.

    It takes the value of an option that it does not know for the command.
    """
    if error.argument_name != whole.command_name:
        return UsageError(f"{error}; see {whole.prog} --help")
    word = _first_unknown(whole, words)
    if word.startswith("-"):
        return unknown(whole, words, None, [word])
    hint = did_you_mean(word, whole.commands, cutoff=_CLOSE)
    meant = f"{hint} " if hint else ""
    return UsageError(f"{word!r} is no command: {meant}choose from {', '.join(whole.commands)}")


def unknown(
    whole: ShortHelp, words: Sequence[str], command: str | None, left: Sequence[str]
) -> UsageError:
    """Return the error for those of the words that are left over, with a command if there is one.

    What stands behind the command is one of its own options.
    """
    word = next((word for word in left if word.startswith("-")), "")
    is_behind = command is not None and word not in words[: words.index(command)]
    parser = whole.parsers[command] if command is not None and is_behind else whole
    option = word.partition("=")[0]
    # One that would stand before the command is not spelled wrong.
    is_misplaced = option in whole._option_string_actions
    near = (
        "" if is_misplaced else did_you_mean(option, parser._option_string_actions, cutoff=_CLOSE)
    )
    hint = near or f"see {parser.prog} --help"
    return UsageError(f"unrecognized arguments: {' '.join(left)}; {hint}")


def _first_unknown(whole: ShortHelp, words: Sequence[str]) -> str:
    """Return the first word that is neither an option, nor the value of one; "" if there is none.

    Of an option that nobody knows it is the name alone.
    """
    known = whole._option_string_actions
    takes_value = False
    for word in words:
        name = word.partition("=")[0]
        if not word.startswith("-") or word[1:].replace(".", "", 1).isdecimal():
            if not takes_value:
                return word
            takes_value = False
        elif name in known:
            takes_value = word == name and known[name].nargs != 0
        elif name not in ("-", "--") and not _has_value(known, name):
            return name
    return ""


def _has_value(known: Container[str], name: str) -> bool:
    """Whether it is an option of one letter with its value: -i0, not -interval."""
    return name[1] != "-" and name[:2] in known and f"-{name}" not in known
