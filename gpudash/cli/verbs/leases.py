"""`gpudash leases`: who has GPUs by `gpudash run`, and whether they use them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import msgspec

from gpudash.actions.lease.acquire import require_places
from gpudash.feed.sampler import open_sampler
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal as stdout


def run(collector: Sequence[str], *, json: bool, color: bool) -> int:
    """Print a line for each lease, or all of them as JSON."""
    with closing(open_sampler(collector, 0)) as sampler:
        sampler.fill()
        snapshot = sampler.samples[-1]
    if not snapshot.host.simulated:
        require_places(snapshot.devices)
    if json:
        line = msgspec.json.encode(snapshot.leases)
        stdout.write((msgspec.json.format(line) if stdout.is_terminal() else line) + b"\n")
    else:
        from gpudash.output import leases

        text = leases.render(snapshot, width=stdout.width(), color=color)
        stdout.write(text.encode("utf-8", "backslashreplace"))
    return ExitStatus.OK
