"""What the command line and the environment give to every command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpudash.system import startup as quick
from gpudash.system import terminal as stdout

if TYPE_CHECKING:
    import argparse

DEFAULT_INTERVAL = 1.0
"""Seconds between two samples of a stream."""

# What `python -m gpudash` does, but for its first look for modules in the current directory,
# where a stranger may have put some.
_COLLECTOR = (
    "import sys; sys.path[0:1] = []; sys.path.append(sys.argv.pop(1)); "
    "from gpudash.cli import main; main()"
)
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
"""The folder that gpudash is installed in."""


def gpus(options: argparse.Namespace) -> Sequence[str]:
    """Return which GPUs are wanted, all if empty; raises UsageError."""
    from gpudash.analysis.selection import selectors

    return () if options.gpu is None else selectors(options.gpu)


def collector(options: argparse.Namespace) -> list[str]:
    """Return the command that feeds the screen: gpudash itself, streaming."""
    words = [sys.executable, "-c", _COLLECTOR, _HOME, "--json"]
    if options.demo is not None:
        words.append(f"--demo={options.demo}")
    if options.gpu is not None:
        words += ["--gpu", options.gpu]
    if options.show_secrets:
        words.append("--show-secrets")
    if options.pcie_throughput:
        words.append("--pcie-throughput")
    return words


def for_this_run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line outdoes."""
    read_only = options.read_only or os.environ.get("GPUDASH_READ_ONLY", "0") not in ("", "0")
    wanted = {
        "interval": options.interval,
        "theme": options.theme,
        "ascii": options.ascii or not is_utf8() or os.environ.get("TERM") == "linux" or None,
        "read_only": read_only or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def color() -> bool:
    """Whether what is printed may have colours."""
    return stdout.is_terminal() and "NO_COLOR" not in os.environ


def is_utf8() -> bool:
    """Whether the locale can show more than ASCII."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "")
    return "utf-8" in locale.lower() or "utf8" in locale.lower()


def begin() -> None:
    """Start quickly, and be ended by Ctrl-C."""
    let_ctrl_c_end_us()
    quick.begin()


def let_ctrl_c_end_us() -> None:
    """Let Ctrl-C end us at once, also within a call that never returns."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
