"""`gpudash kill` as a real process, on the stand-in library, against real processes."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.forking import run
from tests.fakenvml.build import environment

ABSENT_PID = 1 << 22
"""The first that Linux gives to no process."""

DEAF = ("sh", "-c", "trap '' TERM; exec sleep 600")
"""Ignores SIGTERM once its name is sleep."""


_WITH_TIMEOUTS = """
from functools import partial
from gpudash.actions.kill.run import TIMEOUTS
from gpudash.cli.verbs import kill
kill.VERB = kill.VERB._replace(run=partial(kill.run, timeouts=TIMEOUTS._replace({})))
"""
IMPATIENT = _WITH_TIMEOUTS.format("end=60, kill=60, root_first=0.5, release=1, release_samples=2")
"""Waits but for a moment for the driver, which never frees the memory of what ended."""
HASTY = _WITH_TIMEOUTS.format("end=1.0")
"""Waits but for a moment for the end of what ignores a signal."""
PATIENT = _WITH_TIMEOUTS.format("release=60, release_max=90")
"""Waits longer for the memory than any driver that frees it takes to say so."""
ENDLESS = _WITH_TIMEOUTS.format("end=600, kill=600, release=600, release_max=600")
"""Waits until it is interrupted."""
FIRM = ""
"""Waits as long as people do."""

_KILL = """
import os, sys
from gpudash import cli
{first}
cli.main(["kill", *sys.argv[1:]])
"""


def command(*pids: object, first: str = IMPATIENT, **options: object) -> list[str]:
    """Return what runs `gpudash kill`; `first` is done before: `yes=True` is --yes."""
    words = [word for name, value in options.items() for word in _option(name, value)]
    return [sys.executable, "-c", _KILL.format(first=first), *words, "--", *map(str, pids)]


def kill(
    *pids: object,
    library: Path,
    first: str = IMPATIENT,
    settings: dict[str, object],
    **options: object,
) -> subprocess.CompletedProcess[str]:
    """Run it to its end without a terminal; `settings` are those of the stand-in."""
    environ = environment(library, **{"DEVICES": 2, "PROCS_PER_DEVICE": 1, **settings})
    return run(command(*pids, first=first, **options), environ)


def _option(name: str, value: object) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    return [] if value is False else [f"{flag}={value}"]
