"""The meaning of options and environment, common to all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gpudash.fleet.sources import SOURCES, SourceKind, dest
from gpudash.model.errors import ExitStatus, GpudashError, SettingsError, UsageError
from gpudash.system import terminal
from gpudash.system.files import ACKNOWLEDGED, read_start, settings_file, state_folder

if TYPE_CHECKING:
    import argparse

    from gpudash.analysis.health.acknowledged import InForce
    from gpudash.config import Settings
    from gpudash.feed.recording.reader import Recording
    from gpudash.model.snapshot import Finding, FindingLevel

DEFAULT_INTERVAL = 1.0
"""Seconds between two samples of a stream."""

DEFAULT_TIMEOUT = 10.0
"""Seconds that the driver has to answer a one-shot."""

_SETTINGS_BYTES = 1 << 16

QUERIES = {
    "gpu": "of GPUs",
    "compute-apps": "of processes that compute",
    "remapped-rows": "of replaced rows of device memory",
    "retired-pages": "of pages of device memory that are no longer used",
    "supported-clocks": "of clocks that can be set",
    "accounted-apps": "of processes of before, where accounting is on",
}
"""nvidia-smi's queries, and the subjects of their values."""


def refuse(options: argparse.Namespace, names: Iterable[str], where: str) -> None:
    """Raise UsageError for the first of these options, as in the namespace, that was given.

    `where` is what it cannot be combined with, and maybe why.
    """
    for name in names:
        if getattr(options, name, None) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} does not go with {where}")


_LIVE_ONLY = (
    *(dest(name) for kind in SOURCES.values() for name in kind.options),
    *("timeout", "show_secrets", "pcie_throughput", "fresh"),
)


def check_recording(options: argparse.Namespace) -> None:
    """Raise UsageError for options without effect on a recording, if one is requested."""
    if options.replay is not None:
        refuse(options, _LIVE_ONLY, "--replay")
    elif options.at is not None:
        if any(kind.is_asked(options) for kind in SOURCES.values()):
            raise UsageError("--at goes with --prometheus, --replay FILE, or this host alone")
        refuse(options, _LIVE_ONLY, "--at")


def is_recorded(options: argparse.Namespace) -> bool:
    """Whether a command about one host uses a recording, or the history of this host."""
    return options.replay is not None or options.at is not None


def open_recording(file: str | None, *, is_coarse: bool = False) -> Recording:
    """Return a recording, or this host's history if None; a coarse one for long spans.

    Raises GpudashError.
    """
    from gpudash.feed.attached import ServiceError
    from gpudash.feed.past import open_past
    from gpudash.feed.recording.reader import Recording, open_coarse

    if file is not None:
        return open_coarse(file) if is_coarse else Recording(file)
    try:
        return open_past(is_coarse=is_coarse)
    except ServiceError as error:
        hint = "give --replay FILE or --prometheus"
        raise GpudashError(f"no history of this host: {error}; {hint}") from None


def settings(options: argparse.Namespace) -> Settings:
    """Return the settings; raises UsageError for mistakes in those of many hosts."""
    from gpudash.config import Choices, Settings, load

    if options.no_config:
        return Settings()
    found, mistakes = load(settings_file(), Choices())
    wrong = [each for each in mistakes if ": fleet" in each or ": exporters" in each]
    if wrong:
        raise UsageError(wrong[0])
    return found


def acknowledged(options: argparse.Namespace) -> Callable[[], InForce]:
    """Return the reader of acknowledgements: in the file that settings name, else the user's."""
    from gpudash.analysis.health.acknowledged import Acknowledged

    is_demo = options.demo is not None
    return Acknowledged(
        lambda: acknowledged_path(config=not options.no_config, is_demo=is_demo)
    ).now


def may_acknowledge(options: argparse.Namespace) -> bool:
    """Whether such a file may exist, without importing what reads it."""
    file = b"" if options.no_config else read_start(settings_file(), _SETTINGS_BYTES) or b""
    try:
        own = os.path.join(state_folder(), ACKNOWLEDGED)
    except KeyError:
        own = ""
    return b"acknowledged" in file or len(file) == _SETTINGS_BYTES or os.path.lexists(own)


def acknowledged_path(*, config: bool, is_demo: bool = False) -> str:
    """Return the file of acknowledgements; raises KeyError for a user without a home."""
    from gpudash.analysis.health import acknowledged

    file = settings_file()
    if is_demo or not (config and os.path.lexists(file)):
        return acknowledged.path(is_demo=is_demo)
    from gpudash.config import Choices, load

    return acknowledged.path(load(file, Choices())[0].fleet.acknowledged)


def query_name(query: str) -> str:
    """Return the name of a query's option in the namespace."""
    return f"query_{query.replace('-', '_')}"


ADMINISTRATOR_FILE = "/etc/gpudash/config.toml"
"""Its `read_only = true` disables signals for all users of a host."""

# Like `python -m gpudash`, but without searching the current directory first, where anyone
# may have put modules.
_COLLECTOR = (
    "import sys; sys.path[0:1] = []; sys.path.append(sys.argv.pop(1)); "
    "from gpudash.cli import main; main()"
)
_HOME = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
"""The folder in which gpudash is installed."""


def gpu_selectors(options: argparse.Namespace) -> Sequence[str]:
    """Return the selectors of --gpu, none for all GPUs; raises UsageError."""
    if options.gpu is None:
        return ()
    from gpudash.analysis.selection import selectors

    return selectors(options.gpu)


def collector_words() -> list[str]:
    """Return the first words of a command that streams snapshots: gpudash itself."""
    return [sys.executable, "-c", _COLLECTOR, _HOME, "--json"]


def report_words(options: argparse.Namespace) -> list[str] | None:
    """Return the command that reports the past of what is shown, None for none.

    Servers are passed in its environment, as their URLs may contain a password.
    """
    if options.gpu is not None:
        return None
    words = [*collector_words()[:-1], "report", "--json"]
    if kind := reported_kind(options):
        words += source_words(options, [kind])
    return [*words, "--no-config"] if options.no_config else words


def reported_kind(options: argparse.Namespace) -> SourceKind | None:
    """Return the requested source that can be reported on, None for none."""
    asked = (kind for kind in SOURCES.values() if kind.reports and kind.is_asked(options))
    return max(asked, key=lambda kind: kind.has_past, default=None)


def source_words(options: argparse.Namespace, kinds: Iterable[SourceKind]) -> list[str]:
    """Return the options of sources as given, without values that may be secret."""
    words: list[str] = []
    for kind in kinds:
        for name in (*kind.options, *kind.more):
            value = getattr(options, dest(name))
            if value is not None:
                values = value if isinstance(value, list) else [value]
                words += [f"--{name}"] if kind.variable else [f"--{name}={each}" for each in values]
    return words


def collector_command(options: argparse.Namespace, *, shared: bool = False) -> list[str]:
    """Return the command that streams snapshots of one host; raises UsageError for a fleet.

    Decisions need the driver itself; with `shared`, lines may come from `gpudash serve`.
    """
    words = collector_words()
    if not shared or options.fresh:
        words.append("--fresh")
    if options.demo is not None:
        if options.demo.partition("-")[0] == "fleet":
            raise UsageError(f"--demo={options.demo} simulates many hosts, and this is about one")
        words.append(f"--demo={options.demo}")
    if options.gpu is not None:
        words += ["--gpu", options.gpu]
    if options.no_config:
        words.append("--no-config")
    if options.show_secrets:
        words.append("--show-secrets")
    if options.pcie_throughput:
        words.append("--pcie-throughput")
    return words


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line and the environment override for this run."""
    read_only = options.read_only or forbids_signals() is not None
    wanted = {
        "interval": options.interval or options.loop,
        "theme": options.theme,
        "ascii": is_ascii(options) or os.environ.get("TERM") == "linux" or None,
        "read_only": read_only or None,
        "bell": options.bell or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def forbids_signals() -> str | None:
    """Return the file or the variable that forbids signals for all users, None for none."""
    if _is_read_only(ADMINISTRATOR_FILE):
        return ADMINISTRATOR_FILE
    variable = "GPUDASH_READ_ONLY"
    return None if os.environ.get(variable, "0") in ("", "0") else variable


def _is_read_only(path: str) -> bool:
    """Whether a file forbids signals; one that is unreadable or invalid does."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    from gpudash.config import is_read_only

    try:
        return is_read_only(path)
    except SettingsError:
        return True


def judgement(findings: Iterable[Finding], fail_on: FindingLevel | None) -> int:
    """Return the status for findings by --fail-on: 1 if a new one is at least that bad."""
    if fail_on is None:
        return ExitStatus.OK
    from gpudash.analysis.health.levels import FINDING_RANKS

    failing = FINDING_RANKS[fail_on]
    new = (each for each in findings if each.acknowledged is None)
    is_failed = any(FINDING_RANKS[each.level] >= failing for each in new)
    return ExitStatus.FAILURE if is_failed else ExitStatus.OK


def has_color() -> bool:
    """Whether printed output may have colours."""
    return terminal.is_terminal() and terminal.allows_color(os.environ)


def is_ascii(options: argparse.Namespace) -> bool:
    """Whether to print only ASCII: by --ascii, or if Unicode may be unsupported.

    That is the case if the locale is not UTF-8, or the terminal is plain.
    """
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "").lower()
    is_utf8 = "utf-8" in locale or "utf8" in locale
    return options.ascii or not is_utf8 or terminal.is_plain(os.environ)
