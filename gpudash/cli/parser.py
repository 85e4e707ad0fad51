"""argparse with one-line errors, and the parsers of commands, imported on demand."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from gpudash.cli import verbs
from gpudash.model.errors import UsageError
from gpudash.model.text import did_you_mean
from gpudash.system import terminal

_HARMLESS = frozenset({"command", "run", "read_only", "no_config", "ascii"})
"""Options accepted before any command: they restrict it or do not affect it."""
_NUMBER = re.compile(r"-\.?\d")
_MIN_LIKENESS = 0.7
"""Minimum similarity of a suggestion, 0 to 1: --sort must not suggest --format."""


class _Formatter(argparse.HelpFormatter):
    """The layout of the help, for which argparse would import shutil at every start."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": terminal.width() - 2, **options})


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError with a suggestion."""

    is_intermixed = False
    """Whether options may stand between the words of a list."""
    shorthand: tuple[str, str] | None = None
    """A pattern of abbreviations of an option with its value, and their replacement."""
    outer: Parser | None = None
    """The parser of options before the command."""
    takes_words = False
    """Whether all words, including options, are passed on as `words`."""
    commands: Collection[Parser] = ()
    """The parsers of the commands that it knows."""

    def __init__(self, **options: Any) -> None:
        self.declared: list[argparse.Action] = []
        """Its options and words."""
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **options})

    def add_argument(self, *names: str, **declared: Any) -> argparse.Action:
        """Declare an option or a word."""
        action = super().add_argument(*names, **declared)
        if action.choices is not None:
            action.type = partial(_choice, action)
        self.declared.append(action)
        return action

    @property
    def spellings(self) -> Mapping[str, argparse.Action]:
        """Its options, by each of their names."""
        return {name: action for action in self.declared for name in action.option_strings}

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options of all words; raises UsageError for unknown ones."""
        if self.takes_words:
            options = self.parse_known_args([], namespace)[0]
            options.words = list(args)
            return options
        parse = self.parse_known_intermixed_args if self.is_intermixed else self.parse_known_args
        options, left = parse(self.spelled_out(args), namespace)
        if left:
            raise self._unrecognized(left)
        return options

    def command_index(self, words: Sequence[str]) -> int:
        """Return the index of the first word that is neither an option nor an option's value.

        A command's name is not the value of an option whose value is optional.
        """
        index, commands, options = 0, verbs.names(), self.spellings
        while index < len(words) and words[index].startswith("-") and words[index] != "--":
            action = options.get(words[index])
            index += 1
            if action is not None and action.nargs is None:
                index += 1
            elif action is not None and action.nargs == "?":
                following = words[index] if index < len(words) else "-"
                index += not following.startswith("-") and following not in commands
        return index

    def spelled_out(self, words: Sequence[str]) -> list[str]:
        """Return the words with `--at -30s` as `--at=-30s`, and with `shorthand` expanded.

        Before Python 3.14, argparse takes a value such as -30s for an option.
        """
        spelled: list[str] = []
        options = self.spellings
        needs_value = False
        for index, word in enumerate(words):
            if word == "--":
                return [*spelled, *words[index:]]
            if needs_value and _NUMBER.match(word):
                spelled[-1] += f"={word}"
                needs_value = False
                continue
            spelled.append(re.sub(*self.shorthand, word) if self.shorthand else word)
            action = options.get(word)
            needs_value = action is not None and action.nargs is None
        return spelled

    def _unrecognized(self, left: Sequence[str]) -> UsageError:
        option = next((word for word in left if word.startswith("-")), "").partition("=")[0]
        names = self.spellings
        if self.outer is not None and option in self.outer.spellings:
            return UsageError(f"{option} does not go with {self.prog}")
        # One after a command is not misspelled.
        near = "" if option in names else did_you_mean(option, names, cutoff=_MIN_LIKENESS)
        hint = near or f"see {self.prog} --help"
        return UsageError(f"unrecognized arguments: {' '.join(left)}; {hint}")

    def print_help(self, file: object = None) -> None:
        """Print what --help prints; raises OutputError."""
        terminal.write_text(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        if message.startswith("argument -") and message.endswith("expected one argument"):
            name = message.split()[1].rstrip(":").split("/")[-1]
            message += f"; one that begins with - is written {name}=-..."
        raise UsageError(f"{message}; see {self.prog} --help")


def _choice(action: argparse.Action, word: str) -> str:
    """Return a valid choice of an argument; raises UsageError for any other value."""
    known = list(action.choices or ())
    if word in known:
        return word
    hint = did_you_mean(word, known)
    name = action.option_strings[-1] if action.option_strings else f"unknown {action.dest}"
    raise UsageError(f"{name} {word!r}: {hint and f'{hint} '}choose from {', '.join(known)}")


def command_parser(name: str) -> Parser:
    """Return the parser of a command; raises UsageError for an unknown one."""
    known = verbs.names()
    if name not in known:
        meant = did_you_mean(name, known, cutoff=_MIN_LIKENESS)
        hint = f"{meant} " if meant else ""
        raise UsageError(f"unknown command {name!r}: {hint}choose from {', '.join(known)}")
    parser = Parser(prog=f"gpudash {name}")
    declare(parser, name)
    return parser


def declare(parser: Parser, name: str) -> None:
    """Let an imported command declare itself to its parser."""
    verb = verbs.load(name)
    parser.description = f"{verb.help[0].upper()}{verb.help[1:]}."
    parser.epilog = verb.epilog
    verb.add_arguments(parser)
    parser.set_defaults(command=name, run=verb.run)


def refuse_before(parser: Parser, options: argparse.Namespace, command: Parser) -> None:
    """Raise UsageError for an option before a command that does not accept it."""
    taken = {action.dest for action in command.declared}
    for action in given(parser, options):
        if action.dest not in taken:
            option = action.option_strings[0]
            is_own = option in command.spellings
            name = command.prog.removeprefix("gpudash ")
            hint = f"; its own {option} goes after {name}" if is_own else ""
            raise UsageError(f"{option} does not go with gpudash {name}{hint}")


def given(parser: Parser, options: argparse.Namespace) -> Iterator[argparse.Action]:
    """Yield the given options, except those accepted by everything."""
    values = vars(options)
    for action in parser.declared:
        if action.dest in _HARMLESS or action.default is argparse.SUPPRESS:
            continue
        if values.get(action.dest, action.default) != action.default:
            yield action
