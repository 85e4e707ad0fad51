"""The commands that look at the driver once, in a child that may be left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpudash.cli.arguments.options import DEFAULT_TIMEOUT
from gpudash.cli.given import begin, collector, color, gpus, is_utf8, let_ctrl_c_end_us
from gpudash.model.errors import GpudashError, UsageError
from gpudash.system import startup as quick
from gpudash.system import terminal as stdout

if TYPE_CHECKING:
    import argparse

    from gpudash.collect.source import Source

    _Look = Callable[[argparse.Namespace, Callable[[], None]], int]


def look(options: argparse.Namespace, command: _Look) -> int:
    """Run a command that looks at the driver once, in a child that may be left behind."""
    if options.demo is not None or options.replay is not None:
        begin()
        return command(options, lambda: None)
    from gpudash.system import fork

    let_ctrl_c_end_us()

    def work(alive: Callable[[], None]) -> int:
        quick.begin()
        return command(options, alive)

    try:
        return fork.run_isolated(work, options.timeout or DEFAULT_TIMEOUT)
    except GpudashError:
        if options.format == "prometheus" and not stdout.has_written():
            from gpudash.output import prometheus

            stdout.write(prometheus.DOWN.encode())
        raise


def _source(options: argparse.Namespace, alive: Callable[[], None]) -> Source:
    """Return what a single look asks: this machine, a simulated host, or a recording."""
    if options.replay is not None:
        from gpudash.feed.recording.samples import open_still

        still = open_still(options.replay, options.at)
        if still.note:
            os.write(2, f"gpudash: {still.note}\n".encode())
        return still
    from gpudash.collect.local import open_once

    return open_once(
        options.demo,
        options.timeout or DEFAULT_TIMEOUT,
        alive,
        show_secrets=options.show_secrets,
        pcie_throughput=options.pcie_throughput,
    )


def once(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    """Show the host once, in any format."""
    from gpudash.cli.verbs import once

    return once.run(
        _source(options, alive),
        gpus=gpus(options),
        format=_format(options),
        ascii=options.ascii or not is_utf8(),
        color=color(),
        fail_on=options.fail_on,
    )


def _format(options: argparse.Namespace) -> str:
    """Return the format of a single look; raises UsageError for one that there is not."""
    from gpudash.output import FORMATS

    if options.format is None:
        return "gpustat" if options.json == "gpustat" else "json" if options.json else "table"
    if options.format not in FORMATS:
        raise UsageError(f"--format {options.format!r}: choose from {', '.join(FORMATS)}")
    return str(options.format)


def query(options: argparse.Namespace) -> int:
    """Answer a question in the words of nvidia-smi, once or again and again."""
    from gpudash.output import smi

    asked = smi.query(options.query_gpu, options.query_compute_apps, options.format)
    if options.loop is not None:
        begin()
        from gpudash.cli.verbs.query import follow

        wanted, options.gpu = gpus(options), None
        return follow(collector(options), asked, wanted, options.loop)

    def once(options: argparse.Namespace, alive: Callable[[], None]) -> int:
        from gpudash.cli.verbs.query import run

        return run(_source(options, alive), asked, gpus(options))

    return look(options, once)


def list_gpus(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    """List the GPUs as nvidia-smi -L does."""
    from gpudash.cli.verbs.query import list_gpus

    return list_gpus(_source(options, alive), gpus(options))


def topo(options: argparse.Namespace, alive: Callable[[], None]) -> int:
    """Show how the GPUs are connected."""
    from gpudash.cli.verbs import topo

    return topo.run(
        _source(options, alive),
        gpus=gpus(options),
        json=options.json,
        p2p=options.p2p,
        color=color(),
    )
