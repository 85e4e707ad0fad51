"""`gpudash topo`: how the GPUs are connected."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import exit_status, sample, with_source, write_json
from gpudash.cli.options import gpu_selectors, has_color
from gpudash.cli.verbs import Verb
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.collect.source import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash topo` takes."""
    parser.add_argument("--p2p", action="store_true", help="also show peer access between them")
    text = "read a recording instead"
    add_shared(parser, "json", "gpu", "timeout", "demo", "replay", "at", replay=text)


def run(options: argparse.Namespace) -> int:
    """Print the matrix with its legend, or as JSON; raises DriverError where a GPU is silent."""
    return with_source(_print_topology, options, with_topology=True)


def _print_topology(source: Source, options: argparse.Namespace) -> int:
    from gpudash.analysis.selection import select

    snapshot = select(sample(source), gpu_selectors(options))
    if options.json:
        write_json(snapshot.topology)
    else:
        from gpudash.output import matrix

        room = terminal.width() if terminal.is_terminal() else None
        text = matrix.render(snapshot, p2p=options.p2p, color=has_color(), room=room).encode()
        terminal.write(text)
    return exit_status(snapshot)


VERB = Verb("show how the GPUs are connected", add_arguments, run)
