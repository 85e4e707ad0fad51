"""Who has leased a device with `gpudash run`, and whether it is used."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.analysis.labels import whose
from gpudash.model.device import Device
from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import cut
from gpudash.model.units import duration
from gpudash.tui.draw.line import Line
from gpudash.tui.theme import Theme

_USED = {True: "used", False: "not used", None: "whether it is used cannot be seen"}


def lease_lines(snapshot: Snapshot, device: Device, theme: Theme, cells: int) -> list[Line]:
    """Return a line about the lease of a device, none where it is not leased."""
    lease = next((each for each in snapshot.leases if each.uuid == device.uuid), None)
    if lease is None:
        return []
    now = snapshot.taken_at.timestamp()
    text = cut(f" Leased by {_holder(lease, now)}: ", cells, mark=theme.glyphs.ellipsis)
    used = cut(_USED[lease.is_used], max(0, cells - len(text)), mark="")
    look = theme.level("warn") if lease.is_used is False else theme.base
    return [[Segment(text, theme.dim), Segment(used, look)]]


def _holder(lease: Lease, now: float) -> str:
    if lease.pid is None:
        return "a process of another PID namespace"
    since = "" if lease.create_time is None else f" for {duration(now - lease.create_time)}"
    return f"{whose(lease.name, lease.username, lease.pid)}{since}"
