"""gpudash without a command: show the screen, or print what its options request."""

# Annotations are not postponed: NamedTuple would compile each of them at every start.
from argparse import Action, Namespace
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from gpudash.cli.options import QUERIES, is_recorded, query_name
from gpudash.fleet.sources import OPTIONS, SOURCES, dest
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal
from gpudash.system.imports import import_msgspec

_OF_ONE = frozenset({"gpu", "demo", "fresh", "host", "ssh_config"})
_COLLECTS = _OF_ONE | {"show_secrets", "pcie_throughput"}
_ONE_SHOT = _OF_ONE | {"once", "timeout", "filename", "replay", "at"}
_SOURCES = frozenset(map(dest, OPTIONS))
_FLEET = _SOURCES | {"where"}
_PROCESSES = frozenset({"filter", "sort", "user", "pid"})


class Mode(NamedTuple):
    """A mode: when it is selected, which options affect it, and what runs it."""

    name: str
    """Its name in errors."""
    is_selected: Callable[[Namespace], bool]
    takes: frozenset[str]
    """Names of its options in the namespace; any other given option is an error."""
    run: Callable[[Namespace], int]


def is_fleet(options: Namespace) -> bool:
    """Whether the options are about many hosts."""
    is_named = any(kind.is_asked(options) and kind.means_many(options) for kind in SOURCES.values())
    return is_named or (options.where is not None and options.replay is not None)


def _prints_fleet_once(options: Namespace) -> bool:
    # An instant has a single document.
    is_asked = options.once or options.format is not None or options.at is not None
    return is_fleet(options) and (is_asked or (options.json is None and not terminal.is_terminal()))


def find(options: Namespace) -> Mode:
    """Return the mode that the options select."""
    return next(mode for mode in MODES if mode.is_selected(options))


def hint(option: Action, mode: Mode) -> str:
    """Return where an option has an effect, for the error of an ineffective one; may be empty."""
    if option.dest == "filter" and mode in _OF_FLEET:
        return ": --where 'state:lost' is that of many hosts"
    takers = [mode.name for mode in MODES if option.dest in mode.takes]
    if takers == [mode.name for mode in _OF_FLEET]:
        return ", only with many hosts: --host a,b or another source of them"
    takers = [name for name in takers if name not in option.option_strings]
    return f", only with {' or '.join(takers)}" if 0 < len(takers) <= 2 else ""


def _print_schema(_options: Namespace) -> int:
    import json

    from gpudash.model import fleet, report, wire

    # A line is any of them.
    one, *others = wire.json_schema(), fleet.json_schema(), report.json_schema()
    either = {"anyOf": [{"$ref": each.pop("$ref")} for each in (one, *others)]}
    for each in others:
        one["$defs"] = each["$defs"] | one["$defs"]
    terminal.write(json.dumps(one | either, indent=2).encode() + b"\n")
    return ExitStatus.OK


def _by_option(
    name: str, dest: str, takes: frozenset[str], run: Callable[[Namespace], int]
) -> Mode:
    """Return the mode selected by one option."""
    is_given = lambda options: getattr(options, dest) not in (None, False)  # noqa: E731
    return Mode(name, is_given, takes | {dest}, run)


def _calling(module: str, function: str, *, msgspec: bool = True) -> Callable[[Namespace], int]:
    """Return a function that imports a module and calls its function.

    Without `msgspec`, its imports do not need that, or happen in a child or behind a picture.
    """

    def run(options: Namespace) -> int:
        if msgspec:
            import_msgspec()
        status: int = getattr(import_module(f"gpudash.cli.{module}"), function)(options)
        return status

    return run


_ONCE = _calling("oneshot", "run", msgspec=False)
_PRINTS = _ONE_SHOT | _COLLECTS | _PROCESSES | {"fail_on", "loop"}
_OF_FLEET = (
    Mode(
        "--once of many hosts",
        _prints_fleet_once,
        _FLEET | {"once", "json", "format", "fail_on", "timeout", "filename", "replay", "at"},
        _calling("fleet", "print_once"),
    ),
    Mode(
        "--json of many hosts",
        lambda options: is_fleet(options) and options.json is not None,
        _FLEET | {"json", "interval", "filename"},
        _calling("fleet", "stream"),
    ),
    Mode(
        "the screen of many hosts",
        is_fleet,
        _FLEET | {"interval", "theme", "bell"},
        _calling("fleet_screen", "run", msgspec=False),
    ),
)
OF_ANY_FLEET = frozenset().union(*(mode.takes for mode in _OF_FLEET)) - _SOURCES - {"replay", "at"}
"""Options that affect many hosts, other than those that choose the source."""

MODES = (
    _by_option("--json-schema", "json_schema", frozenset({"filename"}), _print_schema),
    *_OF_FLEET,
    *(
        _by_option(
            f"--query-{query}",
            query_name(query),
            _ONE_SHOT | _COLLECTS | {"format", "loop"},
            _calling("query", "run"),
        )
        for query in QUERIES
    ),
    _by_option(
        "-q",
        "query",
        _ONE_SHOT | _COLLECTS | {"display", "xml", "dtd", "unit", "loop"},
        _calling("query", "print_details"),
    ),
    _by_option("-L", "list_gpus", _ONE_SHOT, _calling("query", "list_gpus")),
    _by_option("--format", "format", _PRINTS, _ONCE),
    Mode(
        "--once",
        lambda options: options.once or options.json == "gpustat",
        _PRINTS | {"json"},
        _ONCE,
    ),
    Mode(
        "--json --replay",
        lambda options: options.json is not None and is_recorded(options),
        frozenset({"json", "replay", "at", "gpu", "filename"}),
        _calling("verbs.replay", "print_lines"),
    ),
    _by_option(
        "--json without --once",
        "json",
        _COLLECTS | {"compact", "interval", "filename", "on_finding", "level"},
        _calling("stream", "run", msgspec=False),
    ),
    Mode(
        "a pipe or a file",
        lambda options: not terminal.is_terminal() and options.replay is None,
        _PRINTS,
        _ONCE,
    ),
    Mode(
        "the screen",
        lambda _: True,
        _COLLECTS | {"interval", "loop", "theme", "replay", "at", "bell"},
        _calling("watch", "run", msgspec=False),
    ),
)
"""All modes; the first one selected runs."""
