"""Whether options agree with each other: what would be ignored in silence is an error."""

from __future__ import annotations

import argparse

from gpudash.model.errors import UsageError

_LOOKS = frozenset({"once", "query", "list"})
"""What shows the state a single time."""
_PICKS = frozenset({"pick", "wait", "leases"})
_LIVE = frozenset({"screen", "stream", "loop"})

_OPTIONS = {
    "--interval": ("interval", {"screen", "stream", "record", "replay"}),
    "--timeout": ("timeout", {*_LOOKS, "topo", "doctor"}),
    "--gpu": ("gpu", {*_LOOKS, *_LIVE, *_PICKS, "run", "recording", "topo", "record", "replay"}),
    "--demo": ("demo", {*_LOOKS, *_LIVE, *_PICKS, "topo", "kill", "record", "replay"}),
    "--show-secrets": ("show_secrets", {*_LIVE, "once", "query", "kill", "record"}),
    "--pcie-throughput": ("pcie_throughput", {*_LIVE, "once", "query", "record"}),
    "--theme": ("theme", {"screen", "replay"}),
    "-f": ("filename", {*_LOOKS, "stream", "loop", "recording", "schema"}),
    "--once": ("once", {*_LOOKS, "recording"}),
}
"""Options of `gpudash` itself, what they set, and where that has an effect.

What only forbids, such as --read-only, holds everywhere.
"""


def check(options: argparse.Namespace) -> None:
    """Raise UsageError for options that have no effect where they stand."""
    asked = _asked(options)
    if len(asked) > 1:
        raise UsageError(f"choose one of {' and '.join(asked)}")
    if asked and options.command is not None:
        raise UsageError(f"{asked[0]} does not go with gpudash {options.command}")
    _check_judgement(options)
    _check_replay(options, asked)
    if options.loop is not None and not _is_query(options):
        raise UsageError("-l and -lms go with --query-gpu or --query-compute-apps")
    if options.command == "doctor" and options.demo is not None:
        raise UsageError("gpudash doctor examines this host: it takes no --demo")
    if options.command == "config" and options.no_config:
        raise UsageError("gpudash config is about the file of settings: it takes no --no-config")
    if options.command == "run" and options.patience is not None and not options.wait:
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    place, name = _place(options)
    for option, (target, places) in _OPTIONS.items():
        if place not in places and getattr(options, target) not in (None, False):
            if option == "--timeout" and place in ("wait", "run"):
                raise UsageError(f"--timeout goes behind the command: {name} --timeout 2h")
            raise UsageError(f"{option} does not go with {name}")


def _place(options: argparse.Namespace) -> tuple[str, str]:
    """Return what is done, and what to call it."""
    if options.replay is not None:
        return "recording", "--replay"
    if options.command is not None:
        return options.command, f"gpudash {options.command}"
    if options.json_schema:
        return "schema", "--json-schema"
    if _is_query(options):
        name = "--query-gpu" if options.query_gpu is not None else "--query-compute-apps"
        return ("query", name) if options.loop is None else ("loop", f"{name} and -l")
    if options.list_gpus:
        return "list", "-L"
    if options.once or options.format is not None or options.json == "gpustat":
        shape = "--json=gpustat" if options.format is None else "--format"
        return "once", "--once" if options.once else shape
    return ("stream", "--json without --once") if options.json else ("screen", "the screen")


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
