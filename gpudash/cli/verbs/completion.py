"""`gpudash completion`: completions of options and values for a shell."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from gpudash.cli.arguments import complete_parser
from gpudash.cli.verbs import Verb
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal

_QUERY_FORMATS = ("csv,noheader", "csv,noheader,nounits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash completion` takes."""
    shells = ("bash", "zsh", "fish")
    text = "the shell that reads them"
    parser.add_argument("shell", choices=shells, metavar="|".join(shells), help=text)


def run(options: argparse.Namespace) -> int:
    """Print the completions for a shell."""
    import shtab

    whole = complete_parser()
    values = _values()
    for action in _actions(whole):
        if action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.choices is None and action.dest in values:
            # Checked later, by what takes time to import.
            action.choices = values[action.dest]
    text = shtab.complete(whole, shell=options.shell)
    if options.shell == "zsh":
        text = _with_joined_values(text)
    terminal.write(text.encode() + b"\n")
    return ExitStatus.OK


def _with_joined_values(script: str) -> str:
    """Return zsh's completions with those of `--name=value`, too."""
    about = r"\[(?:[^\]\\]|\\.)*\]:"
    script = re.sub(rf'^(\s*"--[\w-]+)(?={about})', r"\1=", script, flags=re.M)
    return re.sub(rf'^(\s*\{{[^}}]*--[\w-]+)(?=\}}"{about})', r"\1=", script, flags=re.M)


def _values() -> dict[str, tuple[str, ...]]:
    """Return the values of options by what they set."""
    from gpudash.actions.kill.signals import signals
    from gpudash.cli import verbs
    from gpudash.cli.verbs.help import TOPICS
    from gpudash.collect.simulated import NAMES
    from gpudash.output import FLEET_FORMATS, FORMATS
    from gpudash.tui.preferences import choices

    named = (signal.name for signal in signals() if signal.help != "real-time")
    return {
        "demo": (*NAMES, "fleet"),
        "theme": choices().themes,
        "format": (*dict.fromkeys([*FORMATS, *FLEET_FORMATS]), *_QUERY_FORMATS),
        "signal": tuple(named),
        "topic": (*TOPICS, *verbs.names()),
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all options and arguments, those of commands too."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


VERB = Verb("print completions for a shell", add_arguments, run)
