"""The commands of gpudash: each module here is one, with its arguments and its function.

A command is a module of the same name, with `_` for `-`, that has a `VERB`; it is imported when
used.
"""

# Annotations are not postponed: NamedTuple would compile each of them at every start.
import argparse
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from gpudash.system.imports import import_msgspec

if TYPE_CHECKING:
    from gpudash.cli.parser import Parser


class Verb(NamedTuple):
    """A command: a line of help, its arguments, and its function."""

    help: str
    add_arguments: "Callable[[Parser], None]"
    run: Callable[[argparse.Namespace], int]
    """Returns the exit status."""
    epilog: str | None = None
    """Text of `--help` below the arguments."""


def names() -> list[str]:
    """Return the names of all commands, sorted."""
    found = (entry.removesuffix(".py") for entry in os.listdir(os.path.dirname(__file__)))
    modules = (name for name in found if name.isidentifier() and not name.startswith("_"))
    return sorted(name.replace("_", "-") for name in modules)


def load(name: str) -> Verb:
    """Import a command."""
    import_msgspec()
    verb: Verb = import_module(f"{__name__}.{name.replace('-', '_')}").VERB
    return verb
