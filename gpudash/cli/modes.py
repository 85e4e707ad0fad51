"""What gpudash does without a command: show the screen, or print what its options request."""

# Annotations are not postponed: NamedTuple would compile each of them, at every start.
import re
from argparse import Action, Namespace
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gpudash.cli.options import QUERIES, query_name
from gpudash.system import terminal
from gpudash.system.imports import import_msgspec

_COLLECTS = frozenset({"gpu", "demo", "show_secrets", "pcie_throughput", "host", "ssh_config"})
_ONE_SHOT = frozenset(
    {"once", "gpu", "demo", "timeout", "filename", "replay", "at", "host", "ssh_config"}
)
_FLEET = frozenset({"host", "hosts_file", "ssh_config", "prometheus", "scrape", "demo", "where"})
OF_ANY_FLEET = frozenset(
    {
        "where",
        "once",
        "json",
        "format",
        "fail_on",
        "timeout",
        "filename",
        "interval",
        "theme",
        "bell",
    }
)
"""Options that have an effect on many hosts, other than those that name them."""
_ONE_HOST = r"[\w.%+-]+(@[\w.:%+-]+)?|[\w.:%+-]*::[\w.:%+-]*"
_PROCESSES = frozenset({"filter", "sort", "user", "pid"})


class Mode(NamedTuple):
    """A mode: when it is selected, which options have an effect in it, and what runs it."""

    name: str
    """What errors call it."""
    is_selected: Callable[[Namespace], bool]
    takes: frozenset[str]
    """Names of options as in the namespace; any other given one is an error."""
    run: Callable[[Namespace], int]


def is_fleet(options: Namespace) -> bool:
    """Whether the options are about many hosts."""
    names: list[str] = options.host or []
    is_named = (
        any(getattr(options, name) is not None for name in ("hosts_file", "prometheus", "scrape"))
        or (options.demo or "").partition("-")[0] == "fleet"
        or len(names) > 1
        or (len(names) == 1 and not re.fullmatch(_ONE_HOST, names[0]))
    )
    return is_named or (options.where is not None and options.replay is not None)


def _prints_fleet_once(options: Namespace) -> bool:
    is_asked = options.once or options.format is not None
    return is_fleet(options) and (is_asked or (options.json is None and not terminal.is_terminal()))


def find(options: Namespace) -> Mode:
    """Return the mode that the options select."""
    return next(mode for mode in MODES if mode.is_selected(options))


def hint(option: Action) -> str:
    """Return where an option has an effect, for the error of one that has none; may be empty."""
    takers = [mode.name for mode in MODES if option.dest in mode.takes]
    takers = [name for name in takers if name not in option.option_strings]
    return f", only with {' or '.join(takers)}" if 0 < len(takers) <= 2 else ""


def _print_schema(_options: Namespace) -> int:
    import json

    from gpudash.model import fleet, wire
    from gpudash.model.errors import ExitStatus

    # A line is one of the two.
    one, many = wire.json_schema(), fleet.json_schema()
    either = {"anyOf": [{"$ref": one.pop("$ref")}, {"$ref": many["$ref"]}]}
    one["$defs"] = many["$defs"] | one["$defs"]
    terminal.write(json.dumps(one | either, indent=2).encode() + b"\n")
    return ExitStatus.OK


def _asks(query: str, options: Namespace) -> bool:
    return getattr(options, query) is not None


def _query(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli import query

    return query.run(options)


def _details(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli import query

    return query.print_details(options)


def _fleet_once(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli import fleet

    return fleet.print_once(options)


def _fleet_stream(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli import fleet

    return fleet.stream(options)


def _fleet_screen(options: Namespace) -> int:
    from gpudash.cli import fleet_screen

    return fleet_screen.run(options)


def _list_gpus(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli import query

    return query.list_gpus(options)


def _once(options: Namespace) -> int:
    from gpudash.cli import oneshot

    return oneshot.run(options)


def _recorded_lines(options: Namespace) -> int:
    import_msgspec()
    from gpudash.cli.verbs import replay

    return replay.print_lines(options)


def _stream(options: Namespace) -> int:
    from gpudash.cli import stream

    return stream.run(options)


def _screen(options: Namespace) -> int:
    from gpudash.cli import watch

    return watch.run(options)


MODES = (
    Mode(
        "--json-schema",
        lambda options: options.json_schema,
        frozenset({"json_schema", "filename"}),
        _print_schema,
    ),
    Mode(
        "--once of many hosts",
        _prints_fleet_once,
        _FLEET | {"once", "json", "format", "fail_on", "timeout", "filename", "replay", "at"},
        _fleet_once,
    ),
    Mode(
        "--json of many hosts",
        lambda options: is_fleet(options) and options.json is not None,
        _FLEET | {"json", "interval", "filename"},
        _fleet_stream,
    ),
    Mode(
        "the screen of many hosts",
        is_fleet,
        _FLEET | {"interval", "theme", "bell"},
        _fleet_screen,
    ),
    *(
        Mode(
            f"--query-{query}",
            partial(_asks, query_name(query)),
            _ONE_SHOT | _COLLECTS | {query_name(query), "format", "loop"},
            _query,
        )
        for query in QUERIES
    ),
    Mode(
        "-q",
        lambda options: options.query,
        _ONE_SHOT | _COLLECTS | {"query", "display", "xml", "loop"},
        _details,
    ),
    Mode("-L", lambda options: options.list_gpus, _ONE_SHOT | {"list_gpus"}, _list_gpus),
    Mode(
        "--format",
        lambda options: options.format is not None,
        _ONE_SHOT | _COLLECTS | _PROCESSES | {"format", "fail_on", "loop"},
        _once,
    ),
    Mode(
        "--once",
        lambda options: options.once or options.json == "gpustat",
        _ONE_SHOT | _COLLECTS | _PROCESSES | {"json", "fail_on", "loop"},
        _once,
    ),
    Mode(
        "--json --replay",
        lambda options: options.json is not None and options.replay is not None,
        frozenset({"json", "replay", "at", "gpu", "filename"}),
        _recorded_lines,
    ),
    Mode(
        "--json without --once",
        lambda options: options.json is not None,
        _COLLECTS | {"json", "compact", "interval", "filename", "on_finding", "level"},
        _stream,
    ),
    Mode(
        "a pipe or a file",
        lambda options: not terminal.is_terminal() and options.replay is None,
        _ONE_SHOT | _COLLECTS | _PROCESSES | {"fail_on", "loop"},
        _once,
    ),
    Mode(
        "the screen",
        lambda _: True,
        _COLLECTS | {"interval", "loop", "theme", "replay", "at", "bell"},
        _screen,
    ),
)
"""All modes; the first that is selected runs."""
