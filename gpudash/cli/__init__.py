"""argv -> one command; the only place that prints errors and exits."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from gpudash.cli import arguments, dispatch, given, looks
from gpudash.feed import collector
from gpudash.model.errors import ExitStatus, GpudashError, OutputError, ResourceError, is_exhausted
from gpudash.model.text import clean
from gpudash.system import fork
from gpudash.system import startup as quick
from gpudash.system import terminal as stdout

if TYPE_CHECKING:
    import argparse

_COLLECTOR = "nvml-collector"
"""What `ps` calls that of a screen: `pkill gpudash` is for the screen."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run gpudash and exit with its status."""
    # Whoever starts us may ignore the end of children, of which we then would not hear.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _reopen_standard_streams()
    _exit_with(lambda: _run(sys.argv[1:] if argv is None else list(argv)))


def _exit_with(run: Callable[[], int]) -> NoReturn:
    """Run something, and exit with its status."""
    try:
        status = run()
    except stdout.ReaderGoneError:
        status = ExitStatus.BROKEN_PIPE
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
    except GpudashError as error:
        status = _tell(error)
    except (OSError, MemoryError, RuntimeError) as error:
        if not is_exhausted(error):
            raise
        # At once: what was half made, such as an event loop, complains when it is let go of.
        os._exit(_tell(ResourceError(error)))
    # A driver call may still hold a thread of this process: nothing more is waited for.
    os._exit(status)


def _tell(error: GpudashError) -> int:
    """Print the one line of an error, and return its status."""
    with suppress(OSError):
        os.write(2, f"gpudash: {clean(str(error))}\n".encode())
    return error.exit_status


def _run(argv: list[str]) -> int:
    # Until here an interrupt ended the process, as nobody was there to take it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    options = arguments.parse(argv)
    if options.command is not None:
        return dispatch.VERBS[options.command](options)
    if options.filename is not None:
        _redirect(options.filename)
    if options.json_schema:
        return _print_schema()
    if options.query_gpu is not None or options.query_compute_apps is not None:
        return looks.query(options)
    if options.list_gpus:
        return looks.look(options, looks.list_gpus)
    if options.once or options.format is not None or options.json == "gpustat":
        return looks.look(options, looks.once)
    if options.replay is not None:
        given.begin()
        from gpudash.cli.verbs import replay

        return replay.lines(options.replay, options.at, gpus=given.gpus(options))
    if options.json:
        interval = options.interval or given.DEFAULT_INTERVAL
        return _stream(options, lambda: interval, is_controlled=collector.is_controlled(os.environ))
    from gpudash.cli.verbs import watch

    return watch.run(
        given.collector(options),
        lambda interval: _exit_with(lambda: _stream(options, interval, is_controlled=True)),
        config=not options.no_config,
        **given.for_this_run(options),
    )


def _stream(
    options: argparse.Namespace, interval: Callable[[], float], *, is_controlled: bool
) -> int:
    given.begin()
    if is_controlled:
        fork.end_with_parent(os.getppid())
        fork.set_process_name(_COLLECTOR)
    from gpudash.cli.verbs import stream

    return stream.run(
        demo=options.demo,
        gpus=given.gpus(options),
        interval=interval,
        show_secrets=options.show_secrets,
        pcie_throughput=options.pcie_throughput,
        is_controlled=is_controlled,
    )


def _redirect(path: str) -> None:
    """Let everything that is printed go to a file; raises OutputError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    os.dup2(descriptor, 1)
    os.close(descriptor)


def _print_schema() -> int:
    import json

    quick.begin()
    from gpudash.model import wire

    stdout.write(json.dumps(wire.json_schema(), indent=2).encode() + b"\n")
    return ExitStatus.OK


def _reopen_standard_streams() -> None:
    """Give closed descriptors 0 to 2 a harmless file, so that nothing opened later takes them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor != 2 else os.O_WRONLY)
