"""How the lines of the terminal are shared out between host, devices, charts and processes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

_FIXED_LINES = 4
"""Header, footer and the headings of both tables."""

_LEAST_PROCESSES, _MOST_RESERVED = 3, 8
_SPACE_FROM = 4
"""Lines that the processes must have to spare before one is left blank above them."""
_PROCESS_STEP = 4
"""Room for processes grows in such steps, so that one more does not move all the charts."""
_LEAST_CHARTS = 5

_WIDE = 78
"""Cells that one of two columns of devices needs at least."""


class Arrangement(NamedTuple):
    """Lines of each part; 0 where it is left out."""

    host: int
    devices: int
    """Without the headings."""
    across: int
    """Columns of devices side by side."""
    charts: int
    spaces: int
    """Blank lines: above the processes, above the charts, above the devices, while there are."""

    @property
    def upper(self) -> int:
        """Lines between the header and the processes."""
        return self.host + 1 + self.devices + self.charts + self.spaces


def arrange(
    cells: int, height: int, devices: int, processes: int, hidden: Collection[str] = ()
) -> Arrangement:
    """Return the best use of a terminal for so many devices and processes.

    The processes have a few lines before anything else, then all devices, the host, and the
    processes again; what is left over is for the charts.
    """
    room = height - _FIXED_LINES
    reserved = min(_MOST_RESERVED, max(_LEAST_PROCESSES, room // 5))
    count = max(1, devices)
    lines = max(1, min(count, room - reserved))
    across = 2 if count > lines and cells >= 2 * _WIDE else 1
    lines = min(lines, -(-count // across))
    left = room - lines - reserved
    host = int(left > 0 and "host" not in hidden)
    left -= host
    spaces = int(left > _SPACE_FROM)
    left -= spaces
    wanted = -(-max(1, processes) // _PROCESS_STEP) * _PROCESS_STEP
    charts = min(left + reserved - wanted - 1, room // 2)
    if charts < _LEAST_CHARTS or "history" in hidden:
        charts = 0
    if charts:
        spaces += 1
        left -= charts + 1
    unclaimed = left + reserved - wanted if charts else left
    if host and left > 2 * _SPACE_FROM and unclaimed > 0:
        spaces += 1
    return Arrangement(host, lines, across, charts, spaces)
