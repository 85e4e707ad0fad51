"""The processes on one device, what they hold of it in place of what they hold in all."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from rich.segment import Segment

from gpudash.analysis.columns import PROCESS_COLUMNS
from gpudash.analysis.health.levels import memory_share
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.tui.draw.grid import MARGIN, Grid
from gpudash.tui.draw.line import Line, joined
from gpudash.tui.theme import Theme

_ROLES = {"user": "owner", "type": "dim", "job": "dim"}


def shares_of(process: Process, device: Device) -> tuple[ProcessDevice, ...]:
    """Return what a process has of a device: of a GPU its MIG instances too."""
    return tuple(
        share
        for share in process.devices
        if share.uuid == device.uuid or (not device.is_mig and share.index == device.index)
    )


def holders(
    snapshot: Snapshot, device: Device, idle_seconds: Callable[[Process], float | None]
) -> list[ProcessRow]:
    """Return the processes on a device, in the order of the snapshot."""
    present = tuple(process for process in snapshot.processes if shares_of(process, device))
    here = replace(snapshot, processes=present)
    rows = []
    for row in process_rows(here, idle_seconds):
        process = replace(row.process, devices=shares_of(row.process, device))
        used, total = process.used_gpu_memory_bytes, device.memory_total_bytes
        percent = None if used is None or not total else 100 * used / total
        rows.append(row._replace(process=process, gpu_memory_percent=percent))
    return rows


class HolderTable:
    """Draws the first few processes of a device under their headings."""

    def __init__(self) -> None:
        self._grid = Grid(PROCESS_COLUMNS, _ROLES)

    def lines(
        self, rows: list[ProcessRow], nobody: str, theme: Theme, cells: int, most: int
    ) -> list[Line]:
        """Return at most `most` processes, how many more there are, and a blank line.

        `nobody` are the words for none.
        """
        if not rows:
            return [[Segment(f" {nobody}", theme.dim)], []]
        shown = rows[:most] if len(rows) <= most else rows[: most - 1]
        lines: list[Line] = []
        for _attempt in range(2):
            self._grid.fit(rows, tuple(row.process.key for row in rows), cells)
            lines = [joined(self._grid.draw(row, theme)) for row in shown]
            if not self._grid.outgrown:
                break
        if len(shown) < len(rows):
            more = f"{len(rows) - len(shown)} more"
            lines.append([Segment(" " * MARGIN + more, theme.dim)])
        return [self._grid.heading(theme), *lines, []]


def nobody_on(device: Device, snapshot: Snapshot) -> str:
    """Return that no process is listed, and whether memory is held all the same."""
    if is_unlisted(device, snapshot):
        return "Which processes are on it is not known"
    if (memory_share(device) or 0) >= 0.05:
        return "No process is listed on it, though its memory is in use"
    return "No process is on it"
