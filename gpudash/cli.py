"""argv -> one command; the only place that prints errors and exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gpudash import arguments, quick, stdout
from gpudash.errors import ExitStatus, GpudashError, OutputError, UsageError
from gpudash.text import clean

if TYPE_CHECKING:
    import argparse

    from gpudash.commands.once import Format
    from gpudash.picking import Wish

    _Look = Callable[[argparse.Namespace, Callable[[], None]], int]

_DEFAULT_INTERVAL = 1.0

# What `python -m gpudash` does, but for its first look for modules in the current directory,
# where a stranger may have put some.
_COLLECTOR = (
    "import sys; sys.path[0:1] = []; sys.path.append(sys.argv.pop(1)); "
    "from gpudash.cli import main; main()"
)


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
        os.write(2, f"gpudash: {clean(str(error))}\n".encode())
        status = error.exit_status
    # A driver call may still hold a thread of this process: nothing more is waited for.
    os._exit(status)


def _run(argv: list[str]) -> int:
    options = arguments.parse(argv)
    if options.json_schema:
        return _print_schema()
    if options.command is not None:
        return _VERBS[options.command](options)
    if options.filename is not None:
        _redirect(options.filename)
    if options.query_gpu is not None or options.query_compute_apps is not None:
        return _query(options)
    if options.loop is not None:
        raise UsageError("-l and -lms go with --query-gpu or --query-compute-apps")
    if options.list_gpus:
        return _look(options, _list_gpus)
    if options.once or options.format is not None or options.json == "gpustat":
        return _look(options, _once)
    if options.json:
        _begin()
        from gpudash.commands import stream

        return stream.run(
            demo=options.demo,
            gpus=_gpus(options),
            interval=options.interval or _DEFAULT_INTERVAL,
            show_secrets=options.show_secrets,
            pcie_throughput=options.pcie_throughput,
        )
    from gpudash.commands import watch

    return watch.run(_collector(options), config=not options.no_config, **_for_this_run(options))


def _look(options: argparse.Namespace, command: _Look) -> int:
    """Run a command that looks at the driver once, in a child that may be left behind."""
    if options.demo is not None:
        _begin()
        return command(options, lambda: None)
    from gpudash import apart

    _let_ctrl_c_end_us()

    def work(alive: Callable[[], None]) -> int:
        quick.begin()
        return command(options, alive)

    return apart.run(work, options.timeout)


def _once(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    from gpudash.commands import once
    from gpudash.sources.local import open_once

    source = open_once(
        options.demo,
        options.timeout,
        alive,
        show_secrets=options.show_secrets,
        pcie_throughput=options.pcie_throughput,
    )
    return once.run(
        source,
        gpus=_gpus(options),
        format=_format(options),
        ascii=options.ascii or not _is_utf8(),
        color=_color(),
        fail_on=options.fail_on,
    )


def _format(options: argparse.Namespace) -> Format:
    """Return the format of a single look; raises UsageError for one that there is not."""
    from gpudash.commands.once import FORMATS

    if options.format is None:
        return "gpustat" if options.json == "gpustat" else "json" if options.json else "table"
    for each in FORMATS:
        if options.format == each:
            return each
    raise UsageError(f"--format {options.format!r}: choose from {', '.join(FORMATS)}")


def _query(options: argparse.Namespace) -> int:
    from gpudash.outputs import smi

    query = smi.query(options.query_gpu, options.query_compute_apps, options.format)
    if options.loop is not None:
        _begin()
        from gpudash.commands.query import follow

        gpus, options.gpu = _gpus(options), None
        return follow(_collector(options), query, gpus, options.loop)

    def once(options: argparse.Namespace, alive: Callable[[], None]) -> int:
        from gpudash.commands.query import run
        from gpudash.sources.local import open_once

        return run(open_once(options.demo, options.timeout, alive), query, _gpus(options))

    return _look(options, once)


def _list_gpus(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    from gpudash.commands.query import list_gpus
    from gpudash.sources.local import open_once

    return list_gpus(open_once(options.demo, options.timeout, alive), _gpus(options))


def _redirect(path: str) -> None:
    """Let everything that is printed go to a file; raises OutputError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    os.dup2(descriptor, 1)
    os.close(descriptor)


def _topo(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    from gpudash.commands import topo
    from gpudash.sources.local import open_once

    return topo.run(
        open_once(options.demo, options.timeout, alive),
        gpus=_gpus(options),
        json=options.json,
        p2p=options.p2p,
        color=_color(),
    )


def _gpus(options: argparse.Namespace) -> Sequence[str]:
    from gpudash.selection import selectors

    return () if options.gpu is None else selectors(options.gpu)


def _kill(options: argparse.Namespace) -> int:
    _begin()
    from gpudash.commands import kill

    return kill.run(
        _collector(options),
        pids=options.pids,
        signal=options.signal,
        tree=options.tree,
        yes=options.yes,
        read_only=options.read_only,
        config=not options.no_config,
        show_secrets=options.show_secrets,
    )


def _doctor(options: argparse.Namespace) -> int:
    _begin()
    from gpudash.commands import doctor

    return doctor.run(
        json=options.json,
        timeout=options.timeout,
        ascii=options.ascii or not _is_utf8(),
        color=_color(),
        config=not options.no_config,
    )


def _wish(options: argparse.Namespace) -> Wish:
    from gpudash.picking import Wish

    return Wish(
        count=options.count,
        min_free_bytes=options.min_free,
        max_utilization_percent=options.max_util,
        model=options.model,
        linked=options.linked,
        share=options.share,
    )


def _pick(options: argparse.Namespace) -> int:
    _begin()
    from gpudash.commands import pick

    wait = options.command == "wait"
    return pick.run(
        _collector(options),
        _wish(options),
        window=options.window,
        format=options.format,
        wait=wait,
        timeout=options.timeout if wait else None,
    )


def _lease_and_run(options: argparse.Namespace) -> int:
    _begin()
    from gpudash.commands import run

    return run.run(
        _collector(options),
        _wish(options),
        options.argv,
        window=options.window,
        wait=options.wait,
        timeout=options.timeout,
    )


def _for_this_run(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line outdoes."""
    read_only = options.read_only or os.environ.get("GPUDASH_READ_ONLY", "0") not in ("", "0")
    wanted = {
        "interval": options.interval,
        "theme": options.theme,
        "ascii": options.ascii or not _is_utf8() or os.environ.get("TERM") == "linux" or None,
        "read_only": read_only or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _collector(options: argparse.Namespace) -> list[str]:
    """Return the command that feeds the screen: gpudash itself, streaming."""
    words = [sys.executable, "-c", _COLLECTOR, os.path.dirname(os.path.dirname(__file__)), "--json"]
    if options.demo is not None:
        words.append(f"--demo={options.demo}")
    if options.gpu is not None:
        words += ["--gpu", options.gpu]
    if options.show_secrets:
        words.append("--show-secrets")
    if options.pcie_throughput:
        words.append("--pcie-throughput")
    return words


def _leases(options: argparse.Namespace) -> int:
    _begin()
    from gpudash.commands import leases

    return leases.run(_collector(options), json=options.json, color=_color())


def _config(options: argparse.Namespace) -> int:
    from gpudash.commands import config

    return config.run(options.action)


def _completion(options: argparse.Namespace) -> int:
    from gpudash.commands import completion

    return completion.run(options.shell)


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
    """Start quickly, and be ended by Ctrl-C."""
    _let_ctrl_c_end_us()
    quick.begin()


def _let_ctrl_c_end_us() -> None:
    """Let Ctrl-C end us at once, also within a call that never returns."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _reopen_standard_streams() -> None:
    """Give closed descriptors 0 to 2 a harmless file, so that nothing opened later takes them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor != 2 else os.O_WRONLY)


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "topo": lambda options: _look(options, _topo),
    "kill": _kill,
    "pick": _pick,
    "wait": _pick,
    "run": _lease_and_run,
    "leases": _leases,
    "doctor": _doctor,
    "config": _config,
    "completion": _completion,
}
