"""From argv to one command; errors are printed and exit statuses set only here."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudash.model.errors import ExitStatus, GpudashError, ResourceError, UsageError, is_exhausted
from gpudash.model.text import clean
from gpudash.system import terminal
from gpudash.system.imports import import_argparse


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run gpudash and exit with its status."""
    # Most of a one-shot's time is importing, which makes no garbage.
    gc.disable()
    # Ctrl-C ends it at once and silently, even within a call that never returns; a parent may
    # ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A parent that ignores SIGCHLD would hide from us how our children end.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _reopen_standard_streams()
    exit_with(lambda: _run(sys.argv[1:] if argv is None else list(argv)))


def exit_with(run: Callable[[], int]) -> NoReturn:
    """Run something, and exit with its status."""
    try:
        status = run()
    except terminal.ReaderGoneError:
        status = ExitStatus.BROKEN_PIPE
    except SystemExit as leaving:
        status = int(leaving.code or ExitStatus.OK)
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
    except GpudashError as error:
        status = _report(error)
    except (OSError, MemoryError, RuntimeError) as error:
        if not is_exhausted(error):
            raise
        # At once, as half-made objects such as an event loop complain when released.
        os._exit(_report(ResourceError(error)))
    # A thread of this process may hang in a driver call: wait for nothing more.
    os._exit(status)


def _report(error: GpudashError) -> int:
    """Print the one line of an error, and return its status."""
    with suppress(OSError):
        os.write(2, f"gpudash: {clean(str(error))}\n".encode())
    return error.exit_status


def _run(argv: list[str]) -> int:
    import_argparse()
    if os.path.basename(sys.argv[0]) == "nvidia-smi":
        from gpudash.cli import smi

        return smi.run(argv)
    from gpudash.cli import arguments

    options = arguments.parse(argv)
    if options.filename is not None:
        if _is_same_file(options.filename, options.replay):
            raise UsageError(f"-f {options.filename} is the file of --replay: name another")
        terminal.redirect(options.filename)
    status: int = options.run(options)
    # Possibly nothing was printed.
    terminal.empty_file()
    return status


def _is_same_file(path: str, other: str | None) -> bool:
    try:
        return other is not None and os.path.samefile(path, other)
    except OSError:
        return False


def _reopen_standard_streams() -> None:
    """Open /dev/null for closed descriptors from 0 to 2, so that no file takes them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor != 2 else os.O_WRONLY)
