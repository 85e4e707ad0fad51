"""Division of the terminal's lines between host, devices, charts and processes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

MIN_DEVICE_CELLS = 13
"""Minimum width of a device, with the gap after it."""


_FIXED_LINES = 4
"""The header, the footer and the headings of both tables."""

_MIN_PROCESSES, _MAX_RESERVED = 3, 8
_SPACE_FROM = 4
"""Lines that the processes must have to spare before one above them is left blank."""
_PROCESS_STEP = 4
"""Step in which the processes' room grows, so that one more does not move all the charts."""
_MIN_CHARTS = 5
_OF_ALL = 2
"""Curves besides those of several GPUs: their mean, and the host's."""
_MAX_FINDINGS, _ROOM_FOR_FINDINGS = 3, 12

_WIDE = 78
"""Minimum width of a column of devices, if there are two."""


class Layout(NamedTuple):
    """Lines of each part; 0 if it is left out."""

    host: int
    devices: int
    """Without the headings; 0 if only processes are shown."""
    across: int
    """Number of columns of devices."""
    charts: int
    spaces: int
    """Blank lines: above the devices, and between charts and processes."""
    seen: int
    """Devices in view at once; if that is not all, the last line shows which."""
    compact: bool = False
    """Whether devices take a few cells instead of a whole row each."""
    findings: int = 0
    """Lines of findings, below the devices."""

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
        """Lines of devices, without the headings and the line that counts those in view."""
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

    The processes come first with a few lines, then all devices, the host, and again the processes;
    the rest goes to the charts. Findings have one line, or several if there is room. The part to
    show `alone`, `devices` or `processes`, has all but a line or two; empty for neither. `curves`
    is the number of charts' curves, 0 for none; while the history is `young`, each has at most one
    line.
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
        # Below the processes, they would be empty.
        more = min(_MAX_FINDINGS - finding_lines, left + reserved - wanted) if finding_lines else 0
        finding_lines, left = finding_lines + max(0, more), left - max(0, more)
    # The part after the findings has a heading: their lines, some of them blank, separate enough.
    spaces = int(charts > 0)
    left -= charts + spaces
    if host and left > 2 * _SPACE_FROM and (not charts or left + reserved > wanted):
        spaces += 1
    # Lines that no curve has are left to the processes.
    charts = _chart_lines(charts, curves, young=young)
    return _layout(shares, devices, host=host, charts=charts, spaces=spaces, findings=finding_lines)


def _chart_lines(room: int, curves: int, *, young: bool) -> int:
    """Return the lines of the charts: a title, and the same number for each curve.

    If they do not fit below each other, those of the GPUs are side by side.
    """
    if not room:
        return 0
    height, rows = room - 1, curves
    if height < curves:
        gpus = curves - _OF_ALL
        rows = -(-gpus // -(-gpus // height))
    return 1 + rows * (1 if young else height // rows)


def _finding_lines(left: int, findings: int) -> int:
    """Return the lines for findings: if there is room, independent of their number.

    A finding that comes or goes then moves no row from under the mouse.
    """
    if left < _ROOM_FOR_FINDINGS:
        return int(left > _SPACE_FROM or (findings > 0 and left > 0))
    return _MAX_FINDINGS


def _alone(cells: int, room: int, devices: int, part: str) -> Layout:
    """Return the layout of one part, with the processes reduced to the selected one."""
    if part == "processes":
        return Layout(0, 0, 1, 0, 0, 0)
    return _layout(_shares(cells, room, 1, max(1, devices), 1), devices)


def _shares(cells: int, room: int, reserved: int, count: int, wanted: int) -> _Shares:
    """Return the lines of the devices: whole rows unless the processes need the room.

    Up to three fifths of the room if that shows all of them, else up to half.
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
