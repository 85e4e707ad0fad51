"""How the lines of the terminal are shared out between host, devices, charts and processes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

MIN_DEVICE_CELLS = 13
"""Cells that a device takes at least, with the gap behind it."""


_FIXED_LINES = 4
"""Header, footer and the headings of both tables."""

_MIN_PROCESSES, _MAX_RESERVED = 3, 8
_SPACE_FROM = 4
"""Lines that the processes must have to spare before one is left blank above them."""
_PROCESS_STEP = 4
"""Room for processes grows in such steps, so that one more does not move all the charts."""
_MIN_CHARTS = 5
_OF_ALL = 2
"""Curves beside those of several GPUs: their mean, and the host's."""
_MAX_FINDINGS, _ROOM_FOR_FINDINGS = 3, 12

_WIDE = 78
"""Cells that one of two columns of devices needs at least."""


class Layout(NamedTuple):
    """Lines of each part; 0 where it is left out."""

    host: int
    devices: int
    """Without the headings; 0 where the processes are alone."""
    across: int
    """Columns of devices side by side."""
    charts: int
    spaces: int
    """Blank lines: above the devices, and between charts and processes."""
    seen: int
    """Devices in view at once; where that is not all, the last line shows which."""
    compact: bool = False
    """Whether a device has a few cells instead of a whole row."""
    findings: int = 0
    """Lines of what is wrong, below the devices."""

    @property
    def headed(self) -> int:
        """Lines of the devices with their headings."""
        return 1 + self.devices if self.devices else 0

    @property
    def upper(self) -> int:
        """Lines between the header and the processes."""
        return self.host + self.headed + self.findings + self.charts + self.spaces

    @property
    def device_lines(self) -> int:
        """Lines of devices, less the headings and the line that counts those in view."""
        return -(-self.seen // self.across)


class _Shares(NamedTuple):
    lines: int
    across: int
    compact: bool = False


def compute_layout(
    cells: int,
    height: int,
    devices: int,
    processes: int,
    hidden: Collection[str] = (),
    *,
    findings: int = 0,
    alone: str = "",
    curves: int = 4,
    young: bool = False,
) -> Layout:
    """Return the best use of a terminal for this number of devices and processes.

    The processes have a few lines before anything else, then all devices, the host, and the
    processes again; what is left over is for the charts. What is wrong has a line, several where
    there is room. The part that is to be `alone`, `devices` or `processes`, has all but a line or
    two; empty for neither. The charts have so many `curves`, 0 for no charts; while the history is
    `young`, none has more than a line.
    """
    room = height - _FIXED_LINES
    if alone:
        return _alone(cells, room, devices, alone)
    reserved = min(_MAX_RESERVED, max(_MIN_PROCESSES, room // 5))
    wanted = -(-max(1, processes) // _PROCESS_STEP) * _PROCESS_STEP
    shares = _shares(cells, room, reserved, max(1, devices), wanted)
    left = room - shares.lines - reserved
    host = int(left > 0 and "host" not in hidden)
    left -= host
    finding_lines = _finding_lines(left, findings)
    left -= finding_lines
    charts = left + reserved - wanted - 1
    if charts < _MIN_CHARTS or "history" in hidden or not curves:
        charts = 0
        # Below the processes they would stand empty.
        more = min(_MAX_FINDINGS - finding_lines, left + reserved - wanted) if finding_lines else 0
        finding_lines, left = finding_lines + max(0, more), left - max(0, more)
    # What follows the findings has a heading: their lines, some of them blank, separate enough.
    spaces = int(charts > 0)
    left -= charts + spaces
    if host and left > 2 * _SPACE_FROM and (not charts or left + reserved > wanted):
        spaces += 1
    # What no curve has is left to the processes.
    charts = _chart_lines(charts, curves, young=young)
    return _layout(shares, devices, host=host, charts=charts, spaces=spaces, findings=finding_lines)


def _chart_lines(room: int, curves: int, *, young: bool) -> int:
    """Return the lines of the charts: a title, and equally many for each curve.

    Where not all fit below each other, those of the GPUs stand side by side.
    """
    if not room:
        return 0
    height, rows = room - 1, curves
    if height < curves:
        gpus = curves - _OF_ALL
        rows = -(-gpus // -(-gpus // height))
    return 1 + rows * (1 if young else height // rows)


def _finding_lines(left: int, findings: int) -> int:
    """Return the lines of the findings: where there is room as many with none as with many.

    A finding that comes or goes then moves no row from under the mouse.
    """
    if left < _ROOM_FOR_FINDINGS:
        return int(left > _SPACE_FROM or (findings > 0 and left > 0))
    return _MAX_FINDINGS


def _alone(cells: int, room: int, devices: int, part: str) -> Layout:
    """Return an arrangement of one part, the processes reduced to the selected one."""
    if part == "processes":
        return Layout(0, 0, 1, 0, 0, 0)
    return _layout(_shares(cells, room, 1, max(1, devices), 1), devices)


def _shares(cells: int, room: int, reserved: int, count: int, wanted: int) -> _Shares:
    """Return the lines of the devices: rows while the processes do not want the room, or cells.

    To show all, they may have three fifths of the room, else half of it.
    """
    most = max(1, room - reserved)
    limit = max(1, min(most, max(room * 3 // 5, room - wanted)))
    for across in (1, 2):
        lines = -(-count // across)
        if lines <= limit and (across == 1 or cells >= across * _WIDE):
            return _Shares(lines, across)
    narrowest = max(1, cells // MIN_DEVICE_CELLS)
    half = max(1, min(most, max(room // 2, room - wanted)))
    across = min(narrowest, -(-count // half))
    lines = -(-count // across)
    return _Shares(lines if lines <= limit else half, across, compact=True)


def _layout(
    shares: _Shares,
    count: int,
    *,
    host: int = 0,
    charts: int = 0,
    spaces: int = 0,
    findings: int = 0,
) -> Layout:
    lines, across, compact = shares
    seen = count
    if count > lines * across:
        seen = max(1, lines - 1) * across
    return Layout(host, lines, across, charts, spaces, seen, compact, findings)
