"""What gpudash does without a command: show the screen, or print what its options request."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from gpudash.cli.options import QUERIES, query_name
from gpudash.system import terminal

_COLLECTS = frozenset({"gpu", "demo", "show_secrets", "pcie_throughput"})
_ONE_SHOT = frozenset({"once", "gpu", "demo", "timeout", "filename", "replay", "at"})
_PROCESSES = frozenset({"filter", "sort", "user", "pid"})


class Mode(NamedTuple):
    """A mode: when it is selected, which options have an effect in it, and what runs it."""

    name: str
    """What errors call it."""
    is_selected: Callable[[Namespace], bool]
    takes: frozenset[str]
    """Names of options as in the namespace; any other given one is an error."""
    run: Callable[[Namespace], int]


def find(options: Namespace) -> Mode:
    """Return the mode that the options select."""
    return next(mode for mode in MODES if mode.is_selected(options))


def hint(name: str) -> str:
    """Return where an option has an effect, for the error of one that has none; may be empty."""
    takers = [mode.name for mode in MODES if name in mode.takes]
    return f", only with {' or '.join(takers)}" if 0 < len(takers) <= 2 else ""


def _print_schema(_options: Namespace) -> int:
    import json

    from gpudash.model import wire
    from gpudash.model.errors import ExitStatus
    from gpudash.system import terminal

    terminal.write(json.dumps(wire.json_schema(), indent=2).encode() + b"\n")
    return ExitStatus.OK


def _asks(query: str, options: Namespace) -> bool:
    return getattr(options, query) is not None


def _query(options: Namespace) -> int:
    from gpudash.cli import query

    return query.run(options)


def _details(options: Namespace) -> int:
    from gpudash.cli import query

    return query.print_details(options)


def _list_gpus(options: Namespace) -> int:
    from gpudash.cli import query

    return query.list_gpus(options)


def _once(options: Namespace) -> int:
    from gpudash.cli import oneshot

    return oneshot.run(options)


def _recorded_lines(options: Namespace) -> int:
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
        _ONE_SHOT | _COLLECTS | {"query", "display", "xml"},
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
        _COLLECTS | {"interval", "theme", "replay", "at", "bell"},
        _screen,
    ),
)
"""All modes; the first that is selected runs."""
