"""Whether options agree with each other: what would be ignored in silence is an error."""

from __future__ import annotations

import argparse

from gpudash.errors import UsageError


def check(options: argparse.Namespace) -> None:
    """Raise UsageError for options that have no effect where they stand."""
    asked = _asked(options)
    if len(asked) > 1:
        raise UsageError(f"choose one of {' and '.join(asked)}")
    if asked and options.command is not None:
        raise UsageError(f"{asked[0]} does not go with gpudash {options.command}")
    _check_judgement(options)
    _check_replay(options, asked)
    if options.command == "doctor" and options.demo is not None:
        raise UsageError("gpudash doctor examines this host: it takes no --demo")
    if options.command == "run" and options.timeout is not None and not options.wait:
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")


def _asked(options: argparse.Namespace) -> list[str]:
    """Return the options that each say what is to be printed, and how."""
    is_query = _is_query(options)
    said = {
        "--query-gpu": options.query_gpu is not None,
        "--query-compute-apps": options.query_compute_apps is not None,
        "-L": options.list_gpus,
        # A command may have a --format of its own.
        "--format": options.format is not None and not is_query and options.command is None,
        "--json": options.json is not None and options.command is None,
        "--json-schema": options.json_schema,
    }
    return [name for name, is_said in said.items() if is_said]


def _is_query(options: argparse.Namespace) -> bool:
    return options.query_gpu is not None or options.query_compute_apps is not None


def _check_judgement(options: argparse.Namespace) -> None:
    if options.fail_on is None:
        return
    is_query = _is_query(options)
    looks = options.once or options.format is not None or options.json == "gpustat"
    if options.command is not None or is_query or not looks:
        raise UsageError("--fail-on goes with gpudash --once")


def _check_replay(options: argparse.Namespace, asked: list[str]) -> None:
    """Look for a recording, or a time, that nothing would be shown of."""
    if options.replay is None:
        if options.at is not None and options.command != "replay":
            raise UsageError("--at goes with --replay FILE, or gpudash replay FILE")
        return
    if options.command not in (None, "topo") or options.loop is not None:
        raise UsageError("--replay is for a single look: --once, --format, --query-gpu, -L, topo")
    if not (asked or options.once or options.command):
        raise UsageError(f"the screen of a recording is gpudash replay {options.replay}")
