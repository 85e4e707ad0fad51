"""`gpudash config`: write, find or check the settings file."""

from __future__ import annotations

import argparse
import os

from gpudash.cli.verbs import Verb
from gpudash.config import file, load, template
from gpudash.model.errors import ExitStatus, SettingsError, UsageError
from gpudash.model.text import clean
from gpudash.system import terminal
from gpudash.system.files import settings_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash config` takes."""
    actions = ("init", "path", "validate")
    text = "write a file with every setting explained, print its path, or check it"
    parser.add_argument("action", choices=actions, metavar="|".join(actions), help=text)


def run(options: argparse.Namespace) -> int:
    """Create the file (init), print its path (path), or list its mistakes (validate)."""
    if options.no_config:
        raise UsageError("gpudash config is about the settings file: it takes no --no-config")
    path = settings_file()
    if options.action == "path":
        terminal.write(os.fsencode(path) + b"\n")
        return ExitStatus.OK
    return _init(path) if options.action == "init" else _validate(path)


def _init(path: str) -> int:
    """Write a file that explains every setting and changes none.

    Raises SettingsError if there is one, or if it cannot be written.
    """
    exists = SettingsError(f"{clean(path)}: exists already; not changed")
    if os.path.lexists(path):
        raise exists
    from gpudash.tui.preferences import choices

    try:
        file.replace(path, template(choices()), was=None)
    except file.FileChangedError:
        raise exists from None
    except OSError as error:
        raise SettingsError(f"{clean(path)}: {error.strerror}") from None
    terminal.write_text(f"{clean(path)}: every setting is explained there\n")
    return ExitStatus.OK


def _validate(path: str) -> int:
    """Print a line for every mistake, and return 1 if there is one."""
    from gpudash.tui.preferences import Preferences, choices

    # A file in a folder without access is not missing.
    mistakes = Preferences(path).mistakes or load(path, choices())[1]
    if not mistakes and not os.path.lexists(path):
        terminal.write_text(f"{clean(path)}: no such file; the defaults are used\n")
        return ExitStatus.OK
    lines = mistakes or [f"{clean(path)}: no mistakes"]
    terminal.write_lines(lines)
    return ExitStatus.FAILURE if mistakes else ExitStatus.OK


VERB = Verb("write, find or check the settings file", add_arguments, run)
