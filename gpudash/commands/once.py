"""`gpudash --once`: the state of the host, printed once."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash import stdout, wire
from gpudash.errors import ExitStatus
from gpudash.selection import select
from gpudash.snapshot import Snapshot
from gpudash.sources.local import open_source


def run(
    *,
    demo: str | None,
    gpus: Sequence[str],
    json: bool,
    ascii: bool,
    color: bool,
    show_secrets: bool = False,
) -> int:
    """Print a table, or one JSON document, and return the exit status."""
    source = open_source(demo, show_secrets=show_secrets)
    snapshot = select(source.sample(), gpus)
    if json:
        line = wire.encode(snapshot)
        stdout.write((wire.pretty(line) if stdout.is_terminal() else line) + b"\n")
    else:
        from gpudash.outputs import table

        text = table.render(snapshot, width=stdout.width(), color=color, ascii=ascii)
        stdout.write(text.encode("ascii" if ascii else "utf-8", "backslashreplace"))
    return exit_status(snapshot)


def exit_status(snapshot: Snapshot) -> int:
    """Return nvidia-smi's status for what was printed: 15 or 16 when a GPU is out of order.

    6, NVML's "not found", when there is none.
    """
    if not snapshot.devices:
        return ExitStatus.NO_GPU
    states = {device.state for device in snapshot.devices}
    if "lost" in states:
        return ExitStatus.GPU_IS_LOST
    return ExitStatus.RESET_REQUIRED if "reset-required" in states else ExitStatus.OK
