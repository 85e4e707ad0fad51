"""`gpudash config`: the file of settings made, found and checked."""

from __future__ import annotations

import os

from gpudash import config as settings
from gpudash.config import file
from gpudash.model.errors import ExitStatus, SettingsError
from gpudash.model.text import clean
from gpudash.system import terminal as stdout


def run(action: str) -> int:
    """Make the file (init), print where it is (path), or tell its mistakes (validate)."""
    path = settings.path()
    if action == "path":
        stdout.write(os.fsencode(path) + b"\n")
        return ExitStatus.OK
    return _init(path) if action == "init" else _validate(path)


def _init(path: str) -> int:
    """Write a file in which every setting is explained, and none is changed.

    Raises SettingsError when there is one already, or when it cannot be written.
    """
    there = SettingsError(f"{clean(path)}: is there already, and is left as it is")
    if os.path.lexists(path):
        raise there
    from gpudash.tui.preferences import choices

    try:
        file.replace(path, settings.template(choices()), was=None)
    except file.FileChangedError:
        raise there from None
    except OSError as error:
        raise SettingsError(f"{clean(path)}: {error.strerror}") from None
    stdout.write(f"{clean(path)}: every setting is explained there\n".encode())
    return ExitStatus.OK


def _validate(path: str) -> int:
    """Print a line for every mistake, and return 1 if there is one."""
    from gpudash.tui.preferences import Preferences, choices

    # What stands in a folder that may not be entered is not missing.
    mistakes = Preferences(path).mistakes or settings.load(path, choices())[1]
    if not mistakes and not os.path.lexists(path):
        stdout.write(f"{clean(path)}: there is none, so the defaults are used\n".encode())
        return ExitStatus.OK
    lines = mistakes or [f"{clean(path)}: no mistakes"]
    stdout.write("".join(f"{line}\n" for line in lines).encode())
    return ExitStatus.FAILURE if mistakes else ExitStatus.OK
