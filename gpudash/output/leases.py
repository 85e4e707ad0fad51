"""Leases as a table: the GPU, who has it since when, and whether it is used."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import cut, pad
from gpudash.model.units import ABSENT, duration
from gpudash.output.table import painter, shown

_HEADER = ("GPU", "OWNER", "PID", "SINCE", "USED", "PROGRAM")
_RIGHT = frozenset({"GPU", "PID", "SINCE"})
_USED = {True: "yes", False: "no", None: ABSENT}


def render(snapshot: Snapshot, *, width: int, color: bool) -> str:
    """Return a line for each lease below a heading, or one that there is none."""
    if not snapshot.leases:
        return "No GPU is leased: gpudash run -n 1 -- COMMAND leases one\n"
    now = snapshot.taken_at.timestamp()
    rows: list[Sequence[str]] = [_HEADER, *(_row(lease, now) for lease in snapshot.leases)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    paint = painter(color)
    lines: list[str] = []
    for row in rows:
        cells = (
            pad(text, room, ">" if header in _RIGHT else "<")
            for text, room, header in zip(row, widths, _HEADER, strict=True)
        )
        line = cut("  ".join(cells), width).rstrip()
        unused = row[_HEADER.index("USED")] == "no"
        lines.append(paint(line, "dim" if row is _HEADER else "yellow" if unused else "plain"))
    return "".join(f"{line}\n" for line in lines)


def _row(lease: Lease, now: float) -> Sequence[str]:
    ended = "(ended, a child of it goes on)" if lease.pid else "(in another PID namespace)"
    return (
        str(lease.index),
        shown(lease.username or ABSENT, False),
        ABSENT if lease.pid is None else str(lease.pid),
        ABSENT if lease.create_time is None else duration(now - lease.create_time),
        _USED[lease.is_used],
        ended if lease.name is None else shown(lease.name, False),
    )
