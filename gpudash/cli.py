"""argv -> one command; the only place that prints errors and exits."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpudash import __version__, quick, stdout
from gpudash.errors import ExitStatus, GpudashError, UsageError

_MIN_INTERVAL, _MAX_INTERVAL = 0.1, 3600.0
_DEFAULT_DEMO = "dgx-h100"
_COMMANDS = ("topo",)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run gpudash and exit with its status."""
    _reopen_standard_streams()
    try:
        status = _run(sys.argv[1:] if argv is None else list(argv))
    except stdout.ReaderGoneError:
        status = ExitStatus.BROKEN_PIPE
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
    except GpudashError as error:
        os.write(2, f"gpudash: {error}\n".encode(errors="backslashreplace"))
        status = error.exit_status
    # A driver call may still hold a thread of this process: nothing more is waited for.
    os._exit(status)


def _run(argv: list[str]) -> int:
    options = _parser().parse_args(_with_demo_name(argv))
    if options.json_schema:
        return _print_schema()
    gpus = [word for word in options.gpu.split(",") if word.strip()]
    if options.command == "topo":
        _begin()
        from gpudash.commands import topo

        return topo.run(
            demo=options.demo, gpus=gpus, json=options.json, p2p=options.p2p, color=_color()
        )
    if options.once:
        _begin()
        from gpudash.commands import once

        return once.run(
            demo=options.demo,
            gpus=gpus,
            json=options.json,
            ascii=options.ascii or not _is_utf8(),
            color=_color(),
        )
    if options.json:
        _begin()
        from gpudash.commands import stream

        return stream.run(demo=options.demo, gpus=gpus, interval=options.interval)
    from gpudash.commands import watch

    return watch.run(_collector(options), interval=options.interval)


class _Parser(argparse.ArgumentParser):
    """Bad arguments are one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see gpudash --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpudash",
        description="See every GPU of a server at a glance, who holds it and why.",
        usage="gpudash [options] [topo [--p2p]]",
        epilog=(
            "Without options: the live screen. Exit status: 0; 2 bad usage; 15 or 16 a GPU is "
            "lost or needs a reset; NVML's number when the driver cannot be used."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", choices=_COMMANDS, help="topo: the links of the GPUs")
    parser.add_argument("--once", action="store_true", help="print the state once, as a table")
    parser.add_argument(
        "--json", action="store_true", help="JSON: a line per interval, with --once one document"
    )
    parser.add_argument(
        "--interval", type=_interval, default=1.0, metavar="S", help="seconds between samples (1)"
    )
    parser.add_argument(
        "--gpu", default="", metavar="LIST", help="only these: indices or UUID prefixes, 0,2"
    )
    parser.add_argument(
        "--demo", metavar="NAME", help=f"a simulated host, by default {_DEFAULT_DEMO}"
    )
    parser.add_argument("--p2p", action="store_true", help="with topo: peer access too")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII only")
    parser.add_argument(
        "--json-schema", action="store_true", help="print the JSON Schema of the documents"
    )
    parser.add_argument("--version", action="version", version=f"gpudash {__version__}")
    return parser


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not _MIN_INTERVAL <= seconds <= _MAX_INTERVAL:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no interval: choose {_MIN_INTERVAL:g} to {_MAX_INTERVAL:g} seconds"
        )
    return seconds


def _with_demo_name(argv: list[str]) -> list[str]:
    """Give a bare `--demo` its name, so that it does not swallow the command behind it."""
    words: list[str] = []
    for place, word in enumerate(argv):
        following = argv[place + 1] if place + 1 < len(argv) else "-"
        bare = word == "--demo" and (following.startswith("-") or following in _COMMANDS)
        words.append(f"--demo={_DEFAULT_DEMO}" if bare else word)
    return words


def _collector(options: argparse.Namespace) -> list[str]:
    """Return the command that feeds the screen: gpudash itself, streaming."""
    words = [sys.executable, "-m", "gpudash", "--json", "--interval", str(options.interval)]
    if options.demo is not None:
        words.append(f"--demo={options.demo}")
    if options.gpu:
        words += ["--gpu", options.gpu]
    return words


def _print_schema() -> int:
    import json

    quick.begin()
    from gpudash import wire

    stdout.write(json.dumps(wire.json_schema(), indent=2).encode() + b"\n")
    return ExitStatus.OK


def _color() -> bool:
    return stdout.is_terminal() and "NO_COLOR" not in os.environ


def _is_utf8() -> bool:
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "")
    return "utf-8" in locale.lower() or "utf8" in locale.lower()


def _begin() -> None:
    """Start quickly, and let Ctrl-C end us at once, also within a call that never returns."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    quick.begin()


def _reopen_standard_streams() -> None:
    """Give closed descriptors 0 to 2 a harmless file, so that nothing opened later takes them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor != 2 else os.O_WRONLY)
