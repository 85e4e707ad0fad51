"""`gpudash completion`: completions of options and values for a shell."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from itertools import chain

from gpudash.cli.arguments import complete_parser
from gpudash.cli.options import QUERIES, query_name
from gpudash.cli.verbs import Verb
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal

_QUERY_FORMATS = ("csv,noheader", "csv,noheader,nounits")
_LISTS = frozenset({"sort", *map(query_name, QUERIES)})
"""Destinations of options with several values: a,b."""

_BASH = """
# Bash splits --name=value at the sign. Of a list such as a,b the last value is completed.
_gpudash() {
  local index last at=0 words=()
  for index in "${!COMP_WORDS[@]}"; do
    if [[ ${COMP_WORDS[index]} != "=" ]]; then
      words+=("${COMP_WORDS[index]}")
    elif (( index == COMP_CWORD )); then
      words+=("")
    fi
    (( index == COMP_CWORD )) && at=$(( ${#words[@]} - 1 ))
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$at
  _shtab_gpudash
  last=${COMP_WORDS[at]}
  if (( ! ${#COMPREPLY[@]} )) && [[ $last == *,* ]]; then
    COMP_WORDS[at]=${last##*,}
    _shtab_gpudash
    COMPREPLY=("${COMPREPLY[@]/#/${last%,*},}")
  fi
}

complete -o bashdefault -F _gpudash gpudash
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash completion` takes."""
    shells = ("bash", "zsh", "fish")
    text = "the shell that reads them"
    parser.add_argument("shell", choices=shells, metavar="|".join(shells), help=text)


def run(options: argparse.Namespace) -> int:
    """Print the completions for a shell."""
    import shtab

    whole, values = complete_parser(), _values()
    for action in chain(*(parser.declared for parser in (whole, *whole.commands))):
        if action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif found := values.get(action.dest) or dict.fromkeys(action.choices or (), ""):
            _offer(action, found, options.shell)
    text = shtab.complete(whole, shell=options.shell)
    if options.shell == "zsh":
        text = _with_joined_values(text)
    elif options.shell == "bash":
        text += _BASH
    terminal.write(text.encode() + b"\n")
    return ExitStatus.OK


def _offer(action: argparse.Action, values: Mapping[str, str], shell: str) -> None:
    """Let an argument be completed by values; fish shows each value's description."""
    is_list, names = action.dest in _LISTS, " ".join(map(str, values))
    if shell == "fish":
        # An empty one prevents the option's description from being shown instead.
        described = " ".join(f"{name}\\t{_quoted(text)}" for name, text in values.items())
        candidates = f"(__fish_append , {described})" if is_list else described
        action.complete = {"fish": candidates}  # type: ignore[attr-defined]
    elif shell == "zsh" and is_list:
        action.complete = {"zsh": f"_values -s , {action.metavar} {names}"}  # type: ignore[attr-defined]
    else:
        # Most are only checked later, by code that is slow to import.
        action.choices = tuple(values)


def _quoted(text: str) -> str:
    """Return a word of fish for use within double quotes."""
    word = re.sub(r"([\\'])", r"\\\1", text)
    return "'{}'".format(re.sub(r'([\\"$])', r"\\\1", word))


def _with_joined_values(script: str) -> str:
    """Return zsh's completions with `--name=value` too."""
    about = r"\[(?:[^\]\\]|\\.)*\]:"
    script = re.sub(rf'^(\s*"--[\w-]+)(?={about})', r"\1=", script, flags=re.M)
    return re.sub(rf'^(\s*\{{[^}}]*--[\w-]+)(?=\}}"{about})', r"\1=", script, flags=re.M)


def _values() -> Mapping[str, Mapping[str, str]]:
    """Return the values of options by destination, each with its description."""
    from gpudash.actions.kill.signals import signals
    from gpudash.analysis.process_choice import SORT_COLUMNS
    from gpudash.cli import verbs
    from gpudash.cli.verbs.help import TOPICS
    from gpudash.collect.simulated.scenes import SCENES
    from gpudash.output import FLEET_FORMATS, FORMATS, queries
    from gpudash.tui.preferences import choices

    demos = {
        name: f"{len(scene.cards)} {scene.cards[0].board.name}" for name, scene in SCENES.items()
    }
    topics = {name: topic.help for name, topic in TOPICS.items()}
    named = {
        "demo": {**demos, "fleet": "many hosts"},
        "theme": dict.fromkeys(choices().themes, ""),
        "format": dict.fromkeys((*FORMATS, *FLEET_FORMATS, *_QUERY_FORMATS), ""),
        "signal": {each.name: each.help for each in signals() if each.help != "real-time"},
        "topic": {**topics, **{name: verbs.load(name).help for name in verbs.names()}},
        "sort": {name: column.header for name, column in SORT_COLUMNS.items()},
    }
    fields = {
        query_name(name): {field: each.unit or "" for field, each in kind.fields.items()}
        for name, kind in queries.QUERIES.items()
    }
    return named | fields


VERB = Verb("print completions for a shell", add_arguments, run)
