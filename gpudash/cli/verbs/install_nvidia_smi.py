"""`gpudash install-nvidia-smi`: a link named nvidia-smi, so that scripts run gpudash."""

from __future__ import annotations

import argparse
import os
import sys

from gpudash.cli import next_smi
from gpudash.cli.verbs import Verb
from gpudash.model.errors import ActionError, ExitStatus
from gpudash.system import terminal

_PROGRAM = "gpudash"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash install-nvidia-smi` takes."""
    add = parser.add_argument
    add("directory", metavar="DIR", help="where to: one that PATH names before /usr/bin")
    add("--remove", action="store_true", help="take the link away again")
    add("-y", "--yes", action="store_true", help="do not ask: as root it is for all users")


def run(options: argparse.Namespace) -> int:
    """Create or remove the link; raises ActionError if something else has that name."""
    link = os.path.join(os.path.abspath(options.directory), next_smi.PROGRAM)
    if os.path.lexists(link) and not _is_own(link):
        raise ActionError(f"{link} is not a link to gpudash: left alone")
    if options.remove and not os.path.lexists(link):
        raise ActionError(f"{link} does not exist")
    if not options.yes and os.geteuid() == 0 and not _is_confirmed(link, options.remove):
        raise ActionError("nothing was changed; --yes does it without a question")
    try:
        _change(link, options.remove)
    except OSError as error:
        raise ActionError(f"{link}: {error.strerror}") from None
    terminal.write_text(f"{_outcome(link, options.remove)}\n")
    return ExitStatus.OK


def _is_own(path: str) -> bool:
    """Whether it is a link to a gpudash, even to one that no longer exists."""
    return os.path.islink(path) and os.path.basename(os.readlink(path)) == _PROGRAM


def _is_confirmed(link: str, is_removed: bool) -> bool:
    if not os.isatty(0):
        return False
    what = f"Remove {link}" if is_removed else f"Let {link} be gpudash, for all users"
    return terminal.ask(f"{what}? [y/N] ").lower() in (b"y", b"yes")


def _change(link: str, is_removed: bool) -> None:
    if os.path.lexists(link):
        os.unlink(link)
    if not is_removed:
        os.symlink(_program(), link)


def _program() -> str:
    """Return the script that starts this gpudash; raises ActionError if there is none."""
    for path in (sys.argv[0], os.path.join(os.path.dirname(sys.executable), "gpudash")):
        if os.path.basename(path) == _PROGRAM and os.access(path, os.X_OK):
            return os.path.abspath(path)
    raise ActionError("there is no program named gpudash to link to: install it by pip or pipx")


def _outcome(link: str, is_removed: bool) -> str:
    """Return which program `nvidia-smi` now starts, and what that means."""
    found = list(next_smi.programs())
    others = [path for path in found if not next_smi.is_ours(path)]
    if is_removed:
        what, first = f"removed {link}", found[0] if found else "no program"
        return f"{what}; nvidia-smi is now {first}"
    if link not in found:
        return f"{link} is gpudash; PATH does not name its directory, so nothing uses it yet"
    if found[0] != link:
        return f"{link} is gpudash; {found[0]} comes first in PATH, and is used in its place"
    what = f"{link} is gpudash, and first in PATH: it is nvidia-smi from now on; "
    if not others:
        return f"{what}there is no other one for what changes a GPU"
    return f"{what}what changes a GPU is handed to {others[0]}"


VERB = Verb(
    "put a link named nvidia-smi to gpudash into a directory, or take it away",
    add_arguments,
    run,
    "Programs that run nvidia-smi run gpudash from then on, if the directory comes first in their "
    "PATH: see gpudash help smi.",
)
