"""`gpudash topo`: how the GPUs are connected."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudash.analysis.selection import select
from gpudash.cli.verbs.once import exit_status, sample
from gpudash.collect.source import Source
from gpudash.system import terminal as stdout


def run(source: Source, *, gpus: Sequence[str], json: bool, p2p: bool, color: bool) -> int:
    """Print the matrix with its legend, with `p2p` the peer access too, or all of it as JSON.

    Raises DriverError where the driver, or a GPU, does not answer.
    """
    snapshot = select(sample(source), gpus)
    if json:
        line = msgspec.json.encode(snapshot.topology)
        text = msgspec.json.format(line, indent=2) if stdout.is_terminal() else line
        stdout.write(text + b"\n")
    else:
        from gpudash.output import matrix

        room = stdout.width() if stdout.is_terminal() else None
        stdout.write(matrix.render(snapshot, p2p=p2p, color=color, room=room).encode())
    return exit_status(snapshot)
