"""A snapshot as a table for people: the host, its devices, then who holds them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from gpudash.analysis.columns import DEVICE_COLUMNS, PROCESS_COLUMNS
from gpudash.analysis.columns.devices import status, status_level
from gpudash.analysis.health.engine import findings
from gpudash.analysis.table import GAP, DeviceRow, Place, device_rows, fit, process_rows, taken
from gpudash.analysis.usage import nobody, tally, totals
from gpudash.model.snapshot import FindingLevel, Snapshot
from gpudash.model.text import width as cells
from gpudash.model.text import wrap
from gpudash.output.ansi import Style, painter
from gpudash.output.grid import Line, body, ellipsis, fitted, heading, shown

_LEAST_BAR = 5
_LEAST_MESSAGE = 24
_PAGE = 80
_IDENTITY = frozenset({"index", "name"})
_LEVELS: dict[FindingLevel, Style] = {"critical": "red", "warn": "yellow", "info": "plain"}
_USES: dict[str, Style] = {
    "LOST": "red",
    "not answering": "red",
    "needing a reset": "red",
    "failed": "red",
    "busy": "green",
    "held idle": "yellow",
}


def render(snapshot: Snapshot, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """Return the table, no line of it wider than `width` cells.

    With `ascii` nothing beyond ASCII is used and foreign text is escaped.
    """
    rows = device_rows(snapshot)
    places = _device_places(rows, width)
    sections = (
        _header(snapshot, min(width, max(taken(places), _PAGE)), ascii),
        _devices(rows, places, width, ascii),
        _processes(snapshot, width, ascii),
        _findings(snapshot, width, ascii),
        _errors(snapshot, width, ascii),
    )
    paint = painter(color)
    lines: list[str] = []
    for section in filter(None, sections):
        lines += [""] if lines else []
        for line in section:
            painted = [paint(text, style) for text, style in fitted(line, width)]
            lines.append("".join(painted).rstrip(" "))
    return "".join(f"{line}\n" for line in lines)


def _header(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    host = snapshot.host
    left: Line = [(shown(host.hostname, ascii), "bold")]
    if host.simulated:
        left.append(("  simulated", "yellow"))
    for label, value in (("driver", host.driver_version), ("CUDA", host.cuda_driver_version)):
        if value is not None:
            left += [(f"  {label} ", "dim"), (shown(value, ascii), "plain")]
    return [_spread(left, [(_local(snapshot.taken_at), "dim")], room), *_summary(snapshot, room)]


def _summary(snapshot: Snapshot, room: int) -> list[Line]:
    opening, counts = tally(snapshot)
    line: Line = [(opening, "plain")]
    for count, use in counts:
        line += [(": " if len(line) == 1 else ", ", "plain")]
        line.append((f"{count} {use}", _USES.get(use, "plain")))
    if _cells(line) > room:
        return _paragraph("".join(text for text, _ in line), "plain", room, ascii=True)
    return [_spread(line, [(totals(snapshot), "dim")], room)]


def _device_places(rows: list[DeviceRow], room: int) -> list[Place[DeviceRow]]:
    readable = any(row.device.state == "ok" for row in rows)
    columns = [column for column in DEVICE_COLUMNS if readable or column.key in _IDENTITY]
    return fit(columns, rows, room, bar=_LEAST_BAR)


def _devices(
    rows: list[DeviceRow], places: list[Place[DeviceRow]], room: int, ascii: bool
) -> list[Line]:
    lines = [heading(places)] if rows else []
    for row, line in zip(rows, body(places, rows, ascii=ascii), strict=True):
        lines += [line] if row.device.state == "ok" else _unread(row, places, room, ascii)
    return lines


def _unread(row: DeviceRow, places: list[Place[DeviceRow]], room: int, ascii: bool) -> list[Line]:
    """Return the row of a device without values: its identity, then what is wrong in words."""
    identity = [place for place in places if place.column.key in _IDENTITY]
    while len(identity) > 1 and room - taken(identity) - GAP < _LEAST_MESSAGE:
        identity.pop()
    start = taken(identity) + GAP
    fault = row.device.fault
    message = fault.message if fault else "powered down, not woken to be read"
    if not fault and row.device.state != "asleep":
        message = "its values cannot be read"
    style: Style = "red" if status_level(row) == "critical" else "dim"
    words = _paragraph(f"{status(row)}: {message}", style, room - start, ascii=ascii)
    first = [*body(identity, [row], ascii=ascii)[0], (" " * GAP, "plain"), *words[0]]
    return [first, *([(" " * start, "plain"), *line] for line in words[1:])]


def _processes(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    rows = process_rows(snapshot)
    if not rows:
        return [[(nobody(snapshot), "plain")]]
    places = fit(PROCESS_COLUMNS, rows, room)
    return [heading(places), *body(places, rows, ascii=ascii)]


def _findings(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    """Return what is wrong or wasteful, and what to do about all that is worse than a remark."""
    lines: list[Line] = []
    for finding in findings(snapshot):
        text, style = f"{finding.level}: {finding.sentence}", _LEVELS[finding.level]
        lines += _paragraph(text, style, room, ascii=ascii, indent=2)
        if finding.level != "info" and finding.advice:
            words = _paragraph(finding.advice, "dim", max(1, room - 2), ascii=ascii)
            lines += [[("  ", "plain"), *line] for line in words]
    return lines


def _errors(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    lines: list[Line] = []
    for error in snapshot.errors:
        lines += _paragraph(f"! {error.message}", "yellow", room, ascii=ascii, indent=2)
    return lines


def _paragraph(text: str, style: Style, room: int, *, ascii: bool, indent: int = 0) -> list[Line]:
    """Return text in words on as many lines as it takes, the later ones indented."""
    first, *others = wrap(shown(text, ascii), room - indent, mark=ellipsis(ascii))
    return [[(first, style)], *([(" " * indent, "plain"), (line, style)] for line in others)]


def _spread(left: Line, right: Line, room: int) -> Line:
    """Return both sides of a line, or the left one alone where the two do not fit."""
    space = room - _cells(left) - _cells(right)
    return [*left, (" " * space, "plain"), *right] if space >= GAP else left


def _local(moment: datetime) -> str:
    """Return a time on the reader's clock, to the second."""
    with suppress(OverflowError, OSError):  # at either end of the calendar it stays UTC
        moment = moment.astimezone()
    return moment.isoformat(" ", "seconds")[: len("2026-01-02 03:04:05")]


def _cells(line: Line) -> int:
    return sum(cells(text) for text, _ in line)
