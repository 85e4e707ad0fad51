"""`gpudash kill PID...`: its arguments, and whether signals are allowed at all."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.options import collector_command, forbids_signals
from gpudash.cli.parser import Parser
from gpudash.cli.verbs import Verb
from gpudash.model.errors import ActionError, SettingsError, UsageError
from gpudash.system.files import settings_file

if TYPE_CHECKING:
    from gpudash.actions.kill.run import Timeouts

_AS_IN_SHELL = (r"^-(\d{1,2}|[A-Z].*)$", r"--signal=\1")
"""The signal in the syntax of the shell's kill, -9 or -KILL."""


def add_arguments(parser: Parser) -> None:
    """Declare what `gpudash kill` takes."""
    parser.is_intermixed = True
    parser.shorthand = _AS_IN_SHELL
    add = parser.add_argument
    text = "process id; 4242:303585 adds the start_ticks of --json, so that a reused PID is not hit"
    add("pids", nargs="+", metavar="PID", help=text)
    text = "TERM, KILL, INT, 9, ... (TERM); also -9, -KILL"
    add("-s", "--signal", action="append", metavar="NAME", help=text)
    add("--tree", action="store_true", help="also signal their descendants")
    add("--yes", action="store_true", help="do not ask about plain jobs")
    text = "send nothing, as with GPUDASH_READ_ONLY=1 or read_only in the settings"
    add_shared(parser, "show-secrets", "read-only", "no-config", "demo", read_only=text)


def run(options: argparse.Namespace, timeouts: Timeouts | None = None) -> int:
    """Ask, signal and report; raises ActionError if signals are forbidden."""
    _refuse_read_only(asked=options.read_only, config=not options.no_config)
    # A read-only gpudash does not even load the code that signals.
    from gpudash.actions.kill.run import TIMEOUTS
    from gpudash.cli.kill import kill

    signal, pids = signal_and_pids(options)
    return kill(
        collector_command(options),
        pids=pids,
        signal=signal,
        tree=options.tree,
        yes=options.yes,
        show_secrets=options.show_secrets,
        timeouts=timeouts or TIMEOUTS,
    )


def signal_and_pids(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Return the name or number of the signal, and the PIDs; raises UsageError for two signals."""
    signals = options.signal or ["TERM"]
    if len(signals) > 1:
        raise UsageError(f"two signals: {' and '.join(signals)}")
    return signals[0], options.pids


def _refuse_read_only(*, asked: bool, config: bool) -> None:
    """Raise ActionError if the command line, the host or the settings forbid signals."""
    forbidden_by = "--read-only" if asked else forbids_signals()
    if forbidden_by is not None:
        raise ActionError(f"gpudash is read-only ({forbidden_by}): nothing was sent")
    if not config:
        return
    from gpudash.config import is_read_only

    file = settings_file()
    try:
        if is_read_only(file):
            raise ActionError(f"gpudash is read-only ({file}): nothing was sent")
    except SettingsError as error:
        raise ActionError(f"{error}; nothing was sent") from None


VERB = Verb(
    "signal processes, after a confirmation",
    add_arguments,
    run,
    "Shows the processes and asks; a reused PID is never hit. To signal a daemon of the driver, a "
    "display, a container's init or an ancestor of gpudash, its PID must be typed. Exit status: 0 "
    "all ended, 1 not all, 2 bad usage. ~/.local/state/gpudash/audit.jsonl records what was sent.",
)
