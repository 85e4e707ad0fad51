"""`gpudash topo`: how the GPUs are connected."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import everything, exit_status, sample, with_source, write_json
from gpudash.cli.options import gpu_selectors, has_color
from gpudash.cli.values import letters
from gpudash.cli.verbs import Verb
from gpudash.system import terminal

if TYPE_CHECKING:
    from gpudash.collect.source import Source


_CAPABILITIES = {"r": "read", "w": "write", "n": "use NVLink", "a": "do atomics", "p": "use PCIe"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash topo` takes."""
    add = parser.add_mutually_exclusive_group().add_argument
    add("-m", "--matrix", action="store_true", help="show the links (default)")
    add("--p2p", action="store_true", help="also show peer access between them")
    add(
        "-p2p",
        "--p2pstatus",
        dest="capability",
        type=letters("".join(_CAPABILITIES)),
        metavar="r|w|n|a|p",
        help=f"show alone whether pairs can: {', '.join(_CAPABILITIES.values())}; of several "
        "letters the first",
    )
    text = "read a recording instead"
    add_shared(parser, "json", "gpu", "timeout", "demo", "replay", "at", replay=text)


def run(options: argparse.Namespace) -> int:
    """Print the matrix with its legend, or as JSON; raises DriverError where a GPU is silent."""
    wanted = None
    # As nvidia-smi reads -p2p rwn.
    options.capability = options.capability and options.capability[0]
    if options.capability in ("n", "p"):
        wanted = lambda: everything() | {"p2p_nvlink"}  # noqa: E731
    return with_source(_print_topology, options, whole=True, wanted=wanted)


def _print_topology(source: Source, options: argparse.Namespace) -> int:
    from gpudash.analysis.selection import select

    snapshot = select(sample(source), gpu_selectors(options))
    if options.json:
        write_json(snapshot.topology)
    else:
        from gpudash.output import matrix

        room = terminal.width() if terminal.is_terminal() else None
        text = matrix.render(
            snapshot,
            p2p=options.p2p,
            capability=options.capability,
            color=has_color(),
            room=room,
        )
        terminal.write(text.encode())
    return exit_status(snapshot)


VERB = Verb("show how the GPUs are connected", add_arguments, run)
